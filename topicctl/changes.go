package topicctl

import (
	"iter"
	"slices"
	"strings"

	"github.com/coordd/coordd/topology"
)

// Bounds of what an image remembers of the changes before it. More names at a time are cheaper looked up than searched.
const (
	maxChangeVersions = 32
	maxChangeNames    = 64
)

// change is the step to one version.
type change struct {
	version uint64
	names   []string
	many    bool // the names were too many to keep
}

// withChange returns log, which stays as it is, with one more step.
func withChange(log []change, version uint64, names []string) []change {
	step := change{version, names, false}
	if len(names) > maxChangeNames {
		step = change{version, nil, true}
	}
	log = log[max(0, len(log)-maxChangeVersions+1):]
	return append(log[:len(log):len(log)], step)
}

// ChangedSince implements topology.ChangeLog. The names may repeat.
func (i *Image) ChangedSince(version uint64) (names []string, ok bool) {
	if version >= i.Version {
		return nil, version == i.Version
	}
	steps := i.Version - version
	if steps > uint64(len(i.log)) {
		return nil, false
	}
	for _, c := range i.log[len(i.log)-int(steps):] {
		if c.many || len(names)+len(c.names) > maxChangeNames {
			return nil, false
		}
		if names == nil {
			names = c.names[:len(c.names):len(c.names)] // most often there is one step
		} else {
			names = append(names, c.names...)
		}
	}
	return names, true
}

// compare yields, by name, each topic that two lists do not say the same of: as it was and as it is, nil where it is
// not. Both lists are sorted by name.
func compare(old, new []topology.Topic) iter.Seq2[*topology.Topic, *topology.Topic] {
	return func(yield func(was, now *topology.Topic) bool) {
		if sameList(old, new) {
			return
		}
		for len(old) > 0 || len(new) > 0 {
			var was, now *topology.Topic
			order := 0
			switch {
			case len(old) == 0:
				order = 1
			case len(new) == 0:
				order = -1
			case old[0].Name != new[0].Name:
				order = strings.Compare(old[0].Name, new[0].Name)
			}
			if order <= 0 {
				was, old = &old[0], old[1:]
			}
			if order >= 0 {
				now, new = &new[0], new[1:]
			}
			if (was == nil || now == nil || !equalTopic(was, now)) && !yield(was, now) {
				return
			}
		}
	}
}

// sameList reports whether two lists are one: a Source that sees that nothing changed repeats its last one.
func sameList(a, b []topology.Topic) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func equalTopic(a, b *topology.Topic) bool {
	return a.Name == b.Name && a.ID == b.ID && a.Partitions == b.Partitions && equalRacks(a.Racks, b.Racks)
}

// equalRacks looks at the lists themselves only where they are not shared.
func equalRacks(a, b [][]string) bool {
	if len(a) != len(b) || len(a) == 0 || &a[0] == &b[0] {
		return len(a) == len(b)
	}
	for p := range a {
		if x, y := a[p], b[p]; len(x) != len(y) || len(x) > 0 && &x[0] != &y[0] && !slices.Equal(x, y) {
			return false
		}
	}
	return true
}
