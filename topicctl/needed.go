package topicctl

import (
	"context"
	"slices"
	"time"

	"github.com/coordd/coordd/topology"
)

// ask asks for all topics, or for those alone that matter now: names, nil for all. A list of many topics costs the
// upstream much more than it costs here, and each node asks.
func (w *Watcher) ask(ctx context.Context, all bool) (s *Snapshot, names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	if source, ok := w.cfg.Source.(NamedSource); ok && !all {
		if names := w.some(); names != nil {
			w.counts.named.Add(1)
			s, err = source.NamedMetadata(ctx, names)
			// Who answers for the first time may lag behind in what was not asked for, too.
			if err != nil || s.From == w.doubts.from {
				return s, names, err
			}
		}
	}
	w.allAt = time.Now()
	s, err = w.cfg.Source.Metadata(ctx)
	return s, nil, err
}

// some are the topics that groups need, those that are wanted and those in doubt, where it is worth it to ask for them
// alone; else nil.
func (w *Watcher) some() []string {
	total := w.Image().NumTopics()
	if w.cfg.Needed == nil || total < w.cfg.AllFrom || time.Since(w.allAt) >= w.cfg.AllInterval ||
		w.owed || w.doubts.undecided() && !w.doubts.proven { // all that a broker lags behind in has to be seen
		return nil
	}
	needed, others := w.cfg.Needed()
	if others {
		return nil
	}
	names := append(make([]string, 0, len(needed)+8), needed...)
	names = w.wanted.appendNames(names, time.Now())
	for name := range w.doubts.pending {
		names = append(names, name)
	}
	if len(names) > len(needed) {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if len(names) > total/4 {
		return nil
	}
	return names
}

// standsForGroups reports whether nothing is in doubt that groups may need. Others than the groups that are there may
// come to need a topic that is missing in the image: that it is not there must not be in doubt for anybody. It is not once
// the broker is proven.
func (w *Watcher) standsForGroups() bool {
	switch {
	case !w.doubts.undecided():
		return true
	case !w.doubts.proven || w.cfg.Needed == nil:
		return false
	}
	needed, others := w.cfg.Needed()
	if others {
		return false
	}
	for name := range w.doubts.pending {
		if _, ok := slices.BinarySearch(needed, name); ok {
			return false
		}
	}
	return true
}

// within returns the answer about some topics as one about all, of which the others are as they were.
func within(old []topology.Topic, s *Snapshot, names []string) *Snapshot {
	whole := *s
	whole.Topics = old
	answered := sorted(s.Topics)
	for _, name := range names {
		was, now := find(old, name), find(answered, name)
		if (was == nil) == (now == nil) && (was == nil || equalTopic(was, now)) {
			continue
		}
		by := make(map[string]*topology.Topic, len(names))
		for _, name := range names {
			by[name] = find(answered, name)
		}
		whole.Topics = replaced(old, by)
		break
	}
	return &whole
}
