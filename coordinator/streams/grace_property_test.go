package streams

import (
	"fmt"
	"slices"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// graceModel says, from the topics and the clock alone, when members may at the soonest be told of a problem that ends
// applications.
type graceModel struct {
	problem topology.Problem // that is there now
	// sighted is when problems were first there to be seen since the group last looked and found another one: what is there
	// between two looks of the group is nothing to it.
	sighted map[topology.Problem]int64
	wrong   int64 // since when the topics of a group that was right do not fit; 0: they do, or it was not right
}

// verify looks at a decision on a group.
func (m *graceModel) verify(s *simulation, g *fsm.Group, d *Decision) error {
	// Leaves, time-outs and what is refused do not look at the topics.
	looks := d.Soft.Member != "" || d.Grace != nil || d.Soft.Topics != nil
	if err := m.look(s, g, looks); err != nil {
		return err
	}
	return m.check(s, d)
}

func (m *graceModel) look(s *simulation, g *fsm.Group, looks bool) error {
	if s.rolls != nil { // the group may be between two topologies
		return nil
	}
	c, err := topology.Configure(s.topology, s.topics)
	if err != nil {
		return err
	}
	if c.Ready() {
		if looks {
			*m = graceModel{}
		}
		return nil
	}
	m.sight(*c.Problem, s.now, looks)
	switch right := groupMetadata(g).ValidatedTopologyEpoch == s.topology.Epoch; {
	case !right:
		m.wrong = 0
	case m.wrong == 0 && numMembers(g) > 0 && looks:
		m.wrong = s.now
	}
	return nil
}

func (m *graceModel) sight(p topology.Problem, now int64, looks bool) {
	since, known := m.sighted[p]
	if !known {
		since = now
	}
	if m.problem = p; looks || m.sighted == nil {
		m.sighted = map[topology.Problem]int64{}
	}
	m.sighted[p] = since
}

// check holds what a decision tells, and makes of the group, to the earliest time for it.
func (m *graceModel) check(s *simulation, d *Decision) error {
	if s.rolls != nil {
		return nil
	}
	if d.Grace != nil && d.Grace.Began && m.wrong == 0 {
		return fmt.Errorf("a grace although the topics fit, or never did: %+v", d.Grace)
	}
	if since := m.sighted[m.problem]; ends(&d.Reply) && s.env().MetadataAsOf <= since {
		return fmt.Errorf("told of %v, seen at %d, by topics as of %d", m.problem, since, s.env().MetadataAsOf)
	}
	notReady := ends(&d.Reply)
	for _, r := range d.Records {
		if meta, ok := r.Value.(*record.GroupMetadata); ok {
			notReady = notReady || meta.ValidatedTopologyEpoch == -1
		}
	}
	if notReady && m.wrong != 0 && s.now < m.wrong+int64(s.settings.TopologyGraceMs) {
		return fmt.Errorf("not ready %d ms after the topics became wrong, of a grace of %d: %v", s.now-m.wrong, s.settings.TopologyGraceMs, m.problem)
	}
	return nil
}

// ends says whether an answer ends an application, now or soon.
func ends(r *HeartbeatResponse) bool {
	return slices.ContainsFunc(r.Status, func(st Status) bool {
		return st.Code == StatusMissingSourceTopics || st.Code == StatusIncorrectlyPartitionedTopics
	})
}

// staleBeat sends a heartbeat while the topics have not been read again. As at the shard, a decision in doubt does not
// stand, but for what was seen.
func (s *simulation) staleBeat() {
	c := s.pick(true)
	s.stale = true
	defer func() { s.stale = false }()
	req := c.request()
	if req.MemberEpoch == JoinEpoch {
		req.Topology = s.topologyOf(c)
	}
	d := Heartbeat(HeartbeatInput{Group: s.group(), Soft: s.soft, Env: s.env(), Client: &coordinator.Client{ID: "c", Host: "/h"}, Request: req})
	switch {
	case !d.Doubt:
		s.beat(c)
	case d.Sighting != nil: // a topology that is set first: what was found is kept apart
	case ends(&d.Reply):
		s.t.Fatalf("in doubt, and told: %v", d.Reply.Status)
	case s.soft != nil:
		if err := s.grace.look(s, s.group(), false); err != nil {
			s.t.Fatal(err)
		}
		s.soft.Apply(&SoftChange{Topics: d.Soft.Topics})
	}
}
