package topology

import "container/heap"

// decideRepartition gives every repartition topic without a fixed count the maximum of the sources of the subtopology that
// writes it (Kafka's RepartitionTopics). Kafka decides as soon as one source is known, in the order of a hash map; here
// subtopologies are gone through by ascending id, round after round, and decide when all of their sources are known. Only
// when none does (there is a loop), the first with any known source decides.
func (c *counts) decideRepartition() error {
	newWriters(c).run()
	var loops, unwritten []subtopologyTopics
	for _, s := range c.subtopologies {
		open := subtopologyTopics{id: s.ID}
		for _, sink := range s.RepartitionSinkTopics {
			if _, ok := c.decided[sink]; !ok {
				open.topics = append(open.topics, sink)
			}
		}
		if len(open.topics) > 0 {
			loops = append(loops, open)
		}
	}
	if len(loops) > 0 {
		return invalidf("Failed to compute number of partitions for all repartition topics. There may be loops in the "+
			"topology that cannot be resolved. Topics without a count: %s. %s.", list(allTopics(loops), ", "), which(loops, "writes"))
	}
	for _, s := range c.subtopologies {
		open := subtopologyTopics{id: s.ID}
		for i := range s.RepartitionSourceTopics {
			if _, ok := c.decided[s.RepartitionSourceTopics[i].Name]; !ok {
				open.topics = append(open.topics, s.RepartitionSourceTopics[i].Name)
			}
		}
		if len(open.topics) > 0 {
			unwritten = append(unwritten, open)
		}
	}
	if len(unwritten) > 0 {
		return invalidf("Failed to compute number of partitions for all repartition topics, because a repartition source topic "+
			"is never used as a sink topic. Topics without a writer and without a fixed count: %s. %s.",
			list(allTopics(unwritten), ", "), which(unwritten, "reads"))
	}
	return nil
}

// writers are the subtopologies as writers of repartition topics, in the order of counts.subtopologies. Each is looked at
// a bounded number of times for each of its topics, so that the work is linear in the topology.
type writers struct {
	*counts
	all     []writer
	readers map[string][]int // repartition topic -> indexes of the subtopologies that read it
	// complete holds (round, index) of the writers with all sources known, as one number; partial the indexes of those
	// with some.
	complete, partial minHeap
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
			w.enqueue(i, 0)
		}
	}
	return w
}

func (w *writers) enqueue(i, round int) {
	if w.all[i].open > 0 {
		heap.Push(&w.partial, i)
	} else {
		heap.Push(&w.complete, round*len(w.all)+i)
	}
}

func (w *writers) run() {
	for round := 0; len(w.complete)+len(w.partial) > 0; {
		var i int
		if len(w.complete) > 0 {
			next := heap.Pop(&w.complete).(int)
			round, i = next/len(w.all), next%len(w.all)
		} else {
			i = heap.Pop(&w.partial).(int)
		}
		if w.all[i].done {
			continue
		}
		w.all[i].done = true
		for _, sink := range w.subtopologies[i].RepartitionSinkTopics {
			if _, ok := w.decided[sink]; !ok {
				w.decide(sink, i, round)
			}
		}
	}
}

// decide gives a repartition topic the count of its writer and tells those who read it: those behind the writer have their
// turn in the same round, others in the next.
func (w *writers) decide(topic string, by, round int) {
	n := w.all[by].maximum
	w.decided[topic] = n
	for _, i := range w.readers[topic] {
		w.all[i].open--
		w.all[i].maximum = max(w.all[i].maximum, n)
		switch {
		case w.all[i].done:
		case i > by:
			w.enqueue(i, round)
		default:
			w.enqueue(i, round+1)
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
