package shard

import (
	"maps"
	"slices"
	"testing"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// rig is a machine with a host whose outcomes the test hands back, one by one.
type rig struct {
	t testing.TB
	*Machine
	now      int64
	settings coordinator.GroupSettings
	topics   topics
	changes  uint64 // of topics
	// topicID is the id of the topic "in" where it is not that of the others.
	topicID [16]byte
	// oldTopics says that the topics are a picture from before the leadership.
	oldTopics bool
	// topicsAsOf is when the topics were read last; 0: just now.
	topicsAsOf int64

	refreshed int
	// needed counts calls of RefreshNeeded.
	needed    int
	known     int64 // what Proof says
	proposed  []record.Entry
	verifies  []int64
	wakeAt    int64
	foreign   []string
	claims    []string
	releases  []string
	forgotten []string
	commits   []*offsets.CommitRequest
	drops     []uint64
	ops       []uint64
	events    []Event
	created   []string
	unwanted  []string
	// lookups are the questions for topics that are open; elapse answers them by the topics, but for those of unclear.
	lookups  []lookupAsked
	unclear  map[string]bool
	silent   bool // nor then
	compared int
	wanted   map[string][]topology.InternalTopic
	// creationError is what CreationError says of any topic.
	creationError string
	// hindrance is what OffsetsHindrance says.
	hindrance string
	jobs      []job
}

type job struct {
	op  uint64
	run *streams.TargetJob
}

type lookupAsked struct {
	op     uint64
	topics []string
}

// looksUp answers the questions for topics.
func (r *rig) looksUp() {
	for len(r.lookups) > 0 && !r.silent {
		asked := r.lookups[0]
		r.lookups = r.lookups[1:]
		there, _ := r.Topics()
		found := map[string]topology.Lookup{}
		for _, name := range asked.topics {
			if topic, exists := there.Topic(name); !r.unclear[name] {
				found[name] = topology.Lookup{Missing: !exists}
				if exists {
					found[name] = topology.Lookup{ID: topic.ID}
				}
			}
		}
		r.TopicsLookedUp(r.now, asked.op, found)
		r.Flush()
	}
}

type topics map[string]int32

func (t topics) Topic(name string) (topology.Topic, bool) {
	n, ok := t[name]
	return topology.Topic{Name: name, Partitions: n, ID: [16]byte{1}}, ok
}

// remade are topics of which "in" was made again.
type remade struct {
	topics
	id [16]byte
}

func (t remade) Topic(name string) (topology.Topic, bool) {
	topic, ok := t.topics.Topic(name)
	if name == "in" {
		topic.ID = t.id
	}
	return topic, ok
}

func (t topics) Names() []string { return slices.Sorted(maps.Keys(t)) }

func (r *rig) Propose(_ uint64, e record.Entry, change *Change) {
	r.proposed = append(r.proposed, e)
	if change == nil {
		return
	}
	// What the change promises is what every other replica makes of the entry.
	if to, err := change.From.EvolveAll(e.Records); err != nil || to.Digest() != change.To.Digest() {
		r.t.Errorf("an entry does not make of the state what it says: %v", err)
	}
}
func (r *rig) Proof(uint64) int64                         { return r.known }
func (r *rig) Verify(at int64)                            { r.verifies = append(r.verifies, at) }
func (r *rig) Wake(at int64)                              { r.wakeAt = at }
func (r *rig) Settings(string) *coordinator.GroupSettings { return &r.settings }
func (r *rig) Topics() (topology.Metadata, uint64) {
	if r.topicID != [16]byte{} {
		return remade{r.topics, r.topicID}, uint64(len(r.topics)) + r.changes
	}
	return r.topics, uint64(len(r.topics)) + r.changes
}
func (r *rig) Leaders() topology.Leaders { return nil }
func (r *rig) Assignor(name string) assignor.Assignor {
	if name == assignor.HighlyAvailableName {
		return assignor.HighlyAvailable()
	}
	return assignor.Sticky()
}
func (r *rig) RefreshTopics() { r.refreshed++ }
func (r *rig) RefreshNeeded() { r.needed++ }
func (r *rig) LookUpTopics(op uint64, topics []string) {
	r.lookups = append(r.lookups, lookupAsked{op, topics})
}
func (r *rig) TopicsCurrent() bool { return !r.oldTopics }
func (r *rig) TopicsAsOf() int64 {
	if r.topicsAsOf != 0 {
		return r.topicsAsOf
	}
	return r.Machine.now + 1
}
func (r *rig) CreationError(string) string { return r.creationError }
func (r *rig) CreateTopics(g string, topics []topology.InternalTopic) {
	if r.wanted == nil {
		r.wanted = map[string][]topology.InternalTopic{}
	}
	r.wanted[g] = topics
	if len(topics) > 0 {
		r.created = append(r.created, g)
	} else {
		r.unwanted = append(r.unwanted, g)
	}
}
func (r *rig) CompareTopics(string, []topology.InternalTopic)    { r.compared++ }
func (r *rig) Foreign(group string)                              { r.foreign = append(r.foreign, group) }
func (r *rig) Claim(group string)                                { r.claims = append(r.claims, group) }
func (r *rig) Release(group string)                              { r.releases = append(r.releases, group) }
func (r *rig) Forget(group string)                               { r.forgotten = append(r.forgotten, group) }
func (r *rig) Fetch(op uint64, _ *offsets.FetchRequest)          { r.ops = append(r.ops, op) }
func (r *rig) DeleteOffsets(op uint64, _ *offsets.DeleteRequest) { r.ops = append(r.ops, op) }
func (r *rig) DropOffsets(op uint64, _ string)                   { r.drops = append(r.drops, op) }
func (r *rig) Compute(op uint64, j *streams.TargetJob)           { r.jobs = append(r.jobs, job{op, j}) }
func (r *rig) OffsetsHindrance() string                          { return r.hindrance }
func (r *rig) Observe(e Event)                                   { r.events = append(r.events, e) }
func (r *rig) Commit(op uint64, request *offsets.CommitRequest) {
	r.commits = append(r.commits, request)
	r.ops = append(r.ops, op)
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, now: 1_000_000, topics: topics{"in": 4}, settings: coordinator.GroupSettings{
		SessionTimeoutMs: 45000, HeartbeatIntervalMs: 5000, MaxSize: 1000, TaskOffsetIntervalMs: 60000,
		OffsetMetadataMaxBytes: 4096, AssignorName: "sticky",
	}}
	r.Machine = New(r, DefaultOptions())
	r.elect()
	return r
}

func (r *rig) elect() {
	r.Elected(r.now, 1, fsm.NewState())
	r.freshProof()
}

// freshProof gives the machine a fresh proof of leadership.
func (r *rig) freshProof() {
	r.proving = true
	r.Verified(r.now, r.now, true)
}

// answer collects what a call was told.
type answer struct {
	done bool
	n    int
}

func (a *answer) CallDone(*Call) { a.done, a.n = true, a.n+1 }

// What the upstream may have under the id of a group.
var (
	noForeign = coordinator.ForeignGroup{}
	consumers = coordinator.ForeignGroup{Type: "consumer", InUse: true}
	simple    = coordinator.ForeignGroup{Type: "classic", Offsets: true} // offsets without a member
)

var client = &coordinator.Client{ID: "app", Host: "/127.0.0.1", Principal: "User:ANONYMOUS"}

func (r *rig) send(request any) (*Call, *answer) {
	a := &answer{}
	c := &Call{Client: client, Request: request, Done: a}
	r.Submit(r.now, c)
	r.Flush()
	return c, a
}

func join(group, member string) *streams.HeartbeatRequest {
	process := "p-" + member
	return &streams.HeartbeatRequest{
		Version: 1, GroupID: group, MemberID: member, EndpointEpoch: -1, RebalanceTimeoutMs: 60000, ProcessID: &process,
		Topology: &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}},
		Active:   topology.Tasks{}, Standby: topology.Tasks{}, Warmup: topology.Tasks{}, ClientTags: []record.KeyValue{},
	}
}

func beat(group, member string, epoch int32) *streams.HeartbeatRequest {
	return &streams.HeartbeatRequest{Version: 1, GroupID: group, MemberID: member, MemberEpoch: epoch, RebalanceTimeoutMs: -1}
}

func report(group, member string, epoch int32, active topology.Tasks) *streams.HeartbeatRequest {
	h := beat(group, member, epoch)
	h.Active, h.Standby, h.Warmup = active.WithoutEpochs(), topology.Tasks{}, topology.Tasks{}
	if h.Active == nil {
		h.Active = topology.Tasks{}
	}
	return h
}

// commitAll lets the entries in flight be committed, and those that follow.
func (r *rig) commitAll() {
	for r.inflight != nil {
		r.Committed(r.now, r.inflight.id)
		r.Flush()
	}
}

// joined makes a member of a group and returns its answer.
func (r *rig) joined(group, member string) streams.HeartbeatResponse {
	r.t.Helper()
	asked := len(r.foreign)
	c, a := r.send(join(group, member))
	if len(r.foreign) > asked {
		r.ForeignChecked(r.now, group, noForeign, nil)
		r.Flush()
	}
	r.commitAll()
	if !a.done || c.Err != nil || c.Heartbeat.Err != nil {
		r.t.Fatalf("join of %s: done %v, %v, %v", member, a.done, c.Err, c.Heartbeat.Err)
	}
	return c.Heartbeat
}
