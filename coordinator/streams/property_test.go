package streams

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// quietRounds bounds how many rounds of heartbeats (one of each member) a group needs to settle once nothing happens.
const quietRounds = 8

// simClient is a client that follows the protocol as the Java client does: it reports its tasks when they changed and
// after trouble, applies an assignment before it acknowledges it, and joins anew with the same id when it is fenced.
type simClient struct {
	id, process, instance string
	endpoint              *record.Endpoint
	alive                 bool
	epoch                 int32
	endpointEpoch         int32
	goal                  topology.Assignment // what it was told last
	running               topology.Assignment // what it runs
	report                bool                // the next heartbeat carries the tasks
	incarnation           int
}

func (c *simClient) request() *HeartbeatRequest {
	req := &HeartbeatRequest{
		Version: 1, GroupID: testGroup, MemberID: c.id, MemberEpoch: c.epoch, EndpointEpoch: c.endpointEpoch,
		RebalanceTimeoutMs: -1, InstanceID: optional(c.instance),
	}
	if c.epoch == JoinEpoch {
		req.RebalanceTimeoutMs = 60000
		req.ProcessID, req.UserEndpoint = &c.process, c.endpoint
		req.ClientTags = []record.KeyValue{}
		req.Active, req.Standby, req.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
	} else if c.report {
		// A report is final: what it lacks is not started before it is told again (see reconciler.step).
		c.goal = c.running
		req.Active, req.Standby, req.Warmup = c.running.Active.NonNil(), c.running.Standby.NonNil(), c.running.Warmup.NonNil()
	}
	return req
}

// told takes a response. New tasks are only run after apply.
func (c *simClient) told(r *HeartbeatResponse) error {
	if r.Err != nil {
		switch r.Err.Code {
		case coordinator.UnknownMemberID, coordinator.FencedMemberEpoch:
			c.epoch, c.goal, c.running, c.report = JoinEpoch, topology.Assignment{}, topology.Assignment{}, false
			return nil
		}
		return fmt.Errorf("client %s would die of %v", c.id, r.Err)
	}
	if r.MemberEpoch < 1 {
		return fmt.Errorf("client %s was told epoch %d", c.id, r.MemberEpoch)
	}
	if (r.Active == nil) != (r.Standby == nil) || (r.Active == nil) != (r.Warmup == nil) || r.Status == nil {
		return fmt.Errorf("client %s got a mixed response %+v", c.id, r)
	}
	c.epoch, c.endpointEpoch, c.report = r.MemberEpoch, r.EndpointEpoch, false
	if r.Active != nil {
		// Told again before it could apply: it answers even if there is nothing left to do.
		c.report = !c.running.SameTasks(c.goal)
		c.goal = topology.Assignment{Active: r.Active, Standby: r.Standby, Warmup: r.Warmup}
	}
	return nil
}

// apply makes the client run what it was told, and report it.
func (c *simClient) apply() {
	if !c.running.SameTasks(c.goal) {
		c.running, c.report = c.goal, true
	}
}

// simulation is a world with clients. Its methods are the actions of the property test.
type simulation struct {
	*world
	t         *rapid.T
	clients   []*simClient
	topology  *topology.Topology
	late      []*HeartbeatRequest
	epoch     int32
	assigned  int32
	members   map[string]int32
	instances int
}

func newSimulation(t *rapid.T) *simulation {
	s := &simulation{world: newWorld(), t: t, members: map[string]int32{}}
	s.settings.InitialRebalanceDelayMs = rapid.SampledFrom([]int32{0, 3000}).Draw(t, "delay")
	s.settings.AssignmentIntervalMs = rapid.SampledFrom([]int32{0, 1000}).Draw(t, "interval")
	s.settings.NumStandbyReplicas = rapid.Int32Range(0, 2).Draw(t, "standbys")
	s.topology = &topology.Topology{Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}},
		{ID: "1", SourceTopics: []string{"in2"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}},
	}}
	s.setTopic("in", rapid.Int32Range(1, 4).Draw(t, "partitions"))
	n := rapid.Int32Range(1, 4).Draw(t, "partitions2")
	s.setTopic("in2", n)
	s.setTopic("cl", n)
	for i := range rapid.IntRange(1, 5).Draw(t, "clients") {
		c := &simClient{id: fmt.Sprintf("m%d", i), process: fmt.Sprintf("p%d", rapid.IntRange(0, 3).Draw(t, "process")), endpointEpoch: -1}
		if rapid.Bool().Draw(t, "static") {
			c.instance = fmt.Sprintf("i%d", i)
		}
		if rapid.Bool().Draw(t, "endpoint") {
			c.endpoint = &record.Endpoint{Host: c.process, Port: 1}
		}
		s.clients = append(s.clients, c)
	}
	return s
}

func (s *simulation) pick(alive bool) *simClient {
	var list []*simClient
	for _, c := range s.clients {
		if c.alive == alive {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		s.t.Skip("no such client")
	}
	return rapid.SampledFrom(list).Draw(s.t, "client")
}

func (s *simulation) send(req *HeartbeatRequest) *HeartbeatResponse {
	if req.MemberEpoch == JoinEpoch {
		req.Topology = s.topology
	}
	if err := Validate(req); err != nil {
		s.t.Fatalf("a good request is refused: %v", err)
	}
	d, err := s.heartbeat(req, &coordinator.Client{ID: "c", Host: "/h"})
	if err != nil {
		s.t.Fatal(err)
	}
	if d.Reply.Err != nil && len(d.Records) > 0 {
		s.t.Fatalf("an error with records: %v", d.Reply.Err)
	}
	return &d.Reply
}

func (s *simulation) beat(c *simClient) {
	if err := c.told(s.send(c.request())); err != nil {
		s.t.Fatal(err)
	}
}

func (s *simulation) actions() map[string]func(*rapid.T) {
	wrap := func(f func()) func(*rapid.T) {
		return func(t *rapid.T) { s.t = t; f() }
	}
	return map[string]func(*rapid.T){
		"":          wrap(s.check),
		"start":     wrap(func() { c := s.pick(false); c.alive, c.epoch, c.report = true, JoinEpoch, false }),
		"heartbeat": wrap(func() { s.beat(s.pick(true)) }),
		"apply":     wrap(func() { s.pick(true).apply() }),
		"applyAndBeat": wrap(func() {
			c := s.pick(true)
			c.apply()
			s.beat(c)
		}),
		"loseResponse": wrap(func() {
			c := s.pick(true)
			s.send(c.request())
			c.report = true
		}),
		"loseRequest": wrap(func() { s.pick(true).report = true }),
		"delayRequest": wrap(func() {
			// Without a report of tasks: replay of an old report is a release that the protocol cannot tell from a new
			// one, and TCP keeps a client's requests in order.
			c := s.pick(true)
			if c.epoch > 0 && !c.report && len(s.late) < 3 {
				s.late = append(s.late, c.request())
				c.report = true
			}
		}),
		"deliverLate": wrap(func() {
			if len(s.late) > 0 {
				s.send(s.late[0])
				s.late = s.late[1:]
			}
		}),
		"leave":   wrap(s.leave),
		"die":     wrap(func() { s.stop(s.pick(true)) }),
		"advance": wrap(func() { s.pass(rapid.Int64Range(1, 20000).Draw(s.t, "ms")) }),
		"failover": wrap(func() {
			s.failover()
			s.hold = rapid.Bool().Draw(s.t, "hold")
		}),
		"release": wrap(func() { s.hold = false }),
		"topics": wrap(func() {
			s.setTopic("in", rapid.Int32Range(0, 4).Draw(s.t, "partitions"))
		}),
		"topicsChanged": wrap(func() {
			if s.soft != nil {
				env := s.env()
				d := TopicsChanged(s.group(), s.soft, &env)
				if err := s.stand(&d); err != nil {
					s.t.Fatal(err)
				}
			}
		}),
		"standbys": wrap(func() { s.settings.NumStandbyReplicas = rapid.Int32Range(0, 2).Draw(s.t, "standbys") }),
	}
}

func (s *simulation) leave() {
	c := s.pick(true)
	req := c.request()
	if req.MemberEpoch == JoinEpoch {
		return
	}
	req.MemberEpoch = LeaveEpoch
	if c.instance != "" && rapid.Bool().Draw(s.t, "temporary") {
		req.MemberEpoch = StaticLeaveEpoch
	}
	s.send(req)
	s.stop(c)
}

// stop ends a client; the next start is a new client with a new member id.
func (s *simulation) stop(c *simClient) {
	c.incarnation++
	*c = simClient{
		id: fmt.Sprintf("%s.%d", c.id[:2], c.incarnation), process: c.process, instance: c.instance, endpoint: c.endpoint,
		incarnation: c.incarnation, endpointEpoch: -1,
	}
	if c.instance != "" {
		// A static member that died still holds its instance id; an operator takes another one.
		s.instances++
		c.instance = fmt.Sprintf("%s-%d", c.instance[:2], s.instances)
	}
}

func (s *simulation) pass(ms int64) {
	err := s.advance(ms, func(_ string, d *Decision) {})
	if err != nil {
		s.t.Fatal(err)
	}
}

// check holds the invariants of docs/architecture.md that concern decisions.
func (s *simulation) check() {
	g := s.group()
	if g == nil {
		return
	}
	if g.Epoch() < s.epoch || g.AssignmentEpoch() < s.assigned || g.AssignmentEpoch() > g.Epoch() {
		s.t.Fatalf("epochs went back or apart: %d/%d after %d/%d", g.Epoch(), g.AssignmentEpoch(), s.epoch, s.assigned)
	}
	s.epoch, s.assigned = g.Epoch(), g.AssignmentEpoch()
	active := map[topology.Task]string{}
	copies := map[processTask]string{}
	members := map[string]int32{}
	for m := range g.Members() {
		c := m.Current
		members[m.ID] = c.MemberEpoch
		if c.MemberEpoch != StaticLeaveEpoch && c.MemberEpoch < s.members[m.ID] {
			s.t.Fatalf("epoch of %s went back from %d to %d", m.ID, s.members[m.ID], c.MemberEpoch)
		}
		s.checkCopies(m.ID, m.Meta.ProcessID, c, active, copies)
	}
	s.members = members
	for _, c := range s.clients {
		m := g.Member(c.id)
		if m == nil || !c.alive {
			continue
		}
		for task := range c.running.Active.All() {
			if !m.Current.Assigned.Active.Contains(task) && !m.Current.Revoking.Active.Contains(task) {
				s.t.Fatalf("%s runs %v, which the group has taken back: %s", c.id, task, showCurrent(m.Current))
			}
		}
	}
}

func (s *simulation) checkCopies(id, process string, c *record.CurrentAssignment, active map[topology.Task]string, copies map[processTask]string) {
	own := map[topology.Task]bool{}
	for i, role := range []topology.Tasks{
		c.Assigned.Active, c.Revoking.Active, c.Assigned.Standby, c.Revoking.Standby, c.Assigned.Warmup, c.Revoking.Warmup,
	} {
		for task := range role.All() {
			if i < 2 {
				if other, ok := active[task]; ok {
					s.t.Fatalf("task %v is active on %s and %s", task, other, id)
				}
				active[task] = id
			}
			key := processTask{process, task}
			if other, ok := copies[key]; ok && (other != id || !own[task]) {
				s.t.Fatalf("process %s holds %v twice, on %s and %s", process, task, other, id)
			}
			if own[task] && (i < 2 || !c.Revoking.Active.Contains(task)) {
				s.t.Fatalf("%s holds %v twice: %s", id, task, showCurrent(c))
			}
			own[task] = true
			copies[key] = id
		}
	}
}

// settle lets the faults end and the clients go on until the group is Stable.
func (s *simulation) settle() {
	s.hold, s.late = false, nil
	n := s.topics["in2"].Partitions
	if _, ok := s.topics["in"]; !ok {
		s.setTopic("in", n)
	}
	alive := slices.ContainsFunc(s.clients, func(c *simClient) bool { return c.alive })
	s.round()
	s.pass(int64(s.settings.SessionTimeoutMs) - 1000) // who died expires in the next round
	s.round()
	s.pass(5000)
	rounds := 0
	for ; rounds < quietRounds && alive && !s.settled(); rounds++ {
		s.pass(int64(s.settings.HeartbeatIntervalMs))
		s.round()
		s.check()
	}
	if alive && !s.settled() {
		s.t.Fatalf("not settled after %d rounds: %s", rounds, StateOf(s.group()))
	}
	for _, c := range s.clients {
		if c.alive {
			d, err := s.heartbeat(c.request(), &coordinator.Client{ID: "c", Host: "/h"})
			if err != nil || len(d.Records) > 0 || d.Reply.Active != nil || len(d.Reply.Status) > 0 || len(d.Effects) > 0 {
				s.t.Fatalf("a steady heartbeat does something: %v %v", err, d)
			}
		}
	}
}

func (s *simulation) round() {
	for _, c := range s.clients {
		if c.alive {
			c.apply()
			s.beat(c)
		}
	}
}

func (s *simulation) settled() bool {
	if StateOf(s.group()) != StateStable {
		return false
	}
	for _, c := range s.clients {
		if c.alive {
			m := s.group().Member(c.id)
			if m == nil || c.report || !c.running.SameTasks(m.Current.Assigned) || !m.Current.Assigned.SameTasks(m.Target.Assignment) {
				return false
			}
		}
	}
	return true
}

// TestGroupsSettleAndKeepTasksApart runs random histories of well-behaved clients over a network that loses, delays and
// repeats, with failovers, topic changes and time-outs.
func TestGroupsSettleAndKeepTasksApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		t.Repeat(s.actions())
		s.t = t
		s.settle()
	})
}
