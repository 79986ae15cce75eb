package topicctl

import (
	"time"

	"github.com/coordd/coordd/topology"
)

// doubts judges what answers say against the image. Brokers learn of changes at different times, so that an answer may be
// older than the image: it would take topics from groups that run well, or bring back what was deleted.
//
//   - A topic that is missing, or has fewer partitions under the same id, is believed the second time.
//   - Another broker than the one that answered before, or the same one after its connection was lost, is taken for one that
//     may lag, until it has agreed with the image once, and for the time lag at most. Until then it is believed new topics
//     and added partitions only, and no topic whose id was seen to be gone.
//
// It keeps topics as they were where the answer has no word on them ([Snapshot.Unclear]).
type doubts struct {
	lag time.Duration

	from    string
	since   time.Time // when from answered first
	proven  bool
	pending map[string]topology.Topic // what was said last and not believed, by name; without partitions: missing
	fresh   bool                      // some of pending was not said before
	dead    deadTopics
}

// settle returns the topics that follow old by the answer s, sorted, and the names of those that changed.
func (d *doubts) settle(old []topology.Topic, s *Snapshot, now time.Time) (topics []topology.Topic, changed []string) {
	if s.From != d.from {
		d.from, d.since, d.proven = s.From, now, d.since.IsZero() // before the first there is nothing to be older than
	}
	if now.Sub(d.since) >= d.lag {
		d.proven = true
	}
	topics = sorted(s.Topics)
	unclear := make(map[string]bool, len(s.Unclear))
	for _, name := range s.Unclear {
		unclear[name] = true
	}
	refused := map[string]*topology.Topic{} // as they stay, by name; nil: missing
	pending := map[string]topology.Topic{}
	for was, is := range compare(old, topics) {
		name := either(was, is).Name
		switch {
		case unclear[name]:
			refused[name] = was
		case d.believes(was, is):
			changed = append(changed, name)
			d.dead.note(was, is)
		default:
			refused[name] = was
			pending[name] = said(is)
		}
	}
	d.fresh = false
	for name, is := range pending {
		d.fresh = d.fresh || !d.again(name, is)
	}
	d.pending = pending
	d.proven = d.proven || len(pending) == 0
	if len(refused) > 0 {
		topics = replaced(topics, refused)
	}
	return topics, changed
}

// undecided reports whether the last answer said something that was not believed yet.
func (d *doubts) undecided() bool { return len(d.pending) > 0 }

func (d *doubts) believes(was, is *topology.Topic) bool {
	grown := was != nil && is != nil && was.ID == is.ID && was.Partitions < is.Partitions
	if !d.proven {
		return grown || was == nil && !d.dead.has(is.ID)
	}
	if is != nil && (was == nil || was.ID != is.ID || was.Partitions <= is.Partitions) {
		return true
	}
	return d.again(was.Name, said(is))
}

// again reports whether the answer before said the same of a topic and was not believed.
func (d *doubts) again(name string, is topology.Topic) bool {
	before, ok := d.pending[name]
	return ok && before.ID == is.ID && before.Partitions == is.Partitions
}

func said(t *topology.Topic) topology.Topic {
	if t == nil {
		return topology.Topic{}
	}
	return topology.Topic{ID: t.ID, Partitions: t.Partitions}
}

// replaced returns topics with some of them as given, nil for none, by a copy.
func replaced(topics []topology.Topic, by map[string]*topology.Topic) []topology.Topic {
	out := make([]topology.Topic, 0, len(topics)+len(by))
	for n := range topics {
		if _, other := by[topics[n].Name]; !other {
			out = append(out, topics[n])
		}
	}
	for _, t := range by {
		if t != nil {
			out = append(out, *t)
		}
	}
	return sorted(out)
}

// maxDead bounds the ids of topics that are remembered as gone.
const maxDead = 4096

// deadTopics are the ids of topics that are gone, the latest ones. Kafka never gives an id again.
type deadTopics struct {
	ids  map[[16]byte]bool
	ring [][16]byte
	next int
}

func (d *deadTopics) has(id [16]byte) bool { return d.ids[id] }

// note remembers that a topic is now as it is, or gone for nil.
func (d *deadTopics) note(was, is *topology.Topic) {
	if is != nil {
		delete(d.ids, is.ID) // a place in the ring that it has may outlive it: it is forgotten early then
	}
	if was == nil || was.ID == ([16]byte{}) || is != nil && is.ID == was.ID {
		return
	}
	if d.ids == nil {
		d.ids = map[[16]byte]bool{}
	}
	if len(d.ring) < maxDead {
		d.ring = append(d.ring, was.ID)
	} else {
		delete(d.ids, d.ring[d.next])
		d.ring[d.next] = was.ID
		d.next = (d.next + 1) % maxDead
	}
	d.ids[was.ID] = true
}
