package topicctl

import (
	"strings"
	"sync"
	"time"
)

const (
	// wantedTTL is for how long a topic that somebody named is asked for by name.
	wantedTTL = 10 * time.Second
	// maxWanted of them are. Further ones are seen when all topics are asked for.
	maxWanted = 200
	// maxTopicName is the length in bytes of the longest name that Kafka gives a topic (Topic.MAX_NAME_LENGTH).
	maxTopicName = 249
)

// wantedTopics are the topics that somebody named and that the image does not have, and whether all topics are wanted.
type wantedTopics struct {
	mu    sync.Mutex
	all   bool
	until map[string]time.Time // by name
}

func (w *wantedTopics) addAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = true
}

// takeAll reports whether all topics have been wanted since it was called last.
func (w *wantedTopics) takeAll() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = false
	return all
}

func (w *wantedTopics) add(names []string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		_, known := w.until[name]
		switch {
		case name == "" || len(name) > maxTopicName || !known && len(w.until) >= maxWanted:
			continue
		case w.until == nil:
			w.until = map[string]time.Time{}
		}
		if !known {
			name = strings.Clone(name) // of a request
		}
		w.until[name] = now.Add(wantedTTL)
	}
}

// appendNames appends the topics that are wanted, in no order, and forgets those whose time is over.
func (w *wantedTopics) appendNames(names []string, now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, until := range w.until {
		if now.After(until) {
			delete(w.until, name)
			continue
		}
		names = append(names, name)
	}
	return names
}
