package convergence

import (
	"fmt"
	"maps"
	"slices"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

const groupID = "app"

// Subtopologies of the simulated app.
const (
	stateless = "0"
	stateful  = "1"
)

// topics are the topics of the Kafka behind by name.
type topics map[string]topology.Topic

// Topic implements topology.Metadata.
func (t topics) Topic(name string) (topology.Topic, bool) {
	topic, ok := t[name]
	return topic, ok
}

// Names implements topology.Metadata.
func (t topics) Names() []string { return slices.Sorted(maps.Keys(t)) }

// group is the coordinator's side: one group, its leader's soft state and what a shard does with decisions.
type group struct {
	state    fsm.State
	soft     *streams.Soft
	settings coordinator.GroupSettings
	topics   topics
	topology *topology.Topology
	assignor assignor.Assignor
	// budget is how many warm-ups the target may have, by the settings that it was made with.
	budget int
	// causes lists why group epochs were raised, for people.
	causes []string
}

func newGroup(settings coordinator.GroupSettings, a assignor.Assignor, numStateless, numStateful int32) *group {
	g := &group{
		state: fsm.NewState(), settings: settings, assignor: a, topics: topics{},
		topology: &topology.Topology{Subtopologies: []topology.Subtopology{
			{ID: stateless, SourceTopics: []string{"in"}},
			{ID: stateful, SourceTopics: []string{"keyed"}, StateChangelogTopics: []topology.InternalTopic{{Name: "changelog"}}},
		}},
	}
	for name, n := range map[string]int32{"in": numStateless, "keyed": numStateful, "changelog": numStateful} {
		t := topology.Topic{Name: name, Partitions: n}
		copy(t.ID[:], name)
		g.topics[name] = t
	}
	return g
}

func (g *group) hard() *fsm.Group { return g.state.Group(groupID) }

func (g *group) env(now int64) streams.Env {
	return streams.Env{
		Now: now, Settings: &g.settings, Metadata: g.topics, MetadataVersion: 1, MetadataAsOf: now + 1, Assignor: g.assignor,
	}
}

// heartbeat decides a request and lets the decision stand.
func (g *group) heartbeat(now int64, req *streams.HeartbeatRequest) (*streams.HeartbeatResponse, error) {
	if err := streams.Validate(req); err != nil {
		return nil, fmt.Errorf("a request of %s is malformed: %w", req.MemberID, err)
	}
	d := streams.Heartbeat(streams.HeartbeatInput{
		Group: g.hard(), Soft: g.soft, Env: g.env(now), Client: &coordinator.Client{ID: "client", Host: "/host"}, Request: req,
	})
	if err := g.stand(now, &d); err != nil {
		return nil, err
	}
	if g.soft != nil {
		g.soft.Answered(&d)
	}
	return &d.Reply, nil
}

// stand commits a decision.
func (g *group) stand(now int64, d *streams.Decision) error {
	next, err := g.state.EvolveAll(d.Records)
	if err != nil {
		return fmt.Errorf("replay refuses the records: %w", err)
	}
	if next.Group(groupID).AssignmentEpoch() != g.hard().AssignmentEpoch() {
		g.budget = int(g.settings.NumWarmupReplicas)
	}
	g.state = next
	if g.soft == nil && g.hard() != nil {
		g.soft = streams.NewSoft()
	}
	if g.soft != nil {
		g.soft.Apply(&d.Soft)
	}
	if d.Cause.Kinds != 0 {
		g.causes = append(g.causes, fmt.Sprintf("%7.1fs epoch %d: %s: %s %s",
			float64(now)/1000, d.Cause.Epoch, d.Cause.Kinds, d.Cause.MemberID, d.Cause.Detail))
	}
	for _, e := range d.Effects {
		if failed, ok := e.(streams.AssignorFailed); ok {
			return fmt.Errorf("the assignor failed: %w", failed.Err)
		}
	}
	return nil
}

// timers fires what is due.
func (g *group) timers(now int64) error {
	for rounds := 0; g.soft != nil; rounds++ {
		if rounds == 1000 {
			return fmt.Errorf("the timers at %d do not come to rest", now)
		}
		env := g.env(now)
		if at := g.soft.NextDeadline(); at != 0 && at <= now {
			d := streams.Tick(g.hard(), g.soft, &env)
			if err := g.stand(now, &d); err != nil {
				return err
			}
			continue
		}
		id := g.expired(now)
		if id == "" {
			return nil
		}
		d := streams.Expire(g.hard(), g.soft, &env, id)
		if err := g.stand(now, &d); err != nil {
			return err
		}
	}
	return nil
}

// expired is the first member whose timer is due.
func (g *group) expired(now int64) string {
	first := ""
	for id, m := range g.soft.Members {
		if at := m.NextDeadline(); at != 0 && at <= now && (first == "" || id < first) {
			first = id
		}
	}
	return first
}

// disconnected ends the connection of a member.
func (g *group) disconnected(now int64, member string) {
	if g.soft != nil && g.soft.Members[member] != nil {
		g.soft.Members[member].Disconnected(now, &g.settings)
	}
}

// failover loses what only the leader knew.
func (g *group) failover(now int64) {
	if g.soft != nil {
		env := g.env(now)
		g.soft = streams.NewSoftOnElection(g.hard(), &env)
	}
}
