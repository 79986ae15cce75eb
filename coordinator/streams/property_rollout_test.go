package streams

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// topologyOf is the topology that a client runs.
func (s *simulation) topologyOf(c *simClient) *topology.Topology {
	if t := s.rolls[c]; t != nil {
		return t
	}
	return s.topology
}

func (s *simulation) client(id string) *simClient {
	for _, c := range s.clients {
		if c.id == id {
			return c
		}
	}
	return nil
}

// spared says that the answer is to a stale member, which is not told of source topics that only the new topology has.
func (s *simulation) spared(r *HeartbeatResponse) bool {
	return s.rolls != nil && slices.ContainsFunc(r.Status, func(st Status) bool { return st.Code == StatusStaleTopology })
}

// newRollout is a simulation in which clients have one of several topologies of the same three subtopologies.
func newRollout(t *rapid.T) (*simulation, []*topology.Topology) {
	s := newSimulation(t)
	s.rolls = map[*simClient]*topology.Topology{}
	s.useWarmups()
	s.verify = func(before *fsm.Group, d *Decision, after *fsm.Group) error {
		if err := checkJournal(before, d, after); err != nil {
			return err
		}
		return s.checkRollout(before, after)
	}
	for _, name := range []string{"in", "in2", "cl"} {
		s.setTopic(name, 2)
	}
	latest := rapid.Bool().Draw(t, "latest")
	if latest {
		s.settings.TopologyUpdatePolicy = PolicyLatest
	}
	s.settings.TopologyFenceOlder = rapid.Bool().Draw(t, "fence")
	contents := []topology.Subtopology{
		{SourceTopics: []string{"in"}},
		{SourceTopics: []string{"in2"}},
		{SourceTopics: []string{"in2"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}},
		{SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl2"}}},
	}
	var all []*topology.Topology
	for epoch := range int32(rapid.IntRange(2, 4).Draw(t, "topologies")) {
		v := &topology.Topology{Epoch: epoch}
		if latest {
			v.Epoch = 0
		}
		for id := range 3 {
			if i := rapid.IntRange(-1, len(contents)-1).Draw(t, "content"); i >= 0 {
				sub := contents[i]
				sub.ID = fmt.Sprint(id)
				v.Subtopologies = append(v.Subtopologies, sub)
			}
		}
		if len(v.Subtopologies) == 0 {
			v.Subtopologies = []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}
		}
		all = append(all, v)
	}
	s.topology = all[0]
	return s, all
}

// checkRollout holds what no decision may break, whatever came before it.
func (s *simulation) checkRollout(before, after *fsm.Group) error {
	if after == nil || after.Topology == nil {
		return nil
	}
	if before != nil && before.Topology != nil {
		if before.Topology.Epoch > after.Topology.Epoch {
			return fmt.Errorf("the topology epoch went back from %d to %d", before.Topology.Epoch, after.Topology.Epoch)
		}
		if before.Topology != after.Topology && !s.aborting && before.NumMembers() > 0 && s.settings.TopologyUpdatePolicy == PolicyLatest {
			l := lineageOf(before)
			for v := range before.TopologyVersions() {
				if v.Epoch < before.Topology.Epoch && v.First == l.now().First && v.Hash == after.Topology.ContentHash() {
					return fmt.Errorf("the topology of epoch %d came back by itself", v.Epoch)
				}
			}
		}
	}
	for m := range after.Members() {
		had := topology.Assignment{}
		old := before.Member(m.ID)
		if old != nil {
			had = currentOf(old).Assigned
		}
		has := currentOf(m).Assigned
		gained := minus(has, had)
		stale := StaleTopology(after, m.Meta.TopologyEpoch)
		if old != nil && stale && !gained.IsEmpty() {
			return fmt.Errorf("%s is stale and was given %s", m.ID, showAssignment(gained, false))
		}
		runs := after.JoinedTopology(m.Meta.TopologyEpoch)
		for _, tasks := range []topology.Tasks{gained.Active, gained.Standby, gained.Warmup} {
			for _, sub := range tasks {
				if runs == nil || runs.Subtopology(sub.Subtopology) == nil || after.Topology.Subtopology(sub.Subtopology) == nil ||
					!runs.Subtopology(sub.Subtopology).Equal(after.Topology.Subtopology(sub.Subtopology)) {
					return fmt.Errorf("%s of topology epoch %d was given a task of subtopology %s of epoch %d", m.ID,
						m.Meta.TopologyEpoch, sub.Subtopology, after.Topology.Epoch)
				}
			}
		}
	}
	return nil
}

// checkTold: a client is only told tasks of its topology, and those that it did not run have the content that the group means.
func (s *simulation) checkTold() {
	g := s.group()
	for _, c := range s.clients {
		if !c.alive || c.epoch == JoinEpoch {
			continue
		}
		own := s.topologyOf(c)
		for role, tasks := range []topology.Tasks{c.goal.Active, c.goal.Standby, c.goal.Warmup} {
			for _, sub := range tasks {
				if own.Subtopology(sub.Subtopology) == nil {
					s.t.Fatalf("%s was told subtopology %s (role %d), which it does not have", c.id, sub.Subtopology, role)
				}
			}
		}
		if m := g.Member(c.id); m != nil {
			if known := g.JoinedTopology(m.Meta.TopologyEpoch); known != nil && !sameContent(known, own) {
				s.t.Fatalf("the group takes the topology of %s for that of epoch %d", c.id, m.Meta.TopologyEpoch)
			}
		}
	}
}

// abortUpdate takes the last update back.
func (s *simulation) abortUpdate() {
	g := s.group()
	if g == nil || g.Topology == nil {
		return
	}
	env := s.env()
	d, _, err := AbortTopology(g, s.soft, &env, testGroup, g.Topology.Epoch)
	if err != nil {
		return
	}
	s.aborting = true
	defer func() { s.aborting = false }()
	if err := s.stand(&d); err != nil {
		s.t.Fatal(err)
	}
	s.checkCause(g.Epoch(), &d)
}

// settleRollout lets the faults end: a group settles, and all tasks run where a member has the group's topology.
func (s *simulation) settleRollout() {
	s.hold, s.late, s.assign = false, nil, builtinAssignor(s.settings.AssignorName)
	defer s.copies.hurry(&s.settings)()
	s.settings.MaxSize = 1 << 30
	for _, name := range []string{"in", "in2", "cl", "cl2"} {
		s.setTopic(name, 2)
	}
	s.round()
	s.passComputing(int64(s.settings.SessionTimeoutMs) - 1000)
	s.round()
	s.passComputing(5000)
	for n := 0; n < quietRounds || n < copyRounds && (StateOf(s.group()) != StateStable || !s.noMoves()); n++ {
		s.passComputing(int64(s.settings.HeartbeatIntervalMs))
		s.round()
		s.check()
		s.checkTold()
	}
	g := s.group()
	if !s.noMoves() {
		s.t.Fatal("a warm-up stays one")
	}
	if g.NumMembers() == 0 {
		return
	}
	if StateOf(g) != StateStable {
		s.t.Fatalf("not settled: %s", StateOf(g))
	}
	active, fresh := map[topology.Task]bool{}, 0
	for m := range g.Members() {
		for task := range m.Current.Assigned.Active.All() {
			active[task] = true
		}
		if !StaleTopology(g, m.Meta.TopologyEpoch) {
			fresh++
		}
	}
	if want := 2 * len(g.Topology.Subtopologies); fresh > 0 && len(active) != want {
		s.t.Fatalf("%d of %d tasks run, with %d members of the group's topology", len(active), want, fresh)
	}
	for _, c := range s.clients {
		if m := g.Member(c.id); m != nil && c.alive {
			d, err := s.heartbeat(c.request(), &coordinator.Client{ID: "c", Host: "/h"})
			told := slices.ContainsFunc(d.Reply.Status, func(st Status) bool { return st.Code == StatusStaleTopology })
			if err != nil || d.Reply.Err != nil || told != StaleTopology(g, m.Meta.TopologyEpoch) {
				s.t.Fatalf("%s: %v %v", c.id, err, showReply(&d.Reply))
			}
		}
	}
}

// TestRollouts runs random histories of roll-outs under both policies: starts with any topology, restarts, crashes, aborts,
// topics that come late, failovers; what clients know at any moment must be what they can run.
func TestRollouts(t *testing.T) {
	for range 3 {
		rapid.Check(t, func(t *rapid.T) {
			s, all := newRollout(t)
			for _, c := range s.clients {
				s.startWith(c, all[0])
			}
			s.setTopic("cl2", 2)
			for range 3 {
				s.round()
				s.passComputing(5000)
			}
			actions := s.actions()
			next := 0
			for name, act := range map[string]func(){
				"roll": func() { // the next client that runs another topology gets the newest
					next = min(next+1, len(all)-1)
					s.restart(s.clients[rapid.IntRange(0, len(s.clients)-1).Draw(s.t, "client")], all[next])
				},
				"restart": func() {
					s.restart(s.clients[rapid.IntRange(0, len(s.clients)-1).Draw(s.t, "client")], rapid.SampledFrom(all).Draw(s.t, "topology"))
				},
				"round":  s.round,
				"abort":  s.abortUpdate,
				"create": func() { s.setTopic("cl2", 2) },
				"lose":   func() { s.setTopic(rapid.SampledFrom([]string{"cl", "cl2"}).Draw(s.t, "topic"), 0) },
				"fence":  func() { s.settings.TopologyFenceOlder = rapid.Bool().Draw(s.t, "fence") },
				"policy": func() {
					s.settings.TopologyUpdatePolicy = rapid.SampledFrom([]string{"epoch", "latest"}).Draw(s.t, "policy")
				},
			} {
				actions[name] = func(t *rapid.T) { s.t = t; act() }
			}
			names := []string{"roll", "roll", "restart", "restart", "round", "round", "applyAndBeat", "applyAndBeat", "heartbeat", "heartbeat",
				"loseResponse", "abort", "create", "lose", "fence", "policy", "copies", "failover", "compute", "take", "release", "advance", "topicsChanged"}
			for range rapid.IntRange(5, 60).Draw(t, "steps") {
				name := rapid.SampledFrom(names).Draw(t, "action")
				if !slices.ContainsFunc(s.clients, func(c *simClient) bool { return c.alive }) {
					name = "restart"
				}
				actions[name](t)
				s.check()
				s.checkTold()
			}
			s.settleRollout()
		})
	}
}

func (s *simulation) startWith(c *simClient, topology *topology.Topology) {
	c.alive, c.epoch, c.report = true, JoinEpoch, false
	s.rolls[c] = topology
}

// restart ends a client in one of the ways in which processes end, and starts it with a topology.
func (s *simulation) restart(c *simClient, topology *topology.Topology) {
	if c.alive {
		how := rapid.IntRange(0, 2).Draw(s.t, "how")
		if req := c.request(); how > 0 && req.MemberEpoch != JoinEpoch {
			req.MemberEpoch = LeaveEpoch
			if c.instance != "" && how == 2 {
				req.MemberEpoch = StaticLeaveEpoch
			}
			s.send(req)
			s.stop(c)
		} else {
			s.stop(c)
			s.rename(c)
		}
	}
	s.startWith(c, topology)
	if rapid.Bool().Draw(s.t, "joins") {
		s.beat(c)
	}
}
