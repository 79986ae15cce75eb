package topology

import (
	"iter"
	"slices"
	"strings"
)

// Task is one unit of work: a partition of a subtopology.
type Task struct {
	Subtopology string
	Partition   int32
}

// Compare orders tasks by subtopology id as a string, then by partition.
func (t Task) Compare(o Task) int {
	if c := strings.Compare(t.Subtopology, o.Subtopology); c != 0 {
		return c
	}
	return int(t.Partition) - int(o.Partition)
}

// Tasks is a set of tasks of one role in normal form: one entry for each subtopology, ids ascending as strings,
// partitions ascending and unique, no entry without partitions. A Tasks value is immutable once it is shared. In
// requests and responses nil means "absent" (null on the wire) and an empty, non-nil value means "none".
//
// The set operations take nil and empty for the same, run in linear time, and share memory with their operands where
// they can: an operand that equals the result is returned as it is, and an empty result is nil (see NonNil).
type Tasks []SubtopologyTasks

// SubtopologyTasks are the tasks of one subtopology.
type SubtopologyTasks struct {
	Subtopology string
	Partitions  []int32
	// Epochs holds, for active tasks of a current assignment, the assignment epoch at which each partition was
	// granted (same length as Partitions). It is nil for targets, replicas, requests and responses.
	Epochs []int32
}

// epoch returns the epoch of the i-th partition; 0 where there are none.
func (s *SubtopologyTasks) epoch(i int) int32 {
	if s.Epochs == nil {
		return 0
	}
	return s.Epochs[i]
}

// NonNil returns t, or an empty set that is not nil: "none" instead of "absent".
func (t Tasks) NonNil() Tasks {
	if t == nil {
		return Tasks{}
	}
	return t
}

// Len is the number of tasks.
func (t Tasks) Len() int {
	n := 0
	for i := range t {
		n += len(t[i].Partitions)
	}
	return n
}

// IsEmpty reports whether there is no task.
func (t Tasks) IsEmpty() bool { return t.Len() == 0 }

// Of returns the entry of a subtopology, or nil.
func (t Tasks) Of(subtopology string) *SubtopologyTasks {
	i, ok := slices.BinarySearchFunc(t, subtopology, func(s SubtopologyTasks, id string) int {
		return strings.Compare(s.Subtopology, id)
	})
	if !ok {
		return nil
	}
	return &t[i]
}

// Contains reports whether task is in the set.
func (t Tasks) Contains(task Task) bool {
	_, ok := t.Epoch(task)
	return ok
}

// Epoch returns the assignment epoch of task (0 where the set carries no epochs), or false when the task is not in
// the set.
func (t Tasks) Epoch(task Task) (int32, bool) {
	s := t.Of(task.Subtopology)
	if s == nil {
		return 0, false
	}
	i, ok := slices.BinarySearch(s.Partitions, task.Partition)
	if !ok {
		return 0, false
	}
	return s.epoch(i), true
}

// All yields the tasks in order with their assignment epochs (0 where the set carries none).
func (t Tasks) All() iter.Seq2[Task, int32] {
	return func(yield func(Task, int32) bool) {
		for i := range t {
			for j, p := range t[i].Partitions {
				if !yield(Task{t[i].Subtopology, p}, t[i].epoch(j)) {
					return
				}
			}
		}
	}
}

// Equal reports whether both sets hold the same tasks with the same epochs; absent epochs equal only absent epochs.
func (t Tasks) Equal(o Tasks) bool {
	return t.equal(o, func(a, b *SubtopologyTasks) bool {
		return slices.Equal(a.Partitions, b.Partitions) && (a.Epochs == nil) == (b.Epochs == nil) &&
			slices.Equal(a.Epochs, b.Epochs)
	})
}

// SameTasks reports whether both sets hold the same tasks, whatever their epochs.
func (t Tasks) SameTasks(o Tasks) bool {
	return t.equal(o, func(a, b *SubtopologyTasks) bool { return slices.Equal(a.Partitions, b.Partitions) })
}

func (t Tasks) equal(o Tasks, same func(a, b *SubtopologyTasks) bool) bool {
	if len(t) != len(o) {
		return false
	}
	if t.identical(o) {
		return true
	}
	for i := range t {
		if t[i].Subtopology != o[i].Subtopology || !same(&t[i], &o[i]) {
			return false
		}
	}
	return true
}

// identical reports whether both are the same value in memory, which the steady state makes common.
func (t Tasks) identical(o Tasks) bool {
	return len(t) == len(o) && (len(t) == 0 || &t[0] == &o[0])
}

// SubsetOf reports whether o holds every task of t, whatever the epochs.
func (t Tasks) SubsetOf(o Tasks) bool {
	if t.identical(o) {
		return true
	}
	j := 0
	for i := range t {
		for j < len(o) && o[j].Subtopology < t[i].Subtopology {
			j++
		}
		if j == len(o) || o[j].Subtopology != t[i].Subtopology ||
			countCommon(t[i].Partitions, o[j].Partitions) != len(t[i].Partitions) {
			return false
		}
	}
	return true
}

// Intersects reports whether the sets have a task in common.
func (t Tasks) Intersects(o Tasks) bool {
	for i, j := 0, 0; i < len(t) && j < len(o); {
		switch c := strings.Compare(t[i].Subtopology, o[j].Subtopology); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if countCommon(t[i].Partitions, o[j].Partitions) > 0 {
				return true
			}
			i, j = i+1, j+1
		}
	}
	return false
}

// NumCommon is the number of tasks that the sets have in common.
func (t Tasks) NumCommon(o Tasks) (n int) {
	for i, j := 0, 0; i < len(t) && j < len(o); {
		switch c := strings.Compare(t[i].Subtopology, o[j].Subtopology); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			n += countCommon(t[i].Partitions, o[j].Partitions)
			i, j = i+1, j+1
		}
	}
	return n
}

// countCommon counts the elements that two ascending lists share.
func countCommon(a, b []int32) int {
	n := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			n, i, j = n+1, i+1, j+1
		}
	}
	return n
}
