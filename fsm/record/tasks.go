package record

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/coordd/coordd/topology"
)

// minTaskIDs is the smallest encoding of one subtopology's tasks: three lengths.
const minTaskIDs = 3

// numIDs are the decimal subtopology ids that Kafka Streams uses, kept once: a decoded id below numIDs costs no memory.
const numIDs = 256

var ids = func() (list [numIDs]string) {
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}()

// internID returns b as a string.
func internID(b []byte) string {
	n := 0
	for _, c := range b {
		if n = n*10 + int(c-'0'); c < '0' || c > '9' || n >= numIDs {
			return string(b)
		}
	}
	if ids[n] == string(b) { // not so for "" and "01"
		return ids[n]
	}
	return string(b)
}

// numSubtopologies counts the subtopologies that have tasks: only these belong to a set's normal form.
func numSubtopologies(tasks topology.Tasks) (n int) {
	for i := range tasks {
		if len(tasks[i].Partitions) > 0 {
			n++
		}
	}
	return n
}

func (w *writer) tasks(tasks topology.Tasks) {
	w.array(numSubtopologies(tasks))
	for i := range tasks {
		if t := &tasks[i]; len(t.Partitions) > 0 {
			w.string(t.Subtopology)
			w.int32s(t.Partitions)
			w.noTags()
		}
	}
}

// tasksWithEpochs writes active tasks; those without an epoch get the given one.
func (w *writer) tasksWithEpochs(tasks topology.Tasks, epoch int32) {
	w.array(numSubtopologies(tasks))
	for i := range tasks {
		t := &tasks[i]
		n := len(t.Partitions)
		if n == 0 {
			continue
		}
		w.string(t.Subtopology)
		w.int32s(t.Partitions)
		w.uvarint(1)
		w.tag(0, uvarintLen(n+1)+4*n)
		if len(t.Epochs) == n {
			w.int32s(t.Epochs)
			continue
		}
		w.array(n)
		for range n {
			w.int32(epoch)
		}
	}
}

// tasks reads a task list; assignment epochs are left out, because only active tasks of a current assignment have any.
func (r *reader) tasks() topology.Tasks {
	tasks := r.taskIDs()
	for i := range tasks {
		tasks[i].Epochs = nil
	}
	return normalTasks(tasks)
}

// tasksWithEpochs reads active tasks. Without assignment epochs, or with too many or too few of them, each partition
// gets the given one (TasksTupleWithEpochs.java).
func (r *reader) tasksWithEpochs(epoch int32) topology.Tasks {
	tasks := r.taskIDs()
	for i := range tasks {
		tasks[i].Epochs = epochsOf(&tasks[i], epoch)
	}
	return normalTasks(tasks)
}

func epochsOf(t *topology.SubtopologyTasks, epoch int32) []int32 {
	if len(t.Epochs) == len(t.Partitions) {
		return t.Epochs
	}
	return slices.Repeat([]int32{epoch}, len(t.Partitions))
}

func (r *reader) taskIDs() topology.Tasks {
	n := r.list(minTaskIDs)
	tasks := make(topology.Tasks, n)
	for i := range tasks {
		t := &tasks[i]
		id, ok := r.stringBytes()
		if !ok {
			r.fail("null subtopology id")
			return topology.Tasks{}
		}
		t.Subtopology = internID(id)
		if m := r.list(4); m > 0 {
			t.Partitions = make([]int32, m)
			for j := range t.Partitions {
				t.Partitions[j] = r.int32()
			}
		}
		r.tags(func(tag int) bool {
			if tag == 0 {
				t.Epochs = r.int32s()
			}
			return tag == 0
		})
	}
	return tasks
}

// normalTasks brings tasks into normal form, in place where they are not: Kafka writes sorted lists, others may not.
func normalTasks(tasks topology.Tasks) topology.Tasks {
	if isNormal(tasks) {
		return tasks
	}
	slices.SortStableFunc(tasks, func(a, b topology.SubtopologyTasks) int {
		return cmp.Compare(a.Subtopology, b.Subtopology)
	})
	out := tasks[:0]
	for _, t := range tasks {
		if len(t.Partitions) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Subtopology == t.Subtopology {
			last := &out[n-1]
			last.Partitions = append(last.Partitions, t.Partitions...)
			last.Epochs = append(last.Epochs, t.Epochs...)
			continue
		}
		out = append(out, t)
	}
	for i := range out {
		sortPartitions(&out[i])
	}
	return out
}

func isNormal(tasks topology.Tasks) bool {
	for i := range tasks {
		if len(tasks[i].Partitions) == 0 || i > 0 && tasks[i-1].Subtopology >= tasks[i].Subtopology {
			return false
		}
		p := tasks[i].Partitions
		for j := 1; j < len(p); j++ {
			if p[j-1] >= p[j] {
				return false
			}
		}
	}
	return true
}

// sortPartitions sorts partitions with their epochs; of a repeated partition the last epoch stays, as in Java's maps.
func sortPartitions(t *topology.SubtopologyTasks) {
	type task struct{ partition, epoch int32 }
	list := make([]task, len(t.Partitions))
	for i, p := range t.Partitions {
		list[i].partition = p
		if t.Epochs != nil {
			list[i].epoch = t.Epochs[i]
		}
	}
	slices.SortStableFunc(list, func(a, b task) int { return cmp.Compare(a.partition, b.partition) })
	n := 0
	for i, e := range list {
		if i+1 < len(list) && list[i+1].partition == e.partition {
			continue
		}
		t.Partitions[n] = e.partition
		if t.Epochs != nil {
			t.Epochs[n] = e.epoch
		}
		n++
	}
	t.Partitions = t.Partitions[:n]
	if t.Epochs != nil {
		t.Epochs = t.Epochs[:n]
	}
}
