package topology

import "strings"

// Intersect returns the tasks of t that are also in o, with the epochs of t.
func (t Tasks) Intersect(o Tasks) Tasks {
	if t.identical(o) {
		return orNil(t)
	}
	r := rewrite{from: t}
	j := 0
	for i := range t {
		for j < len(o) && o[j].Subtopology < t[i].Subtopology {
			j++
		}
		if j < len(o) && o[j].Subtopology == t[i].Subtopology {
			r.put(i, t[i].keep(o[j].Partitions, true))
		} else {
			r.put(i, SubtopologyTasks{})
		}
	}
	return r.result()
}

// Minus returns the tasks of t that are not in o, with the epochs of t.
func (t Tasks) Minus(o Tasks) Tasks {
	if len(o) == 0 {
		return orNil(t)
	}
	if t.identical(o) {
		return nil
	}
	r := rewrite{from: t}
	j := 0
	for i := range t {
		for j < len(o) && o[j].Subtopology < t[i].Subtopology {
			j++
		}
		if j < len(o) && o[j].Subtopology == t[i].Subtopology {
			r.put(i, t[i].keep(o[j].Partitions, false))
		} else {
			r.put(i, t[i])
		}
	}
	return r.result()
}

// Filter returns the tasks of t for which keep is true, with their epochs; keep is called once for each task, in order.
func (t Tasks) Filter(keep func(Task) bool) Tasks {
	r := rewrite{from: t}
	for i := range t {
		s := &t[i]
		e := entryRewrite{from: s}
		for k, p := range s.Partitions {
			e.put(k, keep(Task{s.Subtopology, p}))
		}
		r.put(i, e.result())
	}
	return r.result()
}

// Union returns the tasks of both sets. A task of both has the epoch that it has in t. Where only one of the sets
// carries epochs for a subtopology, the tasks of the other get epoch 0.
func (t Tasks) Union(o Tasks) Tasks {
	if len(o) == 0 || t.identical(o) {
		return orNil(t)
	}
	if len(t) == 0 {
		return o
	}
	if t.covers(o) {
		return t
	}
	if o.covers(t) && !t.hasEpochs() && !o.hasEpochs() {
		return o
	}
	out := make(Tasks, 0, max(len(t), len(o)))
	i, j := 0, 0
	for i < len(t) && j < len(o) {
		switch c := strings.Compare(t[i].Subtopology, o[j].Subtopology); {
		case c < 0:
			out = append(out, t[i])
			i++
		case c > 0:
			out = append(out, o[j])
			j++
		default:
			out = append(out, t[i].merge(&o[j]))
			i, j = i+1, j+1
		}
	}
	out = append(out, t[i:]...)
	return append(out, o[j:]...)
}

// covers reports whether a union with o would give t back: o adds neither a task nor epochs.
func (t Tasks) covers(o Tasks) bool {
	if !o.SubsetOf(t) {
		return false
	}
	for i := range o {
		if o[i].Epochs != nil && t.Of(o[i].Subtopology).Epochs == nil {
			return false
		}
	}
	return true
}

func (t Tasks) hasEpochs() bool {
	for i := range t {
		if t[i].Epochs != nil {
			return true
		}
	}
	return false
}

// WithEpoch returns the same tasks, each with the given assignment epoch.
func (t Tasks) WithEpoch(epoch int32) Tasks {
	n := t.Len()
	if n == 0 {
		return nil
	}
	out, epochs := make(Tasks, len(t)), make([]int32, n)
	for i := range epochs {
		epochs[i] = epoch
	}
	for i := range t {
		k := len(t[i].Partitions)
		out[i] = SubtopologyTasks{t[i].Subtopology, t[i].Partitions, epochs[:k:k]}
		epochs = epochs[k:]
	}
	return out
}

// WithoutEpochs returns the same tasks without epochs.
func (t Tasks) WithoutEpochs() Tasks {
	if !t.hasEpochs() {
		return orNil(t)
	}
	out := make(Tasks, len(t))
	for i := range t {
		out[i] = SubtopologyTasks{Subtopology: t[i].Subtopology, Partitions: t[i].Partitions}
	}
	return out
}

// Clone returns a deep copy that shares nothing with t, strings included: t may alias a request buffer.
func (t Tasks) Clone() Tasks {
	if t == nil {
		return nil
	}
	out := make(Tasks, len(t))
	for i := range t {
		out[i] = SubtopologyTasks{
			Subtopology: strings.Clone(t[i].Subtopology),
			Partitions:  append([]int32(nil), t[i].Partitions...),
			Epochs:      append([]int32(nil), t[i].Epochs...),
		}
	}
	return out
}

func orNil(t Tasks) Tasks {
	if len(t) == 0 {
		return nil
	}
	return t
}

// keep returns the tasks of s whose partition is in other (in) or is not (!in).
func (s *SubtopologyTasks) keep(other []int32, in bool) SubtopologyTasks {
	e := entryRewrite{from: s}
	j := 0
	for k, p := range s.Partitions {
		for j < len(other) && other[j] < p {
			j++
		}
		found := j < len(other) && other[j] == p
		e.put(k, found == in)
	}
	return e.result()
}

// merge is the union of two entries of one subtopology; epochs of s come first.
func (s *SubtopologyTasks) merge(o *SubtopologyTasks) SubtopologyTasks {
	n := len(s.Partitions) + len(o.Partitions) - countCommon(s.Partitions, o.Partitions)
	epochs := s.Epochs != nil || o.Epochs != nil
	if n == len(s.Partitions) && (s.Epochs != nil || !epochs) {
		return *s
	}
	if n == len(o.Partitions) && !epochs {
		return *o
	}
	out := SubtopologyTasks{Subtopology: s.Subtopology, Partitions: make([]int32, 0, n)}
	if epochs {
		out.Epochs = make([]int32, 0, n)
	}
	for i, j := 0, 0; i < len(s.Partitions) || j < len(o.Partitions); {
		var p, e int32
		switch {
		case j == len(o.Partitions) || i < len(s.Partitions) && s.Partitions[i] < o.Partitions[j]:
			p, e = s.Partitions[i], s.epoch(i)
			i++
		case i == len(s.Partitions) || o.Partitions[j] < s.Partitions[i]:
			p, e = o.Partitions[j], o.epoch(j)
			j++
		default:
			p, e = s.Partitions[i], s.epoch(i)
			i, j = i+1, j+1
		}
		out.Partitions = append(out.Partitions, p)
		if epochs {
			out.Epochs = append(out.Epochs, e)
		}
	}
	return out
}

// rewrite builds a subset of from, entry by entry, and allocates only from the first entry that differs.
type rewrite struct {
	from    Tasks
	out     Tasks
	changed bool
}

func (r *rewrite) put(i int, s SubtopologyTasks) {
	if !r.changed {
		if len(s.Partitions) == len(r.from[i].Partitions) {
			return
		}
		r.changed = true
		if i > 0 {
			r.out = append(make(Tasks, 0, len(r.from)), r.from[:i]...)
		}
	}
	if len(s.Partitions) > 0 {
		if r.out == nil {
			r.out = make(Tasks, 0, len(r.from)-i)
		}
		r.out = append(r.out, s)
	}
}

func (r *rewrite) result() Tasks {
	if !r.changed {
		return orNil(r.from)
	}
	return r.out
}

// entryRewrite does for the partitions of one entry what rewrite does for entries.
type entryRewrite struct {
	from    *SubtopologyTasks
	out     SubtopologyTasks
	changed bool
}

func (e *entryRewrite) put(k int, keep bool) {
	if !e.changed {
		if keep {
			return
		}
		e.changed = true
		if k > 0 {
			e.grow(len(e.from.Partitions) - 1)
			e.out.Partitions = append(e.out.Partitions, e.from.Partitions[:k]...)
			if e.from.Epochs != nil {
				e.out.Epochs = append(e.out.Epochs, e.from.Epochs[:k]...)
			}
		}
		return
	}
	if !keep {
		return
	}
	if e.out.Partitions == nil {
		e.grow(len(e.from.Partitions) - k)
	}
	e.out.Partitions = append(e.out.Partitions, e.from.Partitions[k])
	if e.from.Epochs != nil {
		e.out.Epochs = append(e.out.Epochs, e.from.Epochs[k])
	}
}

func (e *entryRewrite) grow(n int) {
	e.out.Partitions = make([]int32, 0, n)
	if e.from.Epochs != nil {
		e.out.Epochs = make([]int32, 0, n)
	}
}

func (e *entryRewrite) result() SubtopologyTasks {
	if !e.changed {
		return *e.from
	}
	e.out.Subtopology = e.from.Subtopology
	return e.out
}
