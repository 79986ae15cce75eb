package streams

import (
	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// The rules for members of earlier topologies. Whatever a target says, no member is told a task of a subtopology that it
// does not have with the same content as the group's topology: the client would fail on it. A stale member keeps the tasks
// of such subtopologies that it runs already, each in its role, and gets nothing else.

// runnable is a set of subtopologies; all of them where ids is nil.
type runnable struct{ ids map[string]bool }

// only are the tasks of the subtopologies of the set. It allocates nothing where that is all of them.
func (r runnable) only(a topology.Assignment) topology.Assignment {
	if r.ids == nil {
		return a
	}
	keep := func(t topology.Task) bool { return r.ids[t.Subtopology] }
	return topology.Assignment{Active: a.Active.Filter(keep), Standby: a.Standby.Filter(keep), Warmup: a.Warmup.Filter(keep)}
}

func (r runnable) fits(a *topology.Assignment) bool {
	if r.ids == nil {
		return true
	}
	for _, tasks := range [...]topology.Tasks{a.Active, a.Standby, a.Warmup} {
		for i := range tasks {
			if !r.ids[tasks[i].Subtopology] {
				return false
			}
		}
	}
	return true
}

// standing says whether the tasks of before go on as they are, because the topics of the group's new topology have not been
// complete yet while those of an earlier one were: Kafka would take all tasks away until they are. It returns that earlier
// topology; nil where it is not known any more.
func (l *lineage) standing(validated int32, c *topology.Configured) (earlier *topology.Topology, stands bool) {
	if c.Ready() || validated < 0 || validated >= l.current.Epoch {
		return nil, false
	}
	return l.content(validated), true
}

// eligibility says for members by their topology epoch which subtopologies they may have tasks of.
type eligibility struct {
	line *lineage
	// stands and earlier are as of lineage.standing.
	stands  bool
	earlier *topology.Topology
	known   map[int32]runnable
}

func (l *lineage) eligibility(validated int32, c *topology.Configured) eligibility {
	e := eligibility{line: l}
	e.earlier, e.stands = l.standing(validated, c)
	return e
}

// of is for one topology epoch.
func (e *eligibility) of(epoch int32) runnable {
	if !e.stands && len(e.line.changed) == 0 && epoch == e.line.current.Epoch && e.line.group.TopologyVersion(epoch) == nil {
		return runnable{} // the group never had another topology
	}
	r, ok := e.known[epoch]
	if !ok {
		r = runnable{unchanged(e.line.content(epoch), e.line.current)}
		if e.stands {
			before := unchanged(e.earlier, e.line.current)
			for id := range r.ids {
				if !before[id] {
					delete(r.ids, id)
				}
			}
		}
		if e.known == nil {
			e.known = map[int32]runnable{}
		}
		e.known[epoch] = r
	}
	return r
}

// unchanged are the subtopologies of the one topology that the other has with the same id and content. It is never nil.
func unchanged(from, to *topology.Topology) map[string]bool {
	ids := map[string]bool{}
	if from == nil || to == nil {
		return ids
	}
	same := make(map[string]*topology.Subtopology, len(to.Subtopologies))
	for i := range to.Subtopologies {
		same[to.Subtopologies[i].ID] = &to.Subtopologies[i]
	}
	for i := range from.Subtopologies {
		s := &from.Subtopologies[i]
		if o := same[s.ID]; o != nil && (o == s || s.Equal(o)) {
			ids[s.ID] = true
		}
	}
	return ids
}

// shed takes from a member that joins anew with another topology what it had, and was to get, of subtopologies that are not the
// same in both: whatever has the same id now is another task.
func (h *heartbeat) shed(d *Decision) {
	if !h.known && h.replaced == nil || h.meta.TopologyEpoch == h.oldMeta.TopologyEpoch {
		return
	}
	same := runnable{unchanged(h.line.content(h.oldMeta.TopologyEpoch), h.line.content(h.meta.TopologyEpoch))}
	if h.target != nil && !same.fits(&h.target.Assignment) {
		h.target = &record.TargetMember{Assignment: same.only(h.target.Assignment)}
		d.Records = append(d.Records, record.Record{Key: h.memberKey(record.TypeTargetMember), Value: h.target})
	}
	if !same.fits(&h.current.Assigned) || !same.fits(&h.current.Revoking) {
		c := *h.current
		c.Assigned, c.Revoking = same.only(c.Assigned), same.only(c.Revoking)
		h.current = &c
		d.Records = append(d.Records, record.Record{Key: h.memberKey(record.TypeCurrentAssignment), Value: h.current})
	}
}

// limit bounds what the member may be moved to, and says whether it has to give something up at once: after a join it is told
// its tasks anew, by a client that may have another topology than the one that it got them with.
func (h *heartbeat) limit(goal topology.Assignment) (limited topology.Assignment, misfit bool) {
	e := h.line.eligibility(h.validated, h.topics.Configured)
	r := e.of(h.meta.TopologyEpoch)
	goal = r.only(goal)
	gone := false
	if r.ids != nil {
		goal = existing(goal, h.topics.Configured)
		gone = h.joining() && existing(h.current.Assigned, h.topics.Configured).Len() < h.current.Assigned.Len()
	}
	if h.stale || e.stands {
		goal = intersect(goal, h.current.Assigned)
	}
	return goal, h.joining() && (!r.fits(&h.current.Assigned) || !r.fits(&h.current.Revoking)) || gone
}

// limits marks the members of an assignor's input that are stale, and takes the tasks from them that they have to give up.
// epochs are the members' topology epochs.
func (t *targetInput) limits(spec *assignor.Spec, epochs []int32) {
	e := t.line.eligibility(t.validated, t.topics)
	for i := range spec.Members {
		m := &spec.Members[i]
		if m.Stale = e.stands || t.line.stale(epochs[i]); m.Stale {
			m.Current = existing(e.of(epochs[i]).only(m.Current), t.topics)
		}
	}
}

// existing leaves out what the topics have no partitions for any more, where that is known.
func existing(a topology.Assignment, c *topology.Configured) topology.Assignment {
	if !c.Ready() {
		return a
	}
	keep := func(t topology.Task) bool {
		n, ok := c.Tasks(t.Subtopology)
		return ok && t.Partition < n
	}
	return topology.Assignment{Active: a.Active.Filter(keep), Standby: a.Standby.Filter(keep), Warmup: a.Warmup.Filter(keep)}
}

// told are the problems of topics that concern the member. One that would end the application is not told to the members of
// an earlier topology as long as their tasks go on: it is about topics that they do not read.
func (h *heartbeat) told(kind topology.ProblemKind) bool {
	_, stands := h.line.standing(h.validated, h.topics.Configured)
	return !stands || !h.stale || kind == topology.MissingInternalTopics
}

// ownTask says of a stale member whether the topology that it runs has the task, as far as that is known: a late report
// must not end the application.
func (h *heartbeat) ownTask(t topology.Task) bool {
	if !h.stale || t.Partition < 0 {
		return false
	}
	content := h.line.content(h.meta.TopologyEpoch)
	if content == nil {
		return true
	}
	if content.Subtopology(t.Subtopology) == nil {
		return false
	}
	if v := h.line.version(h.meta.TopologyEpoch); v != nil {
		for _, c := range v.Tasks {
			if c.Subtopology == t.Subtopology {
				return t.Partition < c.Tasks
			}
		}
	}
	return true
}
