package streams

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// quietRounds bounds how many rounds of heartbeats (one of each member) a group needs to settle once nothing happens.
const quietRounds = 8

// simulation is a world with clients. Its methods are the actions of the property test.
type simulation struct {
	*world
	t        *rapid.T
	clients  []*simClient
	topology *topology.Topology
	late     []*HeartbeatRequest
	epoch    int32
	assigned int32
	members  map[string]int32
	// targets are the targets of the assignment epoch, held what members had been assigned, when last looked at.
	targets, held map[string]topology.Assignment
	incarnations  int
	// rolls are the topologies of clients where they differ; nil: all have topology.
	rolls    map[*simClient]*topology.Topology
	aborting bool
	grace    graceModel
	copies   *copyModel // nil: nobody reports offsets
}

func newSimulation(t *rapid.T) *simulation {
	s := &simulation{world: newWorld(), t: t, members: map[string]int32{}}
	s.verify = func(before *fsm.Group, d *Decision, after *fsm.Group) error {
		if err := s.grace.verify(s, before, d); err != nil {
			return err
		}
		return checkJournal(before, d, after)
	}
	s.settings.TopologyGraceMs = rapid.SampledFrom([]int32{0, 7000, 60000}).Draw(t, "grace")
	s.settings.InitialRebalanceDelayMs = rapid.SampledFrom([]int32{0, 3000}).Draw(t, "delay")
	s.settings.AssignmentIntervalMs = rapid.SampledFrom([]int32{0, 1000}).Draw(t, "interval")
	s.settings.NumStandbyReplicas = rapid.Int32Range(0, 2).Draw(t, "standbys")
	s.offloadFrom = rapid.SampledFrom([]int{0, 1, 8}).Draw(t, "offload")
	s.topology = &topology.Topology{Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}},
		{ID: "1", SourceTopics: []string{"in2"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}},
	}}
	s.setTopic("in", rapid.Int32Range(1, 4).Draw(t, "partitions"))
	n := rapid.Int32Range(1, 4).Draw(t, "partitions2")
	s.setTopic("in2", n)
	s.setTopic("cl", n)
	for i := range rapid.IntRange(1, 5).Draw(t, "clients") {
		c := &simClient{
			id: fmt.Sprintf("m%d", i), process: fmt.Sprintf("p%d", rapid.IntRange(0, 3).Draw(t, "process")), endpointEpoch: -1,
			version: rapid.Int16Range(0, 1).Draw(t, "version"),
		}
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
		req.Topology = s.topologyOf(s.client(req.MemberID))
	}
	if err := Validate(req); err != nil {
		s.t.Fatalf("a good request is refused: %v", err)
	}
	before := s.group().Epoch()
	d, err := s.heartbeat(req, &coordinator.Client{ID: "c", Host: "/h"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.checkCause(before, &d)
	if d.Reply.Err != nil && len(d.Records) > 0 {
		s.t.Fatalf("an error with records: %v", d.Reply.Err)
	}
	if d.Reply.Err == nil && req.MemberEpoch >= JoinEpoch {
		s.checkReady(&d.Reply)
	}
	return &d.Reply
}

// checkCause: the group epoch moves by one, and only with a cause.
func (s *simulation) checkCause(before int32, d *Decision) {
	after := s.group().Epoch()
	caused := d.Cause.Kinds != 0
	if after != before && (!caused || d.Cause.Epoch != after || before != 0 && after != before+1) || after == before && caused {
		s.t.Fatalf("epoch %d after %d with the cause %+v", after, before, d.Cause)
	}
}

// checkReady: what a heartbeat tells of the topics is what the group's state tells everybody else.
func (s *simulation) checkReady(r *HeartbeatResponse) {
	problem := slices.ContainsFunc(r.Status, func(st Status) bool {
		return st.Code >= StatusMissingSourceTopics && st.Code <= StatusMissingInternalTopics
	})
	if state := StateOf(s.group()); (state == StateNotReady) != problem && (problem || !s.spared(r)) {
		s.t.Fatalf("the group is %s, a member is told %v", state, r.Status)
	}
}

func (s *simulation) beat(c *simClient) {
	r := s.send(c.request())
	if r.Err != nil && c.epoch == JoinEpoch && s.mustBeRefused(c, r.Err.Code) {
		s.stop(c)
		return
	}
	if err := c.told(r); err != nil {
		s.t.Fatal(err)
	}
}

// mustBeRefused says whether there is no room for a client that joins: its instance id is another one's, or the group is
// full of others.
func (s *simulation) mustBeRefused(c *simClient, code coordinator.Code) bool {
	g := s.group()
	holder := ""
	if c.instance != "" {
		holder, _ = g.Static(c.instance)
	}
	switch code {
	case coordinator.StreamsInvalidTopologyEpoch:
		return s.rolls != nil && g.NumMembers() > 0
	case coordinator.StreamsTopologyFenced:
		return s.settings.TopologyFenceOlder && holder == "" && g.Member(c.id) == nil
	case coordinator.UnreleasedInstanceID:
		return holder != "" && holder != c.id && g.Member(holder).Current.MemberEpoch != StaticLeaveEpoch
	case coordinator.GroupMaxSizeReached:
		return holder == "" && g.Member(c.id) == nil && g.NumMembers() >= int(s.settings.MaxSize)
	}
	return false
}

// repair loses a response; the next one tells the client all that it missed.
func (s *simulation) repair() {
	c := s.pick(true)
	if c.epoch == JoinEpoch || c.removed {
		return
	}
	s.send(c.request())
	c.report = true
	s.beat(c)
	if m := s.group().Member(c.id); m != nil && !c.goal.SameTasks(m.Current.Assigned) {
		s.t.Fatalf("%s knows %s, but has %s", c.id, showAssignment(c.goal, false), showCurrent(m.Current))
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
		"staleHeartbeat": wrap(s.staleBeat),
		"loseResponse": wrap(func() {
			c := s.pick(true)
			s.send(c.request())
			c.report = true
		}),
		"loseRequest": wrap(func() { s.pick(true).report = true }),
		"repair":      wrap(s.repair),
		"repeat": wrap(func() {
			c := s.pick(true)
			s.send(c.request())
			s.beat(c)
		}),
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
		"leave": wrap(s.leave),
		"die": wrap(func() {
			c := s.pick(true)
			s.disconnect(c)
			s.stop(c)
			s.rename(c)
		}),
		"disconnect": wrap(func() {
			c := s.pick(true)
			s.disconnect(c)
			c.report = true
		}),
		"dieAndReturn": wrap(func() { s.stop(s.pick(true)) }), // a static member finds its instance id taken until it expires
		"advance":      wrap(func() { s.pass(rapid.Int64Range(1, 20000).Draw(s.t, "ms")) }),
		"failover": wrap(func() {
			s.failover()
			s.hold = rapid.Bool().Draw(s.t, "hold")
		}),
		"compute":       wrap(s.compute),
		"take":          wrap(s.takeOne),
		"release":       wrap(func() { s.hold = false }),
		"topics":        wrap(s.changeTopics),
		"topicsChanged": wrap(s.lookAtTopics),
		"settings":      wrap(s.changeSettings),
		"copies":        wrap(s.changeCopies),
	}
}

// disconnect ends the connection of a client, which the leader sees.
func (s *simulation) disconnect(c *simClient) {
	if s.soft == nil {
		return
	}
	if m := s.soft.Members[c.id]; m != nil {
		m.Disconnected(s.now, &s.settings)
	}
}

func (s *simulation) takeOne() {
	if s.computed == nil {
		return
	}
	if _, err := s.take(1); err != nil {
		s.t.Fatal(err)
	}
}

func (s *simulation) changeTopics() {
	name := rapid.SampledFrom([]string{"in", "in", "in2", "cl"}).Draw(s.t, "topic")
	s.setTopic(name, rapid.Int32Range(0, 4).Draw(s.t, "partitions"))
}

func (s *simulation) lookAtTopics() {
	if s.soft == nil {
		return
	}
	env := s.env()
	before := s.group().Epoch()
	d := TopicsChanged(s.group(), s.soft, &env)
	if err := s.stand(&d); err != nil {
		s.t.Fatal(err)
	}
	s.checkCause(before, &d)
}

func (s *simulation) changeSettings() {
	switch rapid.IntRange(0, 8).Draw(s.t, "setting") {
	case 0:
		s.settings.NumStandbyReplicas = rapid.Int32Range(0, 2).Draw(s.t, "standbys")
	case 1:
		s.settings.RackAwareTags = rapid.SampledFrom([][]string{nil, {"zone"}}).Draw(s.t, "tags")
	case 2:
		s.settings.AssignmentIntervalMs = rapid.SampledFrom([]int32{0, 1000, 15000}).Draw(s.t, "interval")
	case 3:
		s.settings.InitialRebalanceDelayMs = rapid.SampledFrom([]int32{0, 3000}).Draw(s.t, "delay")
	case 4:
		s.settings.SessionTimeoutMs = rapid.SampledFrom([]int32{45000, 60000}).Draw(s.t, "session")
	case 5:
		s.settings.MaxSize = rapid.SampledFrom([]int32{2, 1 << 30}).Draw(s.t, "max")
	case 7:
		s.settings.RackAwareStrategy = rapid.SampledFrom([]string{coordinator.RackStrategyNone, coordinator.RackStrategyMinTraffic}).Draw(s.t, "strategy")
	case 8:
		s.setLeaders("in", rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "-"}), 0, 4).Draw(s.t, "leaders")...)
	case 6:
		s.assign = builtinAssignor(s.settings.AssignorName)
		if rapid.Bool().Draw(s.t, "broken") {
			s.assign = hostile(func(assignor.Spec) (assignor.Assignment, error) { return nil, errors.New("broken") })
		}
	}
}

func (s *simulation) leave() {
	c := s.pick(true)
	req := c.request()
	if req.MemberEpoch == JoinEpoch {
		return
	}
	req.MemberEpoch = LeaveEpoch
	temporary := c.instance != "" && rapid.Bool().Draw(s.t, "temporary")
	if temporary {
		req.MemberEpoch = StaticLeaveEpoch
	}
	s.send(req)
	if rapid.Bool().Draw(s.t, "repeated") {
		s.late = append(s.late, req)
	}
	s.stop(c)
	if temporary && rapid.Bool().Draw(s.t, "stateless") {
		s.incarnations++
		c.process = fmt.Sprintf("%s-%d", c.process[:2], s.incarnations) // a start without a disk is a new process
	}
}

// stop ends a client; the next start is a new client with a new member id, and the same instance id.
func (s *simulation) stop(c *simClient) {
	c.incarnation++
	*c = simClient{
		id: fmt.Sprintf("%s.%d", c.id[:2], c.incarnation), process: c.process, instance: c.instance, endpoint: c.endpoint,
		version: c.version, incarnation: c.incarnation, endpointEpoch: -1, copies: c.copies,
	}
}

// rename gives a client another instance id.
func (s *simulation) rename(c *simClient) {
	if c.instance != "" {
		s.incarnations++
		c.instance = fmt.Sprintf("%s-%d", c.instance[:2], s.incarnations)
	}
}

func (s *simulation) pass(ms int64) {
	epoch := s.group().Epoch()
	err := s.advance(ms, func(_ string, d *Decision) {
		s.checkCause(epoch, d)
		epoch = s.group().Epoch()
		for _, c := range s.clients {
			c.removed = c.removed || d.Soft.Removed == c.id
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// passComputing is pass where whatever is to be computed is computed.
func (s *simulation) passComputing(ms int64) {
	for end := s.now + ms; ; {
		if err := s.takeAll(2); err != nil {
			s.t.Fatal(err)
		}
		if s.soft == nil || s.now == end {
			s.pass(end - s.now)
			if s.job == nil {
				return
			}
			continue
		}
		at, _ := s.nextTimer()
		step := end - s.now
		if at != 0 {
			step = min(step, max(0, at-s.now))
		}
		s.pass(step)
	}
}

// settle lets the faults end and the clients go on until the group is Stable.
func (s *simulation) settle() {
	s.hold, s.late = false, nil
	s.assign = builtinAssignor(s.settings.AssignorName)
	limit := quietRounds
	if s.copies != nil {
		limit = copyRounds
		defer s.copies.hurry(&s.settings)()
	}
	s.settings.MaxSize, s.settings.RackAwareTags = 1<<30, nil
	n := max(1, s.topics["in2"].Partitions)
	s.setTopic("in2", n)
	s.setTopic("cl", n)
	if _, ok := s.topics["in"]; !ok {
		s.setTopic("in", n)
	}
	s.round()
	s.passComputing(int64(s.settings.SessionTimeoutMs) - 1000) // who died expires in the next round
	s.round()
	s.passComputing(5000)
	alive := slices.ContainsFunc(s.clients, func(c *simClient) bool { return c.alive })
	rounds := 0
	for ; rounds < limit && alive && !s.settled(); rounds++ {
		s.passComputing(int64(s.settings.HeartbeatIntervalMs))
		s.round()
		s.check()
	}
	if alive && !s.settled() {
		s.t.Fatalf("not settled after %d rounds: %s", rounds, StateOf(s.group()))
	}
	for range maxRepeats { // what a late request was told is told to the client, too
		s.pass(int64(s.settings.HeartbeatIntervalMs))
		s.round()
	}
	for _, c := range s.clients {
		if c.alive {
			d, err := s.heartbeat(c.request(), &coordinator.Client{ID: "c", Host: "/h"})
			if err != nil || len(d.Records) > 0 || d.Reply.Active != nil || len(d.Reply.Status) > 0 || len(d.Effects) > 0 || d.Reply.Endpoints != nil {
				s.t.Fatalf("a steady heartbeat does something: %v %v", err, d)
			}
		}
	}
}

// startAll makes a group in which every client runs its tasks.
func (s *simulation) startAll() {
	for _, c := range s.clients {
		c.alive = true
	}
	s.settle()
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
	return s.noMoves()
}

// TestGroupsSettleAndKeepTasksApart runs random histories of well-behaved clients over a network that loses, delays and
// repeats, with failovers, topic changes and time-outs.
func TestGroupsSettleAndKeepTasksApart(t *testing.T) {
	for range 10 { // each a hundred histories, or as -rapid.checks says
		rapid.Check(t, func(t *rapid.T) {
			s := newSimulation(t)
			s.useWarmups()
			if rapid.Bool().Draw(t, "running") {
				s.startAll()
			}
			t.Repeat(s.actions())
			s.t = t
			s.settle()
		})
	}
}
