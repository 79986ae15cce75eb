package topology

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// decideRepartition gives every repartition topic without a fixed count the maximum of the sources of the subtopology that
// writes it (Kafka's RepartitionTopics). Kafka decides as soon as one source is known, in the order of a hash map;
// here a subtopology decides when all of its sources are known, and only when no subtopology is that far (there is
// a loop) the first with any known source does.
func (c *counts) decideRepartition() error {
	newWriters(c).run()
	var loops, unwritten []string
	for _, s := range c.subtopologies {
		for _, sink := range s.RepartitionSinkTopics {
			if _, ok := c.decided[sink]; !ok {
				loops = append(loops, sink)
			}
		}
	}
	if len(loops) > 0 {
		return invalidf("Failed to compute number of partitions for all repartition topics. There may be loops in the "+
			"topology that cannot be resolved. Topics without a count: %s.", list(loops, ", "))
	}
	for name := range c.repartition {
		if _, ok := c.decided[name]; !ok {
			unwritten = append(unwritten, name)
		}
	}
	if len(unwritten) > 0 {
		return invalidf("Failed to compute number of partitions for all repartition topics, because a repartition source topic "+
			"is never used as a sink topic. Topics without a writer and without a fixed count: %s.", list(unwritten, ", "))
	}
	return nil
}

// writers are the subtopologies as writers of repartition topics, in the order of counts.subtopologies. Each is looked at
// a bounded number of times for each of its topics, so that the work is linear in the topology.
type writers struct {
	*counts
	all     []writer
	readers map[string][]int // repartition topic -> indexes of the subtopologies that read it
	// queue holds i for a writer with all sources known and i+len(all) for one with some.
	queue minHeap
}

type writer struct {
	open    int   // sources without a count yet
	maximum int32 // over the known sources
	done    bool
}

func newWriters(c *counts) *writers {
	w := &writers{counts: c, all: make([]writer, len(c.subtopologies)), readers: make(map[string][]int)}
	for i, s := range c.subtopologies {
		known := len(s.SourceTopics)
		for _, topic := range s.SourceTopics {
			n, _ := c.exists(topic)
			w.all[i].maximum = max(w.all[i].maximum, n)
		}
		for _, r := range s.RepartitionSourceTopics {
			if r.Partitions != 0 {
				w.all[i].maximum = max(w.all[i].maximum, r.Partitions)
				known++
				continue
			}
			w.all[i].open++
			w.readers[r.Name] = append(w.readers[r.Name], i)
		}
		if known > 0 {
			w.enqueue(i)
		}
	}
	return w
}

func (w *writers) enqueue(i int) {
	if w.all[i].open > 0 {
		i += len(w.all)
	}
	heap.Push(&w.queue, i)
}

func (w *writers) run() {
	for len(w.queue) > 0 {
		i := heap.Pop(&w.queue).(int) % len(w.all)
		if w.all[i].done {
			continue
		}
		w.all[i].done = true
		for _, sink := range w.subtopologies[i].RepartitionSinkTopics {
			if _, ok := w.decided[sink]; !ok {
				w.decide(sink, w.all[i].maximum)
			}
		}
	}
}

// decide gives a repartition topic its count and tells those who read it.
func (w *writers) decide(topic string, n int32) {
	w.decided[topic] = n
	for _, i := range w.readers[topic] {
		w.all[i].open--
		w.all[i].maximum = max(w.all[i].maximum, n)
		if !w.all[i].done {
			w.enqueue(i)
		}
	}
}

// minHeap is a heap.Interface of numbers, the smallest first.
type minHeap []int

func (h minHeap) Len() int           { return len(h) }
func (h minHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h minHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *minHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *minHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// enforceCopartitioning gives the topics of each copartition group one partition count, or says why it cannot (Kafka's
// CopartitionedTopicsEnforcer). Groups are taken in the order of subtopologies, within one by their topics: a later
// group sees what earlier ones imposed.
func (c *counts) enforceCopartitioning() error {
	for _, s := range c.subtopologies {
		groups := make([][]string, 0, len(s.CopartitionGroups))
		for _, g := range s.CopartitionGroups {
			var topics []string
			for _, i := range g.SourceTopics {
				topics = append(topics, s.SourceTopics[i])
			}
			for _, i := range g.RepartitionSourceTopics {
				topics = append(topics, s.RepartitionSourceTopics[i].Name)
			}
			groups = append(groups, sortedSet(topics))
		}
		slices.SortFunc(groups, slices.Compare[[]string])
		for _, topics := range groups {
			if err := c.enforce(topics); err != nil {
				return err
			}
		}
	}
	return nil
}

// enforce handles one copartition group, a sorted set of topics. All their counts are known by now.
func (c *counts) enforce(topics []string) error {
	var repartition, external, fixed []string
	for _, topic := range topics {
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
			return &Problem{IncorrectlyPartitionedTopics, c.differentCounts(external)}
		}
		n, _ = c.count(external[0])
	case len(fixed) > 0:
		if !c.sameCount(fixed) {
			return &Problem{IncorrectlyPartitionedTopics, c.differentCounts(repartition)}
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
				"doesn't match number of partitions [%d] of the source topic.", has, topic, n)}
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

// differentCounts names topics with their counts as Kafka prints them; unlike Kafka's, the list is bounded. The topics
// named first are chosen such that different counts are seen.
func (c *counts) differentCounts(topics []string) string {
	named := slices.Clone(topics[:min(len(topics), maxListed)])
	if len(topics) > maxListed && c.sameCount(named) {
		first, _ := c.count(named[0])
		other := slices.IndexFunc(topics, func(topic string) bool {
			n, _ := c.count(topic)
			return n != first
		})
		named[maxListed-1] = topics[other]
	}
	for i, topic := range named {
		n, _ := c.count(topic)
		named[i] = fmt.Sprintf("%s=%d", topic, n)
	}
	more := ""
	if n := len(topics) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d additional topics", n)
	}
	return "Following topics do not have the same number of partitions: [{" + strings.Join(named, ", ") + "}]" + more
}
