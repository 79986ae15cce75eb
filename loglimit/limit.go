package loglimit

import (
	"sync"
	"time"
)

// maxCauses bounds the causes that are told apart.
const maxCauses = 1024

// Limit lets a line of a cause through when the last one is a second ago. The zero Limit is ready. Causes are meant to be
// few, such as constant messages or error codes; memory is bounded whatever they are.
type Limit[K comparable] struct {
	mu   sync.Mutex
	seen map[K]*cause
}

type cause struct {
	next    time.Time
	skipped int
}

// Pass says whether a line of the cause is to be written now, and how many were not since the last one.
func (l *Limit[K]) Pass(of K) (skipped int, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.seen[of]
	if c == nil {
		if l.seen == nil || len(l.seen) >= maxCauses {
			l.seen = map[K]*cause{}
		}
		c = &cause{}
		l.seen[of] = c
	}
	if now.Before(c.next) {
		c.skipped++
		return 0, false
	}
	skipped, c.skipped = c.skipped, 0
	c.next = now.Add(time.Second)
	return skipped, true
}
