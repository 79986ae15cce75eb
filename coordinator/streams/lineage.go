package streams

import (
	"slices"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// maxTopologyVersions is how many topologies a group remembers by their hashes, the one of now included. What is older is
// new to the group when it comes again.
const maxTopologyVersions = 64

// maxTopologyContents is of how many earlier topologies the group keeps the content: of the one before, and of those that
// members still run. Members of an older one keep no task.
const maxTopologyContents = 4

// lineage is what the topologies of a group are once a decision stands. It is read by every heartbeat, and costs nothing in
// a group whose topology never changed.
type lineage struct {
	group *fsm.Group
	// current is the topology of the group, nil before the first; root is its root (record.TopologyVersion).
	current *topology.Topology
	root    int32
	// changed are the versions that the decision writes; one without a value is deleted.
	changed []fsm.TopologyVersion
}

func lineageOf(g *fsm.Group) lineage {
	l := lineage{group: g, current: groupTopology(g)}
	if l.current != nil {
		l.root = l.current.Epoch
		if v := g.TopologyVersion(l.root); v != nil {
			l.root = v.Root
		}
	}
	return l
}

// version is the topology that the group has or had under an epoch, or nil. Those above the topology's epoch are of
// decisions that the log does not hold as a whole.
func (l *lineage) version(epoch int32) *record.TopologyVersion {
	for i := range l.changed {
		if l.changed[i].Epoch == epoch {
			return l.changed[i].TopologyVersion
		}
	}
	if l.current == nil || epoch > l.current.Epoch {
		return nil
	}
	return l.group.TopologyVersion(epoch)
}

// stale says whether who runs the topology of that epoch runs another one than the group's.
func (l *lineage) stale(epoch int32) bool {
	if epoch == l.current.Epoch {
		return false
	}
	v := l.version(epoch)
	return v == nil || v.Root != l.root
}

// content is the topology of an epoch; nil where it is not known any more, or never was.
func (l *lineage) content(epoch int32) *topology.Topology {
	if !l.stale(epoch) {
		return l.current
	}
	if v := l.version(epoch); v != nil {
		return v.Content
	}
	return nil
}

// now is the version of the group's topology; one is made up where none was written, since it is the first.
func (l *lineage) now() record.TopologyVersion {
	if v := l.version(l.current.Epoch); v != nil {
		return *v
	}
	return record.TopologyVersion{Root: l.root, First: l.current.Epoch, Declared: l.current.Epoch, LastDeclared: l.current.Epoch, Hash: l.current.ContentHash()}
}

// find returns the newest earlier version with the given content, and with the epoch that the app declares where that
// counts; nil when there is none. What the group had before it was empty and took another topology is not meant: nobody can
// have missed its session since then.
func (l *lineage) find(hash [topology.ContentHashSize]byte, declared *int32) *fsm.TopologyVersion {
	if v := l.findAny(hash, declared); v != nil && v.First == l.now().First {
		return v
	}
	return nil
}

// findAny is find in all that the group remembers.
func (l *lineage) findAny(hash [topology.ContentHashSize]byte, declared *int32) (found *fsm.TopologyVersion) {
	for v := range l.group.TopologyVersions() {
		if v.Epoch < l.current.Epoch && v.Hash == hash && (declared == nil || v.Declared == *declared) {
			found = &v
		}
	}
	return found
}

// previous is the version that the group's topology replaced: the newest earlier one of another root whose content is
// known; nil when there is none.
func (l *lineage) previous() (found *fsm.TopologyVersion) {
	for v := range l.group.TopologyVersions() {
		if v.Epoch < l.current.Epoch && v.Content != nil && !v.Foreign && v.Root != l.root {
			found = &v
		}
	}
	return found
}

// learn keeps the topology with which a member comes that is behind the group, so that it goes on with what it may, and
// returns the records and the topology epoch that stands for it. It is the one that the app sent, unless that is taken or
// the group knows enough of them: then the member is one whose topology is not known, and has no tasks.
func (l *lineage) learn(sent *topology.Topology) (epoch int32, records []record.Record) {
	if v := l.findAny(sent.ContentHash(), &sent.Epoch); v != nil && l.stale(v.Epoch) {
		return v.Epoch, nil // from before the group was empty
	}
	if sent.Epoch >= l.current.Epoch || l.version(sent.Epoch) != nil {
		return unknownTopology, nil
	}
	contents := 0
	for v := range l.group.TopologyVersions() {
		if v.Content != nil && v.Epoch < l.current.Epoch {
			contents++
		}
	}
	if contents >= maxTopologyContents {
		return sent.Epoch, nil
	}
	v := fsm.TopologyVersion{Epoch: sent.Epoch, TopologyVersion: &record.TopologyVersion{
		Root: sent.Epoch, First: l.now().First, Declared: sent.Epoch, LastDeclared: sent.Epoch, Hash: sent.ContentHash(),
		Foreign: true, Content: sent.Clone(),
	}}
	r := record.Record{Key: l.key(v.Epoch), Value: v.TopologyVersion}
	if record.Size(r) > record.MaxRecordSize {
		return sent.Epoch, nil
	}
	l.changed = append(l.changed, v)
	return v.Epoch, []record.Record{r}
}

// unknownTopology is the topology epoch of a member whose topology the group does not know, where the one that it sent stands
// for another topology.
const unknownTopology int32 = -1

// replace makes next the group's topology, under the version v, and returns the records of the history. tasks are the task
// counts of the topology of before, running the topology epochs of all members.
func (l *lineage) replace(next *topology.Topology, v record.TopologyVersion, tasks []record.TaskCount, running map[int32]bool) []record.Record {
	before := fsm.TopologyVersion{Epoch: l.current.Epoch}
	old := l.now()
	old.Content, old.Tasks = l.current, tasks
	before.TopologyVersion = &old
	if record.Size(record.Record{Key: l.key(before.Epoch), Value: &old}) > record.MaxRecordSize {
		old.Content, old.Tasks = nil, nil // the topology alone fills a record
	}
	changed := l.forget(next.Epoch, running)
	changed = append(changed, before, fsm.TopologyVersion{Epoch: next.Epoch, TopologyVersion: &v})
	l.current, l.root, l.changed = next, v.Root, changed

	records := make([]record.Record, 0, len(changed)+1)
	for _, c := range changed {
		r := record.Record{Key: l.key(c.Epoch)}
		if c.TopologyVersion != nil {
			r.Value = c.TopologyVersion
		}
		records = append(records, r)
	}
	return records
}

// forget bounds what the group keeps of topologies before the current one, which becomes the previous of next.
func (l *lineage) forget(next int32, running map[int32]bool) (changed []fsm.TopologyVersion) {
	all := slices.Collect(l.group.TopologyVersions())
	contents, versions := 1, 2 // those of the current and the next
	for _, v := range slices.Backward(all) {
		switch {
		case v.Epoch == l.current.Epoch || v.Epoch == next:
			continue
		case v.Epoch > l.current.Epoch || versions >= maxTopologyVersions || v.Foreign && len(running) == 0:
			changed = append(changed, fsm.TopologyVersion{Epoch: v.Epoch})
			continue
		}
		versions++
		switch {
		case v.Content == nil:
		case contents < maxTopologyContents && running[v.Epoch]:
			contents++
		default:
			hash := *v.TopologyVersion
			hash.Content, hash.Tasks = nil, nil
			changed = append(changed, fsm.TopologyVersion{Epoch: v.Epoch, TopologyVersion: &hash})
		}
	}
	return changed
}

func (l *lineage) key(epoch int32) record.Key {
	return record.Key{Type: record.TypeTopologyVersion, Group: l.group.ID, ID: epoch}
}

// runningEpochs are the topology epochs of the members.
func runningEpochs(g *fsm.Group) map[int32]bool {
	running := map[int32]bool{}
	for m := range g.Members() {
		running[metaOf(m).TopologyEpoch] = true
	}
	return running
}

// taskCounts are the task counts of a topology as they are known, ids ascending.
func taskCounts(soft *Soft, t *topology.Topology) []record.TaskCount {
	if soft == nil || soft.Topics == nil || soft.Topics.Topology != t {
		return nil
	}
	var counts []record.TaskCount
	for i := range soft.Topics.Configured.Subtopologies {
		s := &soft.Topics.Configured.Subtopologies[i]
		counts = append(counts, record.TaskCount{Subtopology: s.ID, Tasks: s.NumTasks})
	}
	return counts
}

// validated is the topology epoch whose topics were last found complete: that of an earlier topology while the topics of
// the group's have not been complete for the first time, -1 when they were and are not any more.
func (l *lineage) validated(stored int32, c *topology.Configured) int32 {
	if !c.Ready() && stored >= 0 && stored < l.current.Epoch {
		return stored
	}
	return validatedEpoch(c)
}
