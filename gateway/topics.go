package gateway

import (
	"sync"
	"time"

	"github.com/coordd/coordd/protocol"
)

const (
	// topicPatience is how long a request waits for the image to have the topics that it names.
	topicPatience = 500 * time.Millisecond
	// absentTTL is how long a topic that was waited for in vain is not waited for again; maxAbsent of them are remembered.
	absentTTL = 5 * time.Second
	maxAbsent = 1000
)

// absentTopics are ids of topics that the image did not get in time: deleted ones, mostly.
type absentTopics struct {
	mu   sync.Mutex
	seen map[[16]byte]time.Time
}

func (a *absentTopics) has(id [16]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.seen[id]
	return ok && time.Since(at) < absentTTL
}

func (a *absentTopics) add(ids [][16]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if a.seen == nil || len(a.seen) >= maxAbsent {
			a.seen = map[[16]byte]time.Time{}
		}
		a.seen[id] = time.Now()
	}
}

// topicNames are the names of topics that a request has by their ids.
type topicNames struct {
	g       *Gateway
	missing [][16]byte // what is worth waiting for
}

// name is protocol.TopicNames over the image; an id that it does not have makes it look again soon.
func (t *topicNames) name(id [16]byte) (name string, ok bool) {
	image := t.g.cluster.Image()
	if image != nil {
		name, ok = image.TopicName(id)
	}
	if !ok {
		t.g.cluster.RefreshImage()
		if image == nil || !t.g.absent.has(id) {
			t.missing = append(t.missing, id)
		}
	}
	return name, ok
}

// complete says that the image had all that the request names and what its answer will name.
func (t *topicNames) complete(h protocol.Header) bool {
	byID := h.Key == protocol.KeyOffsetFetch && h.Version >= 10
	return len(t.missing) == 0 && (!byID || t.g.cluster.Image() != nil)
}
