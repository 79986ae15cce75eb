package assignor

import (
	"maps"
	"slices"

	"github.com/coordd/coordd/topology"
)

// TaskOffset is a cumulative position in the changelogs of a task.
type TaskOffset struct {
	topology.Task
	Offset int64
}

// Offsets are positions in ascending order of tasks, each task once; nil when nothing was reported. A value is immutable once
// it is shared.
type Offsets []TaskOffset

// OffsetsOf makes Offsets of a map; nil of nil.
func OffsetsOf(m map[topology.Task]int64) Offsets {
	if m == nil {
		return nil
	}
	o := make(Offsets, 0, len(m))
	for _, t := range slices.SortedFunc(maps.Keys(m), topology.Task.Compare) {
		o = append(o, TaskOffset{t, m[t]})
	}
	return o
}

// Of returns the position of a task, or false where none was reported.
func (o Offsets) Of(t topology.Task) (int64, bool) {
	i, ok := slices.BinarySearchFunc(o, t, func(have TaskOffset, t topology.Task) int { return have.Compare(t) })
	if !ok {
		return 0, false
	}
	return o[i].Offset, true
}
