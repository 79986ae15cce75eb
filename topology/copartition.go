package topology

import (
	"fmt"
	"slices"
)

// copartition is a set of topics that need one partition count, sorted, and the subtopologies that say so, in order.
type copartition struct {
	topics []string
	ids    []string
	// groups are those that it was joined from; nil in a group as it was sent.
	groups []copartition
}

// enforceCopartitioning gives the topics of each copartition group one partition count, or says why it cannot (Kafka's
// CopartitionedTopicsEnforcer). Groups that share a topic need the same count, directly or over others, and are decided
// together.
func (c *counts) enforceCopartitioning() error {
	for _, together := range joined(c.copartitionGroups()) {
		var err error
		if len(together.groups) == 1 {
			err = c.enforce(together)
		} else {
			err = c.enforceTogether(together)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enforceTogether decides groups that share topics. Kafka takes one after the other, in the order of requests and hash maps,
// and a later one may undo what an earlier one imposed. An app whose topics were made so runs with Kafka, and here. Where
// the groups contradict each other, they are taken in order of their topics, and of repartition topics only what their
// writers give counts, so that the same follows once they exist.
func (c *counts) enforceTogether(together copartition) error {
	before := c.decidedOf(together.topics)
	contradiction := c.enforceAll([]copartition{together})
	if contradiction == nil && c.fit(together.topics) {
		return nil
	}
	decided := c.decidedOf(together.topics)
	backwards := slices.Clone(together.groups)
	slices.Reverse(backwards)
	if c.allExist(together.topics) {
		for _, way := range [...][]copartition{together.groups, backwards} {
			c.restore(before)
			if c.enforceAll(way) == nil && c.fit(together.topics) {
				return nil
			}
		}
	}
	if contradiction == nil {
		c.restore(decided)
		return nil
	}
	c.restore(before)
	c.unseen = true
	defer func() { c.unseen = false }()
	return c.enforceAll(together.groups)
}

func (c *counts) enforceAll(groups []copartition) error {
	for _, g := range groups {
		if err := c.enforce(g); err != nil {
			return err
		}
	}
	return nil
}

// copartitionGroups are the groups of all subtopologies, in order.
func (c *counts) copartitionGroups() []copartition {
	var all []copartition
	for _, s := range c.subtopologies {
		groups := make([]copartition, 0, len(s.CopartitionGroups))
		for _, g := range s.CopartitionGroups {
			var topics []string
			for _, i := range g.SourceTopics {
				topics = append(topics, s.SourceTopics[i])
			}
			for _, i := range g.SourceTopicRegex {
				topics = append(topics, c.resolution.matches[s.SourceTopicRegex[i]]...)
			}
			for _, i := range g.RepartitionSourceTopics {
				topics = append(topics, s.RepartitionSourceTopics[i].Name)
			}
			groups = append(groups, copartition{topics: sortedSet(topics), ids: []string{s.ID}})
		}
		slices.SortFunc(groups, func(a, b copartition) int { return slices.Compare(a.topics, b.topics) })
		all = append(all, groups...)
	}
	return all
}

// joined joins groups that share topics, in the order of their first ones.
func joined(groups []copartition) []copartition {
	parent := make([]int, len(groups))
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	first := make(map[string]int) // topic -> a group that has it
	for i, g := range groups {
		parent[i] = i
		for _, topic := range g.topics {
			other, ok := first[topic]
			if !ok {
				first[topic] = i
				continue
			}
			a, b := root(other), root(i)
			parent[max(a, b)] = min(a, b)
		}
	}
	at := make(map[int]int)
	var out []copartition
	for i, g := range groups {
		r := root(i)
		k, ok := at[r]
		if !ok {
			k = len(out)
			at[r], out = k, append(out, copartition{})
		}
		t := &out[k]
		t.topics, t.groups = append(t.topics, g.topics...), append(t.groups, g)
		if n := len(t.ids); n == 0 || t.ids[n-1] != g.ids[0] {
			t.ids = append(t.ids, g.ids[0])
		}
	}
	for i := range out {
		out[i].topics = sortedSet(out[i].topics)
	}
	return out
}

// decidedOf returns the decided counts of topics, to be restored.
func (c *counts) decidedOf(topics []string) map[string]int32 {
	decided := make(map[string]int32)
	for _, topic := range topics {
		if n, ok := c.decided[topic]; ok {
			decided[topic] = n
		}
	}
	return decided
}

func (c *counts) restore(decided map[string]int32) {
	for topic, n := range decided {
		c.decided[topic] = n
	}
}

// fit reports whether the topics that exist have the counts that were decided.
func (c *counts) fit(topics []string) bool {
	for _, topic := range topics {
		want, decided := c.decided[topic]
		if has, exists := c.exists(topic); decided && exists && has != want {
			return false
		}
	}
	return true
}

func (c *counts) allExist(topics []string) bool {
	return !slices.ContainsFunc(topics, func(topic string) bool {
		_, ok := c.exists(topic)
		return !ok
	})
}

// enforce handles topics that need one count. All their counts are known by now. After an error nothing is decided.
func (c *counts) enforce(g copartition) error {
	var repartition, external, fixed []string
	for _, topic := range g.topics {
		if _, ok := c.repartition[topic]; !ok {
			external = append(external, topic)
			continue
		}
		repartition = append(repartition, topic)
		// Kafka looks at the fixed topics of the whole topology here; only those of the group can say anything about it.
		if _, ok := c.fixed[topic]; ok {
			fixed = append(fixed, topic)
		}
	}
	var n int32
	switch {
	case len(external) > 0:
		if !c.sameCount(external) {
			return &Problem{IncorrectlyPartitionedTopics, c.differentCounts(external, g)}
		}
		n, _ = c.count(external[0])
	case len(fixed) > 0:
		if !c.sameCount(fixed) {
			return &Problem{IncorrectlyPartitionedTopics, c.differentCounts(repartition, g)}
		}
		n, _ = c.count(fixed[0])
	default:
		for _, topic := range repartition {
			known, _ := c.count(topic)
			n = max(n, known)
		}
	}
	for _, topic := range fixed {
		if has, _ := c.count(topic); has != n {
			return &Problem{IncorrectlyPartitionedTopics, fmt.Sprintf("Number of partitions [%d] of repartition topic [%s] "+
				"doesn't match number of partitions [%d] of the source topic. %s", has, topic, n, needsSame(g))}
		}
	}
	for _, topic := range repartition {
		if _, ok := c.fixed[topic]; !ok {
			c.decided[topic] = n
		}
	}
	return nil
}

func (c *counts) sameCount(topics []string) bool {
	first, _ := c.count(topics[0])
	return !slices.ContainsFunc(topics, func(topic string) bool {
		n, _ := c.count(topic)
		return n != first
	})
}
