package server

import (
	"slices"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// neededTopics lists the topics of all groups, those of shards that others lead included. It is used by one goroutine, and
// works through the groups of a shard when the shard changed.
type neededTopics struct {
	node   *Node
	shards []shardTopics
}

type shardTopics struct {
	state  fsm.State
	groups map[string]groupTopics
}

// groupTopics are what a topology needs.
type groupTopics struct {
	topology *topology.Topology
	names    []string
	patterns bool
}

// names are the topics that groups need, sorted; others says that some read topics by patterns.
func (n *neededTopics) names() (names []string, others bool) {
	if n.shards == nil {
		n.shards = make([]shardTopics, len(n.node.shards))
	}
	for i, r := range n.node.shards {
		shard := &n.shards[i]
		if state := r.replica.State(); shard.groups == nil || state != shard.state {
			shard.update(state)
		}
		for _, g := range shard.groups {
			names = append(names, g.names...)
			others = others || g.patterns
		}
	}
	slices.Sort(names)
	return slices.Compact(names), others
}

func (s *shardTopics) update(state fsm.State) {
	groups := make(map[string]groupTopics, state.NumGroups())
	for g := range state.Groups() {
		t := g.Topology
		if t == nil || g.NumMembers() == 0 { // nobody waits for the topics of an empty group
			continue
		}
		known := s.groups[g.ID]
		if known.topology != t {
			known = groupTopics{t, t.RequiredTopics(), t.HasPatterns()}
			for i := range t.Subtopologies {
				known.names = append(known.names, t.Subtopologies[i].RepartitionSinkTopics...)
			}
		}
		groups[g.ID] = known
	}
	s.state, s.groups = state, groups
}
