package server

import "github.com/coordd/coordd/assignor"

// assignors are the registered assignors; the first is the default.
type assignors struct {
	list []assignor.Assignor
}

func newAssignors(names []string) assignors {
	builtin := map[string]assignor.Assignor{}
	for _, a := range []assignor.Assignor{assignor.Sticky(), assignor.HighlyAvailable(), assignor.Auto()} {
		builtin[a.Name()] = a
	}
	var registered assignors
	for _, name := range names {
		if a := builtin[name]; a != nil {
			registered.list = append(registered.list, a)
		}
	}
	return registered
}

// named is the assignor of that name, or the default.
func (a assignors) named(name string) assignor.Assignor {
	for _, candidate := range a.list {
		if candidate.Name() == name {
			return candidate
		}
	}
	return a.list[0]
}
