package raftnode

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Propose appends an entry to the group's log. done is called exactly once, never from within Propose, and in the
// order of the proposals: with nil right after this node's state machine applied the entry, with an [ErrNotLeader]
// when nothing was started, with an [ErrUnknown] when the entry may or may not be applied some time, or with an
// [ErrRejected]. The entry is kept and must not be changed afterwards. Propose does not block, and done must not.
//
// An entry belongs to the term that the last [Elected] told: if leadership was lost since, even if it was won again,
// the entry has no effect on any replica and done is told ErrStaleTerm.
func (g *Group) Propose(entry []byte, done func(err error)) {
	in := g.inst.Load()
	if in == nil || !in.proposals.add(g, in, entry, done) {
		go done(ErrStopped) // nobody else is left to call it
	}
}

// proposals hands the futures of one raft instance to one goroutine that waits for them in order.
type proposals struct {
	mu       sync.Mutex
	more     *sync.Cond
	pending  []*proposal // answered from the front
	inFlight int         // of pending, those that the library has taken
	stopped  bool
	finished chan struct{} // closed when everything was answered after stop
}

type proposal struct {
	future raft.ApplyFuture // nil when err is set
	err    error
	done   func(error)
	at     time.Time
}

func newProposals() *proposals {
	p := &proposals{finished: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	return p
}

// add reports false, and does not take the proposal, once stopped.
func (p *proposals) add(g *Group, in *instance, entry []byte, done func(error)) bool {
	pr := &proposal{done: done}
	// The futures must be queued in the order in which the library took them, so both happen under the lock. ApplyLog
	// does not block: maxInFlight leaves room in the library's queue.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	term := g.serving.Load()
	switch {
	case len(entry) == 0:
		pr.err = fmt.Errorf("%w: empty entry", ErrRejected)
	case g.moving.Load() > 0:
		pr.err = ErrMoving
	case term == 0 || in.raft.State() != raft.Leader:
		pr.err = ErrNotLeader
	case p.inFlight >= maxInFlight:
		pr.err = ErrBusy
	default:
		pr.at = time.Now()
		pr.future = in.raft.ApplyLog(raft.Log{Data: entry, Extensions: encodeTerm(term)}, 0)
		p.inFlight++
	}
	p.pending = append(p.pending, pr)
	p.more.Signal()
	return true
}

// run answers proposals until everything is answered after stop.
func (p *proposals) run(g *Group) {
	defer close(p.finished)
	for {
		pr := p.head()
		if pr == nil {
			return
		}
		err := pr.err
		if pr.future != nil {
			err = g.outcome(pr.future)
		}
		if !p.pop(pr) {
			return // abandoned
		}
		if err == nil {
			g.node.metrics.commits.Observe(time.Since(pr.at).Seconds())
		}
		pr.done(err)
	}
}

// head waits for the first proposal; it stays in the queue. nil once stopped and empty.
func (p *proposals) head() *proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.pending) == 0 && !p.stopped {
		p.more.Wait()
	}
	if len(p.pending) == 0 {
		return nil
	}
	return p.pending[0]
}

func (p *proposals) pop(pr *proposal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 || p.pending[0] != pr {
		return false
	}
	p.pending[0] = nil
	if p.pending = p.pending[1:]; len(p.pending) == 0 {
		p.pending = nil
	}
	if pr.future != nil {
		p.inFlight--
	}
	return true
}

// outcome waits for a future and maps what it says.
func (g *Group) outcome(f raft.ApplyFuture) error {
	err := f.Error()
	g.noteTransferRefusal(err)
	if err != nil {
		return proposalError(err)
	}
	if err, ok := f.Response().(error); ok {
		return err
	}
	return nil
}

// oldest is when the longest waiting proposal was taken by the library; zero when none waits.
func (p *proposals) oldest() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pr := range p.pending {
		if pr.future != nil {
			return pr.at
		}
	}
	return time.Time{}
}

// inFlight is the number of proposals that the library holds.
func (g *Group) inFlight() int {
	in := g.inst.Load()
	if in == nil {
		return 0
	}
	in.proposals.mu.Lock()
	defer in.proposals.mu.Unlock()
	return in.proposals.inFlight
}

// idle says that the library holds no proposal.
func (p *proposals) idle() bool { return p.oldest().IsZero() }

// stop refuses further proposals; those in flight are still answered.
func (p *proposals) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.more.Broadcast()
}

// abandon answers what was left unanswered by an instance that is shut down: the library never answers a future that
// is still in one of its queues then. To be called after stop.
func (p *proposals) abandon() {
	p.mu.Lock()
	left := p.pending
	p.pending = nil
	p.mu.Unlock()
	for _, pr := range left {
		err := pr.err // run may be reading it
		if err == nil {
			err = proposalError(raft.ErrRaftShutdown)
		}
		pr.done(err)
	}
}

// encodeTerm is what an entry carries beside its data: the term that its proposer was told.
func encodeTerm(term uint64) []byte { return binary.BigEndian.AppendUint64(nil, term) }

// staleTerm says whether an entry was logged in another term than its proposer was told. Every replica decides alike.
func staleTerm(l *raft.Log) bool {
	return len(l.Extensions) == 8 && decodeTerm(l.Extensions) != l.Term
}

func decodeTerm(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
