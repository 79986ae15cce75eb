package raftnode

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Verify proves that this node still leads in the term that the last [Elected] told, by a round of heartbeats to a
// majority; it needs no disk. done is called exactly once, never from within Verify, with nil when a round that began
// after the call succeeded, else with an [ErrNotLeader]. Calls that come while a round is under way share the next.
func (g *Group) Verify(done func(err error)) {
	in := g.inst.Load()
	if in == nil || !in.proofs.add(done) {
		go done(ErrStopped)
	}
}

// proofs runs the rounds of one raft instance, one at a time, on one goroutine.
type proofs struct {
	mu       sync.Mutex
	more     *sync.Cond
	waiting  []func(error) // for the next round
	running  []func(error) // for the round under way
	stopped  bool
	finished chan struct{}
}

func newProofs() *proofs {
	p := &proofs{finished: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	return p
}

func (p *proofs) add(done func(error)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.waiting = append(p.waiting, done)
	p.more.Signal()
	return true
}

func (p *proofs) run(g *Group, in *instance) {
	defer close(p.finished)
	for p.next() {
		err := g.prove(in)
		p.mu.Lock()
		told := p.running
		p.running = nil
		p.mu.Unlock()
		for _, done := range told {
			done(err)
		}
		clear(told)
	}
}

// next waits for callers and makes them the round's; false once stopped and nobody waits.
func (p *proofs) next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) == 0 && !p.stopped {
		p.more.Wait()
	}
	p.running, p.waiting = p.waiting, nil
	return len(p.running) > 0
}

func (g *Group) prove(in *instance) error {
	term := g.serving.Load()
	if term == 0 || in.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	// The library also counts answers to heartbeats sent before the call. After a pause of the process such an answer
	// can be old, so what counts is when the requests were sent. Each peer has at most one old answer under way.
	began := in.trans.now()
	for range len(in.trans.peers) + 2 {
		if err := in.raft.VerifyLeader().Error(); err != nil {
			return leaderError(err)
		}
		if in.raft.CurrentTerm() != term {
			return ErrStaleTerm
		}
		if in.trans.proven() >= began {
			return nil
		}
	}
	return fmt.Errorf("%w: only old answers came", ErrNotLeader)
}

// Proof is when this node was last proven to lead in a term that [Elected] told, without asking anybody: the heartbeats
// that are sent anyway prove it, and the proof counts from when they were sent. ok is false when the node does not lead
// in that term or is handing over. As long as the proof is younger than Timing.Heartbeat no other node can
// have been elected; use a shorter limit (Timing.Lease) to allow for clocks of unequal speed, and [Group.Verify] when
// it is older.
func (g *Group) Proof(term uint64) (at time.Time, ok bool) {
	in := g.inst.Load()
	if in == nil || term == 0 || g.serving.Load() != term || g.moving.Load() > 0 || in.raft.State() != raft.Leader || in.raft.CurrentTerm() != term {
		return time.Time{}, false
	}
	proven := in.trans.proven()
	return in.trans.epoch.Add(time.Duration(proven)), proven != 0
}

func (p *proofs) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.more.Broadcast()
}

// abandon answers what an instance that is shut down left unanswered. To be called after stop.
func (p *proofs) abandon() {
	p.mu.Lock()
	left := append(p.running, p.waiting...)
	p.running, p.waiting = nil, nil
	p.mu.Unlock()
	for _, done := range left {
		done(ErrStopped)
	}
}
