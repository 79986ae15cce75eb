package raftnode

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// barrierRetry is the pause before a failed barrier is tried again.
	barrierRetry = 50 * time.Millisecond
	// stopPatience bounds each step of stopping an instance.
	stopPatience = 3 * time.Second
)

// run is the group's goroutine: it lives through the instances, tells changes of leadership in order, and restarts
// the instance when asked to.
func (g *Group) run() {
	defer close(g.done)
	for {
		in := g.inst.Load()
		why := g.follow(in)
		g.lost()
		g.forgetLeader()
		g.inst.Store(nil)
		stopped := in.stop(g.log, stopPatience)
		if why == "" || !g.reopen(stopped) {
			g.ended = stopped
			return
		}
	}
}

// reopen starts an instance anew once the one before has ended, again and again until it works; false when the node
// stops meanwhile.
func (g *Group) reopen(stopped <-chan struct{}) bool {
	select {
	case <-stopped:
	case <-g.node.stopping:
		return false
	}
	for {
		if !g.awaitStorage() {
			return false
		}
		in, err := g.newInstance()
		if err == nil {
			g.mu.Lock()
			g.restarts++
			g.stuckSince, g.refusedSince = time.Time{}, time.Time{}
			g.mu.Unlock()
			g.inst.Store(in)
			return true
		}
		g.log.Error("group cannot be restarted", "error", err)
		select {
		case <-time.After(time.Second):
		case <-g.node.stopping:
			return false
		}
	}
}

// follow tells what happens to an instance until the node stops (then it returns "") or a restart is asked for (then
// why).
func (g *Group) follow(in *instance) (why string) {
	var (
		attempt *barrier
		ready   <-chan struct{} // the attempt is over
		retry   <-chan time.Time
	)
	begin := func() {
		attempt = g.startBarrier(in)
		in.barriers = append(slices.DeleteFunc(in.barriers, isClosed), attempt.done)
		ready, retry = attempt.done, nil
	}
	g.leaderSeen(in)
	for {
		select {
		case <-g.node.stopping:
			return ""
		case why = <-g.restart:
			g.log.Warn("restarting the group in place", "reason", why)
			return why
		case leads := <-in.raft.LeaderCh():
			// The channel keeps the latest value only: true after true is a loss and a gain.
			g.lost()
			ready, retry = nil, nil
			g.mark(&g.stuckSince, leads)
			if leads {
				begin()
			} else {
				g.leaderSeen(in)
			}
		case <-ready:
			ready = nil
			if attempt.err == nil && g.node.outdatedBy() == nil { // else the state lacks what is in the log
				g.elected(in, attempt.term)
			} else if in.raft.State() == raft.Leader {
				// Half a leader is none: serve nothing and try on. The watchdog gives up for us.
				g.log.Warn("leader of the group, but the barrier failed", "error", attempt.err)
				retry = time.After(barrierRetry)
			}
		case <-retry:
			if in.raft.State() == raft.Leader {
				begin()
			}
		case <-in.leaders:
			g.leaderSeen(in)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// barrier is one attempt to bring the state machine to the beginning of a term.
type barrier struct {
	done chan struct{}
	term uint64
	err  error
}

var errTermMoved = errors.New("the term changed during the barrier")

func (g *Group) startBarrier(in *instance) *barrier {
	b := &barrier{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.term = in.raft.CurrentTerm()
		if b.err = g.node.barrier(in.raft); b.err != nil {
			return
		}
		if in.raft.State() != raft.Leader || in.raft.CurrentTerm() != b.term {
			b.err = errTermMoved
		}
	}()
	return b
}

func (g *Group) elected(in *instance, term uint64) {
	planned := g.planned.Load() == term
	now := time.Now()
	g.mu.Lock()
	g.electedAt = now
	g.vanishedAt = time.Time{} // if it counted, so does this election
	if !planned {
		g.unplannedAt = now
		g.cold = !g.everLed
	}
	g.everLed = true
	g.told = g.node.cfg.NodeID
	g.stuckSince, g.refusedSince = time.Time{}, time.Time{}
	g.caughtUp = true
	g.mu.Unlock()
	g.serving.Store(term)
	g.node.metrics.elected(planned)
	g.tell(Elected{Term: term, Planned: planned})
}

// lost tells that leadership is gone, if it was told.
func (g *Group) lost() {
	if g.serving.Swap(0) == 0 {
		return
	}
	g.mu.Lock()
	g.told = -1
	if g.moving.Load() == 0 && time.Since(g.handedAt) > g.node.cfg.Timing.Heartbeat {
		g.unplannedAt, g.cold = time.Now(), false
	}
	g.mu.Unlock()
	g.tell(Lost{})
}

// leaderSeen tells who leads when that is another node, or that nobody is known to.
func (g *Group) leaderSeen(in *instance) {
	if g.serving.Load() != 0 {
		return // LeaderCh tells the end of that first
	}
	node, ok := g.Leader()
	if !ok || node == g.node.cfg.NodeID {
		node = -1
	}
	g.sayLeader(node)
}

func (g *Group) forgetLeader() { g.sayLeader(-1) }

func (g *Group) sayLeader(node int32) {
	g.mu.Lock()
	before := g.told
	g.told = node
	g.everLed = g.everLed || node >= 0
	switch {
	case node < 0 && before >= 0:
		g.vanishedAt = time.Now() // by a plan or without: who comes next tells
	case node >= 0 && !g.vanishedAt.IsZero():
		g.unplannedAt, g.cold, g.vanishedAt = g.vanishedAt, false, time.Time{}
	}
	g.mu.Unlock()
	switch node {
	case before:
	case -1:
		g.tell(LeaderUnknown{})
	default:
		g.tell(LeaderKnown{Node: node})
	}
}

// mark starts or clears a watch, leaving one that runs.
func (g *Group) mark(at *time.Time, on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !on:
		*at = time.Time{}
	case at.IsZero():
		*at = time.Now()
	}
}

// noteTransferRefusal watches proposals that are refused because the library believes a transfer to be under way. It
// may believe so for ever (hashicorp/raft issue 696).
func (g *Group) noteTransferRefusal(err error) {
	refused := errors.Is(err, raft.ErrLeadershipTransferInProgress)
	if refused || err == nil {
		g.mark(&g.refusedSince, refused)
	}
}

// watch is called now and then: a leader that cannot do its work for too long gives up leadership. First its peers
// stop hearing from it, which works even when its own goroutine hangs in a disk that does not answer; then the
// instance is restarted in place, which clears what the library may have got wrong.
func (g *Group) watch(now time.Time) {
	in := g.inst.Load()
	if in != nil && !in.trans.muted.Load() && g.watchStorage(in, now) {
		return
	}
	if in == nil || in.raft.State() != raft.Leader || in.trans.muted.Load() {
		return
	}
	limit := g.node.cfg.Timing.Watchdog
	g.mu.Lock()
	stuck, refused := g.stuckSince, g.refusedSince
	g.mu.Unlock()
	late := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) > limit }
	var why string
	switch {
	case late(stuck):
		why = "elected, but the barrier of the term does not pass"
	case late(refused):
		why = "proposals are refused for a transfer of leadership that does not end"
	case late(in.proposals.oldest()):
		why = "a proposal is neither committed nor refused"
	default:
		return
	}
	g.log.Error("leader without effect: giving leadership up", "reason", why, "after", limit)
	g.node.metrics.restarted()
	g.giveUp(in, why)
}

// giveUp makes the peers stop hearing from an instance and has it restarted.
func (g *Group) giveUp(in *instance, why string) {
	in.trans.mute()
	select {
	case g.restart <- why:
	default:
	}
}
