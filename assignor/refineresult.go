package assignor

import "slices"

// result gives the refined assignment its public shape.
func (r *refiner) result() Assignment {
	out := r.solution.result()
	lengths := make([]int32, len(r.members))
	for _, m := range r.warmup {
		if m >= 0 {
			lengths[m]++
		}
	}
	if slices.Max(lengths) == 0 {
		return out
	}
	warmups := r.newLists(lengths)
	for t, m := range r.warmup {
		if m >= 0 {
			warmups.add(m, int32(t))
		}
	}
	for m, n := range lengths {
		if n > 0 {
			id := r.spec.Members[r.members[m]].ID
			a := out[id]
			a.Warmup = r.tasks(warmups.of(int32(m)))
			out[id] = a
		}
	}
	return out
}
