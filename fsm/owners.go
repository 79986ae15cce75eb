package fsm

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/coordd/coordd/topology"
)

// role is one of the three roles of a task.
type role int

const (
	active role = iota
	standby
	warmup
	numRoles
)

func (r role) of(a *topology.Assignment) topology.Tasks {
	switch r {
	case active:
		return a.Active
	case standby:
		return a.Standby
	}
	return a.Warmup
}

// owners are the group-wide indexes of the processes that hold a task, by role. They are a function of the members
// alone: the same whatever the order of the records. Kafka keeps the same maps (StreamsGroup.java,
// currentActiveTaskToProcessId), there with one process for an active task.
type owners [numRoles]ownerIndex

// ownerIndex maps tasks to their holders: one entry for each subtopology of which a task is held, ids ascending. It is
// immutable; nearly all of its memory is 8 bytes a task.
type ownerIndex []subtopologyOwners

type subtopologyOwners struct {
	subtopology string
	chunks      []chunk // by ascending base
}

// chunk holds the tasks of the partitions base*64 to base*64+63: a bit for each held one, and its holders in order.
type chunk struct {
	base int32
	bits uint64
	held []*holder
}

// holder is a process that holds a task through some members; the list goes on by ascending process id. Holders are
// immutable, and the tasks of a member that holds them alone share one.
type holder struct {
	process string
	members int32
	next    *holder
}

func (h *holder) has(process string) bool {
	for ; h != nil; h = h.next {
		if h.process == process {
			return true
		}
	}
	return false
}

// with returns the list with n more members of a process; a process without members is left out.
func (h *holder) with(process string, n int32) *holder {
	switch {
	case h == nil || process < h.process:
		if n <= 0 {
			return h
		}
		return &holder{process: process, members: n, next: h}
	case h.process == process && h.members+n <= 0:
		return h.next
	case h.process == process:
		return &holder{process: process, members: h.members + n, next: h.next}
	}
	return &holder{process: h.process, members: h.members, next: h.next.with(process, n)}
}

// holders returns the processes that hold a task.
func (x ownerIndex) holders(t topology.Task) *holder {
	i, ok := x.find(t.Subtopology)
	if !ok {
		return nil
	}
	chunks := x[i].chunks
	j, ok := findChunk(chunks, t.Partition>>6)
	if !ok {
		return nil
	}
	c := &chunks[j]
	bit := uint64(1) << (t.Partition & 63)
	if c.bits&bit == 0 {
		return nil
	}
	return c.held[bits.OnesCount64(c.bits&(bit-1))]
}

func (x ownerIndex) find(subtopology string) (int, bool) {
	return slices.BinarySearchFunc(x, subtopology, func(s subtopologyOwners, id string) int {
		return strings.Compare(s.subtopology, id)
	})
}

func findChunk(chunks []chunk, base int32) (int, bool) {
	// Partitions are numbered from 0 without holes, so that a chunk mostly stands at its own number.
	if base >= 0 && int(base) < len(chunks) && chunks[base].base == base {
		return int(base), true
	}
	return slices.BinarySearchFunc(chunks, base, func(c chunk, base int32) int { return int(c.base) - int(base) })
}

// change is what happens to the holders of a task: n members more of a process. A task without other holders gets sole.
type change struct {
	process string
	n       int32
	sole    *holder
}

func (c change) of(h *holder) *holder {
	if h == nil && c.sole != nil {
		return c.sole
	}
	return h.with(c.process, c.n)
}

// with returns the index after a change of the holders of tasks.
func (x ownerIndex) with(tasks topology.Tasks, c change) ownerIndex {
	if len(tasks) == 0 {
		return x
	}
	out := make(ownerIndex, len(x), len(x)+len(tasks))
	copy(out, x)
	for i := range tasks {
		id := tasks[i].Subtopology
		at, found := out.find(id)
		var chunks []chunk
		if found {
			chunks = out[at].chunks
		}
		chunks = changeChunks(chunks, tasks[i].Partitions, c)
		switch {
		case found && len(chunks) == 0:
			out = slices.Delete(out, at, at+1)
		case found:
			out[at].chunks = chunks
		case len(chunks) > 0:
			out = slices.Insert(out, at, subtopologyOwners{subtopology: id, chunks: chunks})
		}
	}
	return slices.Clip(out)
}

// changeChunks returns a copy of chunks after a change of the given partitions, which are ascending.
func changeChunks(chunks []chunk, partitions []int32, c change) []chunk {
	out := append(make([]chunk, 0, len(chunks)+1), chunks...)
	for len(partitions) > 0 {
		base := partitions[0] >> 6
		n := 1
		for n < len(partitions) && partitions[n]>>6 == base {
			n++
		}
		i, found := findChunk(out, base)
		if !found {
			out = slices.Insert(out, i, chunk{base: base})
		}
		out[i] = out[i].with(partitions[:n], c)
		if out[i].bits == 0 {
			out = slices.Delete(out, i, i+1)
		}
		partitions = partitions[n:]
	}
	return out
}

// with returns the chunk after a change of the holders of partitions, all of them in this chunk.
func (k chunk) with(partitions []int32, c change) chunk {
	var all uint64
	for _, p := range partitions {
		all |= 1 << (p & 63)
	}
	out := chunk{base: k.base, held: make([]*holder, 0, bits.OnesCount64(k.bits|all))}
	for rest := k.bits | all; rest != 0; rest &= rest - 1 {
		bit := rest & -rest
		var h *holder
		if k.bits&bit != 0 {
			h = k.held[bits.OnesCount64(k.bits&(bit-1))]
		}
		if all&bit != 0 {
			h = c.of(h)
		}
		if h != nil {
			out.bits |= bit
			out.held = append(out.held, h)
		}
	}
	return out
}
