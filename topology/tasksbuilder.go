package topology

import "slices"

// NewTasks makes a set from tasks in any order; repeated ones count once.
func NewTasks(ts ...Task) Tasks {
	var b TasksBuilder
	for _, t := range ts {
		b.Add(t)
	}
	set, _ := b.Build()
	return set
}

// TasksBuilder makes a set from tasks in any order, possibly repeated. The zero value is ready; it may be used again
// after Reset. It is not safe for concurrent use.
type TasksBuilder struct {
	items    []taskEpoch
	epochs   bool
	unsorted bool
}

type taskEpoch struct {
	Task
	epoch int32
}

// Grow makes room for n more tasks.
func (b *TasksBuilder) Grow(n int) { b.items = slices.Grow(b.items, n) }

// Reset forgets what was added and keeps the memory.
func (b *TasksBuilder) Reset() {
	clear(b.items)
	*b = TasksBuilder{items: b.items[:0]}
}

// Add adds a task without an epoch (epoch 0 where others have one).
func (b *TasksBuilder) Add(t Task) {
	if n := len(b.items); n > 0 && !b.unsorted && b.items[n-1].Compare(t) >= 0 {
		b.unsorted = true
	}
	b.items = append(b.items, taskEpoch{Task: t})
}

// AddWithEpoch adds a task with its assignment epoch.
func (b *TasksBuilder) AddWithEpoch(t Task, epoch int32) {
	b.Add(t)
	b.items[len(b.items)-1].epoch = epoch
	b.epochs = true
}

// Build returns the set, which shares no memory with the builder but the id strings, and in order the tasks that were
// added more than once. Of a repeated task the epoch added first stays.
func (b *TasksBuilder) Build() (set Tasks, duplicates []Task) {
	if len(b.items) == 0 {
		return nil, nil
	}
	if b.unsorted {
		slices.SortStableFunc(b.items, func(x, y taskEpoch) int { return x.Compare(y.Task) })
		b.unsorted = false
		duplicates = b.dedupe()
	}
	subtopologies := 1
	for i := 1; i < len(b.items); i++ {
		if b.items[i].Subtopology != b.items[i-1].Subtopology {
			subtopologies++
		}
	}
	set = make(Tasks, 0, subtopologies)
	partitions, epochs := make([]int32, len(b.items)), []int32(nil)
	if b.epochs {
		epochs = make([]int32, len(b.items))
	}
	start := 0
	for i, it := range b.items {
		partitions[i] = it.Partition
		if b.epochs {
			epochs[i] = it.epoch
		}
		if i+1 < len(b.items) && b.items[i+1].Subtopology == it.Subtopology {
			continue
		}
		s := SubtopologyTasks{Subtopology: it.Subtopology, Partitions: partitions[start : i+1 : i+1]}
		if b.epochs {
			s.Epochs = epochs[start : i+1 : i+1]
		}
		set = append(set, s)
		start = i + 1
	}
	return set, duplicates
}

// dedupe drops repeated tasks of the sorted items and returns each of them once.
func (b *TasksBuilder) dedupe() (duplicates []Task) {
	kept := b.items[:1]
	for _, it := range b.items[1:] {
		if it.Task != kept[len(kept)-1].Task {
			kept = append(kept, it)
		} else if n := len(duplicates); n == 0 || duplicates[n-1] != it.Task {
			duplicates = append(duplicates, it.Task)
		}
	}
	b.items = kept
	return duplicates
}

// IsNormal reports whether t has the normal form that Tasks demands.
func (t Tasks) IsNormal() bool {
	for i := range t {
		s := &t[i]
		if len(s.Partitions) == 0 || s.Epochs != nil && len(s.Epochs) != len(s.Partitions) ||
			i > 0 && t[i-1].Subtopology >= s.Subtopology {
			return false
		}
		for k := 1; k < len(s.Partitions); k++ {
			if s.Partitions[k-1] >= s.Partitions[k] {
				return false
			}
		}
	}
	return true
}
