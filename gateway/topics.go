package gateway

import (
	"strings"
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

// absentTopics are topics, by name or by the bytes of their id, that the image did not get in time: deleted ones, mostly.
type absentTopics struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (a *absentTopics) has(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.seen[id]
	return ok && time.Since(at) < absentTTL
}

func (a *absentTopics) add(ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if a.seen == nil || len(a.seen) >= maxAbsent {
			a.seen = map[string]time.Time{}
		}
		a.seen[strings.Clone(id)] = time.Now()
	}
}

// topicNames are the topics that a request names, by name or by id.
type topicNames struct {
	g       *Gateway
	missing []string // what is worth waiting for
}

// name is protocol.TopicNames over the image; an id that it does not have makes it look again soon.
func (t *topicNames) name(id [16]byte) (name string, ok bool) {
	image := t.g.cluster.Image()
	if image != nil {
		name, ok = image.TopicName(id)
	}
	if !ok && t.lack(string(id[:]), image == nil) {
		t.g.cluster.RefreshTopics()
	}
	return name, ok
}

// known looks for a topic that a request names, which is refused where it does not exist: it may just have been created.
// Before the first image nothing counts as missing.
func (t *topicNames) known(name string) {
	if image := t.g.cluster.Image(); image != nil && !image.HasTopic(name) && t.lack(name, false) {
		t.g.cluster.RefreshImage(name)
	}
}

// lack notes that a topic is worth waiting for, and reports whether it is: not where that was in vain lately. Clients go on
// naming deleted topics at their own pace; the image does not look again for each of these requests.
func (t *topicNames) lack(topic string, always bool) bool {
	if !always && t.g.absent.has(topic) {
		return false
	}
	t.missing = append(t.missing, topic)
	return true
}

// complete says that the image had all that the request names and what its answer will name.
func (t *topicNames) complete(h protocol.Header) bool {
	byID := h.Key == protocol.KeyOffsetFetch && h.Version >= 10
	return len(t.missing) == 0 && (!byID || t.g.cluster.Image() != nil)
}
