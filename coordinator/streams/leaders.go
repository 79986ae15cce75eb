package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// leadersCount says whether active tasks are placed by the racks of leaders.
func leadersCount(s *coordinator.GroupSettings) bool {
	return s.RackAwareStrategy == coordinator.RackStrategyMinTraffic
}

// leaderRacks is for each task of a subtopology the rack in which most of its source partitions have their leaders, of as many
// the first by name: "" where none is known, nil where the group does not ask for it or none of any task is known.
func leaderRacks(env *Env, s *topology.ConfiguredSubtopology) []string {
	if !leadersCount(env.Settings) || env.Leaders == nil {
		return nil
	}
	votes := make([]map[string]int, s.NumTasks)
	known := false
	vote := func(topic string) {
		for p, rack := range env.Leaders.LeaderRacks(topic) {
			if rack == "" || p >= len(votes) {
				continue
			}
			if votes[p] == nil {
				votes[p] = make(map[string]int, 1)
			}
			votes[p][rack]++
			known = true
		}
	}
	for _, topic := range s.SourceTopics {
		vote(topic)
	}
	for i := range s.RepartitionSources {
		vote(s.RepartitionSources[i].Name)
	}
	if !known {
		return nil
	}
	racks := make([]string, s.NumTasks)
	for p, of := range votes {
		for rack, n := range of {
			if best := racks[p]; n > of[best] || n == of[best] && rack < best {
				racks[p] = rack
			}
		}
	}
	return racks
}
