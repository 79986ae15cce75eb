package shard

import (
	"container/heap"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
)

// timerKind says what a timer is for.
type timerKind uint8

const (
	timerMember    timerKind = iota // session and rebalance time-outs of a member
	timerGroup                      // initial delay and due assignment of a group
	timerClaim                      // a claim or release upstream that failed is tried again
	timerHold                       // the answer to a heartbeat was held for long enough
	timerRetention                  // groups that were empty for too long are looked for
	timerSweep                      // the check of the retention goes on
	timerLookup                     // the upstream is asked for topics that seem to have been deleted
	timerTopics                     // calls wait until the topics have been read again
)

type timerKey struct {
	kind          timerKind
	group, member string
}

// timers is a heap of deadlines. A deadline that moves later is not moved in the heap: it is looked up when its old
// time comes, so that a heartbeat costs no heap operation.
type timers struct {
	heap      timerHeap
	scheduled map[timerKey]int64
	wakeAt    int64 // what the host was asked for; 0: nothing
}

func newTimers() timers { return timers{scheduled: map[timerKey]int64{}} }

// arm makes sure that the key is looked at no later than at; 0 arms nothing.
func (t *timers) arm(key timerKey, at int64) {
	if at == 0 {
		return
	}
	if old, ok := t.scheduled[key]; ok && old <= at {
		return
	}
	t.scheduled[key] = at
	heap.Push(&t.heap, timerEntry{at, key})
}

// due takes the next key whose time has come.
func (t *timers) due(now int64) (timerKey, bool) {
	for len(t.heap) > 0 && t.heap[0].at <= now {
		e := heap.Pop(&t.heap).(timerEntry)
		if t.scheduled[e.key] == e.at {
			delete(t.scheduled, e.key)
			return e.key, true
		}
	}
	return timerKey{}, false
}

func (t *timers) next() int64 {
	if len(t.heap) == 0 {
		return 0
	}
	return t.heap[0].at
}

type timerEntry struct {
	at  int64
	key timerKey
}

type timerHeap []timerEntry

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timerEntry)) }
func (h *timerHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = timerEntry{}
	*h = old[:len(old)-1]
	return e
}

// wake asks the host for the next Tick.
func (m *Machine) wake() {
	if m.paused {
		return // Resume asks again
	}
	at := m.timers.next()
	if m.retryAt != 0 && (at == 0 || m.retryAt < at) {
		at = m.retryAt
	}
	if k := &m.kept; m.heldWaits() {
		if next := max(m.now, k.pausedUntil); at == 0 || next < at {
			at = next
		}
	}
	if at != 0 && at != m.timers.wakeAt {
		m.timers.wakeAt = at
		m.host.Wake(at)
	}
}

// lateMs is how late a Tick may be before it is taken for a pause of the whole process, in which members could not be
// heard: nobody is expired for the time of a pause.
const lateMs = 1000

// maxGraceMs bounds the time after a pause in which nobody is expired.
const maxGraceMs = 60_000

// Tick does what is due.
func (m *Machine) Tick(now int64) {
	m.now = now
	late := int64(0)
	if m.timers.wakeAt != 0 {
		late = now - m.timers.wakeAt
	}
	m.timers.wakeAt = 0
	if !m.leading || m.paused {
		return
	}
	if late > lateMs {
		m.graceUntil = max(m.graceUntil, now+min(late, maxGraceMs))
	}
	if m.retryAt != 0 && m.retryAt <= now {
		m.retryAt = 0
		m.drain()
	}
	for {
		key, ok := m.timers.due(now)
		if !ok {
			return
		}
		m.fire(key)
	}
}

func (m *Machine) fire(key timerKey) {
	g := m.groups[key.group]
	switch key.kind {
	case timerHold:
		m.fireHold(key, g)
	case timerRetention:
		m.checkRetention()
	case timerSweep:
		m.sweep()
	case timerLookup:
		m.lookUp()
	case timerTopics:
		m.topicsRead(key, g)
	case timerClaim:
		if g != nil {
			g.early = false
			m.resumeClaim(key.group)
		}
	case timerGroup:
		if g == nil || g.soft == nil || g.computing != 0 { // Computed looks again
			return
		}
		if at := g.soft.NextDeadline(); at > m.now {
			m.timers.arm(key, at)
		} else if at != 0 {
			m.submitInternal(task{group: key.group, internal: decideTick(key), failed: again(key)})
		}
	case timerMember:
		m.fireMember(key, g)
	}
}

func (m *Machine) fireMember(key timerKey, g *group) {
	if g == nil || g.soft == nil || g.soft.Members[key.member] == nil {
		return
	}
	switch at := g.soft.Members[key.member].NextDeadline(); {
	case at == 0:
	case at > m.now:
		m.timers.arm(key, at)
	case m.now < m.graceUntil:
		m.timers.arm(key, m.graceUntil)
	case g.commits[key.member] > 0: // commitDone looks again
		g.await(key.member)
	case m.withoutTopicsYet():
		m.timers.arm(key, m.now+m.options.RetryMs)
	default:
		m.submitInternal(task{group: key.group, internal: decideExpiry(key), failed: again(key)})
	}
}

// again looks at a timer a little later.
func again(key timerKey) func(*Machine) {
	return func(m *Machine) { m.timers.arm(key, m.now+m.options.RetryMs) }
}

// withoutTopicsYet says that heartbeats cannot be answered for a reason that is not the members'.
func (m *Machine) withoutTopicsYet() bool {
	_, version := m.host.Topics()
	return version == 0
}

// decideTick does what the group's own timers are for. Before the topics are known it waits: all of them would count as
// missing, and every member would lose its tasks.
func decideTick(key timerKey) func(*Machine, *fsm.Group, *streams.Soft) (streams.Decision, bool) {
	return func(m *Machine, g *fsm.Group, soft *streams.Soft) (streams.Decision, bool) {
		if g == nil || soft == nil || m.groups[g.ID].computing != 0 {
			return streams.Decision{}, false
		}
		if at := soft.NextDeadline(); at == 0 || at > m.now { // it moved while the task waited for its turn
			m.timers.arm(key, at)
			return streams.Decision{}, false
		}
		if m.withoutTopicsYet() {
			m.timers.arm(key, m.now+m.options.RetryMs)
			return streams.Decision{}, false
		}
		env := m.env(g.ID)
		d := streams.Tick(g, soft, &env)
		if m.doubtful(g.ID, &d) {
			m.timers.arm(key, m.now+m.options.RetryMs)
			return streams.Decision{}, false
		}
		return d, true
	}
}

// decideExpiry removes the member if its deadline still is over when its turn comes.
func decideExpiry(key timerKey) func(*Machine, *fsm.Group, *streams.Soft) (streams.Decision, bool) {
	return func(m *Machine, g *fsm.Group, soft *streams.Soft) (streams.Decision, bool) {
		if g == nil || soft == nil {
			return streams.Decision{}, false
		}
		sm := soft.Members[key.member]
		if sm == nil {
			return streams.Decision{}, false
		}
		if at := sm.NextDeadline(); at == 0 || at > m.now {
			m.timers.arm(key, at)
			return streams.Decision{}, false
		}
		if e := m.groups[g.ID]; e.commits[key.member] > 0 { // begun while the expiry waited for its turn
			e.await(key.member)
			return streams.Decision{}, false
		}
		env := m.env(g.ID)
		return streams.Expire(g, soft, &env, key.member), true
	}
}
