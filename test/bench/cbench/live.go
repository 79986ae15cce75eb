package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// liveGroup is a group whose members go on with their heartbeats by themselves, each over a connection of its own, as
// Java clients do: the next one follows at once when the answer brought something new, else an interval after the last
// one was sent, whether its answer was held or not.
type liveGroup struct {
	*Group
	every time.Duration // 0: the interval that the answers tell
	stop  chan struct{}
	wg    sync.WaitGroup
	beats atomic.Int64

	mu   sync.Mutex
	errs map[string]int
	gone map[*Member]bool
	own  map[*Member]*Cluster
}

func newLiveGroup(cl *Cluster, id string, topo Topo, members int, every time.Duration) *liveGroup {
	return &liveGroup{Group: newGroup(cl, id, topo, members), every: every, stop: make(chan struct{}), errs: map[string]int{},
		gone: map[*Member]bool{}, own: map[*Member]*Cluster{}}
}

// connect gives every member its connection; what takes time there is not measured.
func (g *liveGroup) connect(members []*Member) error {
	_, _, err := closedLoop(len(members), 16, func(_, i int) error {
		c := g.cl.clone()
		a, err := c.coordAddr(g.id)
		if err == nil {
			_, err = c.conn(a)
		}
		m := members[i]
		m.mu.Lock()
		m.g = &Group{cl: c, id: g.id, topo: g.topo}
		m.mu.Unlock()
		g.mu.Lock()
		g.own[m] = c
		g.mu.Unlock()
		return err
	})
	return err
}

// start lets members live. spread is how far apart their first heartbeats are.
func (g *liveGroup) start(members []*Member, spread time.Duration) {
	for _, m := range members {
		first := time.Duration(0)
		if spread > 0 {
			first = rand.N(spread)
		}
		g.wg.Go(func() {
			if g.sleep(first) {
				g.live(m)
			}
		})
	}
}

func (g *liveGroup) live(m *Member) {
	for {
		sent := time.Now()
		changed, err := m.beat()
		g.beats.Add(1)
		g.mu.Lock()
		gone := g.gone[m]
		if err != nil && !gone {
			g.errs[strings.TrimSpace(strings.TrimPrefix(err.Error(), "heartbeat "+g.id+": "))]++
		}
		g.mu.Unlock()
		if gone {
			return
		}
		wait := g.every
		switch {
		case err != nil:
			wait = 100 * time.Millisecond
		case changed:
			wait = 0
		case wait == 0:
			m.mu.Lock()
			wait = m.interval
			m.mu.Unlock()
		}
		if !g.sleep(wait - time.Since(sent)) {
			return
		}
	}
}

// sleep is false when the group was stopped meanwhile.
func (g *liveGroup) sleep(d time.Duration) bool {
	select {
	case <-g.stop:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.stop:
		return false
	case <-t.C:
		return true
	}
}

// leave lets members go, all at once.
func (g *liveGroup) leave(members []*Member) {
	g.mu.Lock()
	for _, m := range members {
		g.gone[m] = true
	}
	g.mu.Unlock()
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() { _ = m.leave() })
	}
	wg.Wait()
}

// awaitSettled waits until the members and the coordinator agree, and returns when the last change came.
func (g *liveGroup) awaitSettled(start time.Time, limit time.Duration) (time.Duration, error) {
	var why error
	for end := start.Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !g.settledLocal() {
			why = fmt.Errorf("the members do not have their tasks")
			continue
		}
		d, err := g.cl.describe([]string{g.id})
		if err != nil {
			why = err
			continue
		}
		if why = g.settledRemote(d[g.id]); why == nil {
			var last time.Time
			for _, m := range g.members {
				m.mu.Lock()
				if m.lastChanged.After(last) {
					last = m.lastChanged
				}
				m.mu.Unlock()
			}
			return last.Sub(start), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return 0, fmt.Errorf("%s: not settled after %v: %v; heartbeat errors %v", g.id, limit, why, g.errs)
}

// end stops the members; answers that are held are not waited for.
func (g *liveGroup) end() {
	close(g.stop)
	for _, c := range g.own {
		c.close()
	}
}
