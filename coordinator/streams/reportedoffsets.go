package streams

import (
	"iter"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// maxUnsureOffsets is how many offsets of a list are kept of tasks of which it is not known whether they exist. A member reports the
// tasks that its process has on disk.
const maxUnsureOffsets = 10_000

// maxOtherOffsets is how many are kept of tasks that do not exist: describing a member shows what it reported.
const maxOtherOffsets = 100

// takeOffsets keeps the reported task offsets; each list on its own replaces the one reported before.
func (h *heartbeat) takeOffsets(d *Decision) (err *coordinator.Error) {
	if h.req.TaskOffsets != nil || h.req.TaskEndOffsets != nil {
		r := h.reportReader()
		if h.req.TaskOffsets != nil {
			if d.Soft.TaskOffsets, err = r.read("TaskOffsets", h.req.TaskOffsets); err != nil {
				return err
			}
		}
		if h.req.TaskEndOffsets != nil {
			if d.Soft.TaskEndOffsets, err = r.read("TaskEndOffsets", h.req.TaskEndOffsets); err != nil {
				return err
			}
		}
	}
	h.offsets = memberOffsets{d.Soft.TaskOffsets, d.Soft.TaskEndOffsets}
	return nil
}

// reportReader reads lists of offsets, of which it keeps those of tasks that the group's topology has, or the member's own where that
// is another one, and few others. What it keeps shares no memory with the request, and ids with the topology.
type reportReader struct {
	topology   *topology.Topology
	configured *topology.Configured
	// stale says that the member runs another topology: own, with ownTasks, as far as these are known.
	stale    bool
	own      *topology.Topology
	ownTasks []record.TaskCount
	// numbers are the ids that were met, by which subtopologies has them.
	numbers       map[string]uint32
	subtopologies []reportedSubtopology
	// others are the subtopologies of which the configured topology says nothing, once asked for.
	others map[string]reportedSubtopology
}

// reportedSubtopology is of which partitions of a subtopology offsets are kept: those below sure, which exist, of those below
// tasks, which may exist, up to maxUnsureOffsets, and of others up to maxOtherOffsets. The id is empty where nobody has it.
type reportedSubtopology struct {
	id          string
	tasks, sure int32
}

func (h *heartbeat) reportReader() reportReader {
	r := reportReader{topology: h.topology, configured: h.topics.Configured, stale: h.stale}
	if h.stale {
		r.own = h.line.content(h.meta.TopologyEpoch)
		if v := h.line.version(h.meta.TopologyEpoch); v != nil {
			r.ownTasks = v.Tasks
		}
	}
	return r
}

// read returns what is kept of a list, sorted by task, and refuses one that makes no sense.
func (r *reportReader) read(field string, in []TaskOffset) ([]TaskOffset, *coordinator.Error) {
	keys, kept := make([]uint64, len(in)), 0
	var last string
	var number uint32
	var room keptOffsets
	sorted := true
	for i := range in {
		o := &in[i]
		if o.Partition < 0 {
			return nil, coordinator.Errorf(coordinator.InvalidRequest, "%s contain the negative partition %d.", field, o.Partition)
		}
		if i == 0 || o.Subtopology != last {
			last, number = o.Subtopology, r.number(o.Subtopology)
		}
		keys[i] = uint64(number)<<32 | uint64(o.Partition)
		sorted = sorted && (i == 0 || keys[i] > keys[i-1])
		if r.keeps(keys[i], &room) {
			kept++
		}
	}
	out := make([]TaskOffset, 0, kept)
	room = keptOffsets{}
	for i, key := range keys {
		if r.keeps(key, &room) {
			id := r.subtopologies[key>>32].id
			if id == "" {
				id = strings.Clone(in[i].Subtopology)
			}
			out = append(out, TaskOffset{Task: topology.Task{Subtopology: id, Partition: int32(uint32(key))}, Offset: in[i].Offset})
		}
	}
	if !sorted {
		slices.Sort(keys)
	}
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return nil, r.duplicate(field, in, keys[i])
		}
	}
	slices.SortFunc(out, func(a, b TaskOffset) int { return a.Compare(b.Task) })
	return out, nil
}

func (r *reportReader) duplicate(field string, in []TaskOffset, key uint64) *coordinator.Error {
	i := slices.IndexFunc(in, func(o TaskOffset) bool {
		return o.Partition == int32(uint32(key)) && r.numbers[o.Subtopology] == uint32(key>>32)
	})
	return coordinator.Errorf(coordinator.InvalidRequest, "Task offsets contain a duplicate entry for subtopology %s and partition %d in %s.",
		in[i].Subtopology, in[i].Partition, field)
}

// keptOffsets counts the offsets that are kept of tasks that may exist, and of those that do not.
type keptOffsets struct{ unsure, other int }

// keeps says whether the offset of a task is kept, and counts it unless its task exists.
func (r *reportReader) keeps(key uint64, kept *keptOffsets) bool {
	s, partition := &r.subtopologies[key>>32], int32(uint32(key))
	count, limit := &kept.unsure, maxUnsureOffsets
	switch {
	case partition < s.sure:
		return true
	case partition >= s.tasks:
		count, limit = &kept.other, maxOtherOffsets
	}
	if *count == limit {
		return false
	}
	*count++
	return true
}

// number numbers the subtopologies in the order in which they are met.
func (r *reportReader) number(id string) uint32 {
	n, ok := r.numbers[id]
	if !ok {
		if r.numbers == nil {
			r.numbers = map[string]uint32{}
		}
		n = uint32(len(r.subtopologies))
		r.numbers[id] = n
		r.subtopologies = append(r.subtopologies, r.find(id))
	}
	return n
}

func (r *reportReader) find(id string) reportedSubtopology {
	s := r.configured.Subtopology(id)
	if s != nil && !r.stale {
		return reportedSubtopology{s.ID, s.NumTasks, s.NumTasks}
	}
	if r.others == nil {
		r.readOthers()
	}
	other, ok := r.others[id]
	if !ok && r.stale && r.own == nil {
		// Nobody knows what the member runs. The request's memory is not kept.
		other = reportedSubtopology{id: strings.Clone(id), tasks: topology.MaxTasks}
	}
	if s != nil {
		other = reportedSubtopology{s.ID, max(s.NumTasks, other.tasks), max(s.NumTasks, other.sure)}
	}
	return other
}

// readOthers reads the subtopologies of the group's topology where its topics are not complete yet, and those of the member's own.
func (r *reportReader) readOthers() {
	r.others = map[string]reportedSubtopology{}
	take := func(t *topology.Topology) {
		for i := range t.Subtopologies {
			id := t.Subtopologies[i].ID
			r.others[id] = reportedSubtopology{id: id, tasks: topology.MaxTasks}
		}
	}
	if len(r.configured.Subtopologies) == 0 {
		take(r.topology)
	}
	if r.own == nil {
		return
	}
	take(r.own)
	for _, c := range r.ownTasks {
		if s, ok := r.others[c.Subtopology]; ok {
			r.others[c.Subtopology] = reportedSubtopology{s.id, c.Tasks, c.Tasks}
		}
	}
}

// reportedTasks yields the tasks of sorted lists in order, each once.
func reportedTasks(lists ...[]TaskOffset) iter.Seq[topology.Task] {
	return func(yield func(topology.Task) bool) {
		rest := slices.Clone(lists)
		for {
			var next *topology.Task
			for _, l := range rest {
				if len(l) > 0 && (next == nil || l[0].Compare(*next) < 0) {
					next = &l[0].Task
				}
			}
			if next == nil || !yield(*next) {
				return
			}
			for i, l := range rest {
				if len(l) > 0 && l[0].Task == *next {
					rest[i] = l[1:]
				}
			}
		}
	}
}
