package raftnode

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// The library pauses before it sends entries again to a follower that it could not reach, each time twice as long, up to ten
// seconds: a node that comes back would get nothing for about as long as it was away. So a request that finds the follower
// gone waits for it here. Heartbeats, whose pauses stay below the heartbeat timeout, tell that it is back.

// awayPatience bounds that wait, for the case that this node has lost its leadership meanwhile and nobody needs the request.
const awayPatience = time.Minute

// returns lets requests wait for the next answer of a peer.
type returns struct {
	waiting atomic.Bool
	mu      sync.Mutex
	back    chan struct{} // closed with the answer; nil while nobody waits
}

func (r *returns) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.back == nil {
		r.back = make(chan struct{})
		r.waiting.Store(true)
	}
	return r.back
}

// answered is called for each answer.
func (r *returns) answered() {
	if !r.waiting.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.back != nil {
		close(r.back)
		r.back = nil
		r.waiting.Store(false)
	}
}

// sendEntries sends entries, to a peer that is away when it is back.
func (t *transport) sendEntries(p *peer, id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	err := t.appendEntries(p, id, target, args, resp)
	var away *dialError
	if p == nil || !errors.As(err, &away) {
		return err
	}
	patience := time.NewTimer(awayPatience)
	defer patience.Stop()
	select {
	case <-p.returns.next():
		return t.appendEntries(p, id, target, args, resp)
	case <-patience.C:
		return err
	case <-t.stream.life.Done():
		return errMuted
	}
}
