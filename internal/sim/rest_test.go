package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

const (
	// stepRounds bounds the heartbeats of each member that one step of a group's moves takes: 8 as in any group (quietRounds in
	// coordinator/streams), 3 while a copy restores, and 2 intervals of silence for one of which nothing can be known.
	stepRounds = 8 + int(restoreWithin/time.Second) + 2*int(offsetInterval/time.Second)
	// warmRounds bounds how many heartbeats of each member a group with warm-ups takes to be at rest, from when nobody is in it any more
	// who is gone. With one warm-up at a time a member that comes gets half of 8 tasks in 4 steps; the first target and a standby that
	// moves take one more each.
	warmRounds = 6 * stepRounds
)

// rounds is how many heartbeats of each member were answered since the group has had nobody but those that live.
func (s *simulation) rounds(g *group) int {
	committed := s.observer.groupState(g.id)
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	same := g.calm != nil && len(g.calm) == len(g.members) && committed.NumMembers() == len(g.members)
	for _, m := range g.members {
		_, known := g.calm[m]
		same = same && known && committed.Member(m.id) != nil
	}
	if !same {
		g.calm = map[*member]int{}
		for _, m := range g.members {
			g.calm[m] = m.answers
		}
		return 0
	}
	least := -1
	for m, from := range g.calm {
		if n := m.answers - from; least < 0 || n < least {
			least = n
		}
	}
	return max(0, least)
}

// unbalanced says what of a group that moves nothing is not where it should be: members differ by one active task at most, no
// task is on its way by a warm-up, and each with state has its standbys.
func (s *simulation) unbalanced(g *group, committed *fsm.Group) string {
	least, most := -1, 0
	processes, standbys := map[string]bool{}, map[topology.Task]int{}
	stateful := map[topology.Task]bool{}
	for m := range committed.Members() {
		processes[m.Meta.ProcessID] = true
		assigned := heldOf(m.Current.Assigned)
		if len(assigned[warmup]) > 0 || m.Target != nil && !m.Target.Assignment.Warmup.IsEmpty() {
			return fmt.Sprintf("%s has warm-ups: %v", m.ID, assigned)
		}
		n := len(assigned[active])
		most = max(most, n)
		if least < 0 || n < least {
			least = n
		}
		for _, t := range assigned[active] {
			stateful[t] = t.Subtopology == g.stateful
		}
		for _, t := range assigned[standby] {
			standbys[t]++
		}
	}
	if most > least+1 {
		return fmt.Sprintf("one member has %d active tasks, another %d", least, most)
	}
	for t, has := range stateful {
		if want := min(g.standbys, len(processes)-1); has && standbys[t] != want {
			return fmt.Sprintf("task %v has %d standbys, not %d", t, standbys[t], want)
		}
	}
	return ""
}

// calmFor is for how long nothing may be written once all groups are at rest.
const calmFor = 15 * time.Second

// resting waits until no hop is late any more, and looks that heartbeats, which go on to tell how far standbys are, write nothing,
// whoever leads.
func (s *simulation) resting() bool {
	time.Sleep(time.Until(s.observer.settledBy(time.Now())))
	if !s.settle("hops that were late") {
		return false
	}
	if !s.claimed() {
		return false
	}
	before, were := s.written(), map[string]string{}
	for _, g := range s.groups {
		were[g.id] = shown(s.observer.groupState(g.id))
	}
	time.Sleep(calmFor)
	after := s.written()
	if before == after {
		return true
	}
	s.t.Errorf("all groups were at rest, and the logs of the shards grew from %v to %v", before, after)
	for _, g := range s.groups {
		if is := shown(s.observer.groupState(g.id)); is != were[g.id] {
			s.t.Errorf("group %s was %s\nand is %s", g.id, were[g.id], is)
		}
	}
	return false
}

// claimed waits until groups have their membership upstream, which they take and let go some time after their first member came
// and the last one went.
func (s *simulation) claimed() bool {
	why := ""
	for until := time.Now().Add(settleWithin); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		why = ""
		for _, g := range s.groups {
			if c := s.observer.groupState(g.id); c != nil && c.OffsetsClaimed != (c.NumMembers() > 0) {
				why = fmt.Sprintf("group %s has %d members, and a claim of its offsets: %v", g.id, c.NumMembers(), c.OffsetsClaimed)
			}
		}
		if why == "" {
			return true
		}
	}
	s.t.Error(why)
	return false
}

// shown is a group for people.
func shown(g *fsm.Group) string {
	if g == nil {
		return "not there"
	}
	return fmt.Sprintf("of %d members, epochs %d and %d, claimed %v, marks %+v, topics %+v, metadata %+v, journal %+v",
		g.NumMembers(), g.Epoch(), g.AssignmentEpoch(), g.OffsetsClaimed, g.Marks, g.Topics, g.Metadata, g.LastJournal())
}

// written is the newest index of each shard's log.
func (s *simulation) written() (w [shards]uint64) {
	for i := range w {
		w[i], _ = s.observer.lastState(uint32(i + 1))
	}
	return w
}

// useWarmups gives a group an assignor that moves tasks by warm-ups, and members that report how far their copies are.
func (s *simulation) useWarmups(i int, g *group) {
	admin := newConfigAdmin(s.t, s.cluster)
	g.state, g.standbys = newAppState(g.stateful), s.rand.IntN(2)
	for name, value := range map[string]string{
		"streams.assignor.name":           []string{"highly_available", "auto"}[i%4/2],
		"streams.num.standby.replicas":    strconv.Itoa(g.standbys),
		"streams.acceptable.recovery.lag": strconv.Itoa(acceptableLag),
		"streams.task.offset.interval.ms": strconv.FormatInt(offsetInterval.Milliseconds(), 10),
	} {
		admin.mustSet(g.id, name, value)
	}
	s.newBudget(g)
}

// newBudget sets how many warm-ups a group may have at once.
func (s *simulation) newBudget(g *group) {
	n := 1 + s.rand.IntN(2)
	s.observer.allows(g.id, func(now int) int { return max(now, n) }) // it may count from now on
	newConfigAdmin(s.t, s.cluster).mustSet(g.id, "streams.num.warmup.replicas", strconv.Itoa(n))
	s.observer.allows(g.id, func(int) int { return n })
}

// restless says how a group is that does not come to rest: what its members lived through, and the end of its journal.
func (s *simulation) restless(g *group) string {
	var b strings.Builder
	committed := s.observer.groupState(g.id)
	fmt.Fprintf(&b, "epoch %d, journal ends with %+v", committed.Epoch(), committed.LastJournal())
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	for _, m := range g.members {
		fmt.Fprintf(&b, "\n%v, version %d, target %v:\n\t%s", m, m.process.version(), committed.Member(m.id).Target, strings.Join(m.trace, "\n\t"))
	}
	return b.String()
}
