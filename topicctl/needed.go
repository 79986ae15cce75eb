package topicctl

import (
	"context"
	"time"

	"github.com/coordd/coordd/topology"
)

// ask asks for all topics, or for those alone that groups need: names, nil for all. A list of many topics costs the
// upstream much more than it costs here, and each node asks.
func (w *Watcher) ask(ctx context.Context, all bool) (s *Snapshot, names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	if source, ok := w.cfg.Source.(NamedSource); ok && !all && w.cfg.Needed != nil && !w.doubts.undecided() &&
		w.Image().NumTopics() >= w.cfg.AllFrom && time.Since(w.allAt) < w.cfg.AllInterval {
		names, others := w.cfg.Needed()
		if !others && len(names) <= w.Image().NumTopics()/4 {
			w.counts.named.Add(1)
			if names == nil {
				names = []string{}
			}
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
