package gateway

import (
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/coordinator"
)

// owner says whose a group is.
type owner uint8

const (
	ownerUnknown  owner = iota // only the leader of its shard can say, and there is none
	ownerHere                  // coordd holds it
	ownerUpstream              // coordd does not
)

// foreignGroups knows for a short while which groups the leaders of their shards do not hold, for answers to
// FindCoordinator: clients ask for them in tight loops. Requests about a group are not routed by it, because a group may
// come to be on another node meanwhile: a wrong answer here costs a detour, a commit that goes upstream ends a member.
type foreignGroups struct {
	g      *Gateway
	mu     sync.Mutex
	said   map[string]time.Time // when its leader said so
	asking map[string]*ownerQuestion
}

// ownerQuestion is a question to the leader of a group's shard, that all wait for who want to know.
type ownerQuestion struct {
	done chan struct{}
	says owner // set before done is closed
}

// askerClient is who asks about groups on behalf of all clients.
var askerClient = &coordinator.Client{ID: "coordd", Host: "/", Principal: anonymous}

func (f *foreignGroups) init(g *Gateway) {
	f.g, f.said, f.asking = g, map[string]time.Time{}, map[string]*ownerQuestion{}
}

// ownerOf tells whose a group is without asking anybody.
func (f *foreignGroups) ownerOf(group string) owner {
	if f.g.coords.Holds(group) {
		return ownerHere
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isForeign(group) {
		return ownerUpstream
	}
	return ownerUnknown
}

// isForeign says that the leader said so lately; the lock is held.
func (f *foreignGroups) isForeign(group string) bool {
	at, ok := f.said[group]
	return ok && time.Since(at) < foreignTTL
}

// ask waits for what the leader of the group's shard says; ownerUnknown when there is none for ParkTime. One question
// about a group is on its way at a time.
func (f *foreignGroups) ask(group string, gone <-chan struct{}) owner {
	f.mu.Lock()
	if f.isForeign(group) { // said since the caller looked
		f.mu.Unlock()
		return ownerUpstream
	}
	q := f.asking[group]
	if q == nil {
		q = &ownerQuestion{done: make(chan struct{})}
		group := strings.Clone(group)
		f.asking[group] = q
		f.g.run(func() { f.put(group, q) })
	}
	f.mu.Unlock()
	select {
	case <-q.done:
		return q.says
	case <-gone:
	case <-f.g.ctx.Done():
	}
	return ownerUnknown
}

func (f *foreignGroups) put(group string, q *ownerQuestion) {
	held, refusal := f.g.holdsAtLeader(&errand{group: group}, askerClient)
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.asking[group] == q
	if current {
		delete(f.asking, group)
	}
	switch {
	case refusal != nil:
	case held.held():
		q.says = ownerHere
	default:
		q.says = ownerUpstream
		if current {
			if len(f.said) >= maxForeign {
				clear(f.said)
			}
			f.said[group] = time.Now()
		}
	}
	close(q.done)
}

// forget says that the group may have come to be.
func (f *foreignGroups) forget(group string) {
	f.mu.Lock()
	delete(f.said, group)
	delete(f.asking, group) // who asks from now on wants to know what is true then
	f.mu.Unlock()
}
