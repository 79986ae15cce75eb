package upstream

import (
	"container/heap"
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

const (
	maxBeating = 16 // heartbeats under way
	sweepEvery = 500 * time.Millisecond
	trimEvery  = 15 * time.Second
	joinIdle   = 30 * time.Second
)

// beat is a heartbeat that is due; memberID tells whether it still is for the claim that stands.
type beat struct {
	at       time.Time
	group    *group
	memberID string
}

type beatHeap []beat

func (h beatHeap) Len() int           { return len(h) }
func (h beatHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h beatHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *beatHeap) Push(x any) { *h = append(*h, x.(beat)) }

// Pop implements heap.Interface.
func (h *beatHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = beat{}
	*h = old[:len(old)-1]
	return b
}

func (o *Offsets) kick() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// firstBeat plans the first heartbeat of a claim, anywhere within the interval of a quarter of the session, so that many
// claims made at once do not beat at once.
func (o *Offsets) firstBeat(g *group, memberID string) {
	o.mu.Lock()
	o.planBeat(g, memberID, o.session/40, o.session/4)
	o.mu.Unlock()
}

// planBeat plans a heartbeat at a random moment between from and to. The lock is held.
func (o *Offsets) planBeat(g *group, memberID string, from, to time.Duration) {
	d := from + time.Duration(o.cfg.Rand()*float64(to-from))
	o.pushBeat(beat{time.Now().Add(d), g, memberID})
}

// pushBeat adds to the heap. The lock is held.
func (o *Offsets) pushBeat(b beat) {
	heap.Push(&o.beats, b)
	if o.beats[0] == b {
		o.kick()
	}
}

// clock sends heartbeats when they are due and answers what waited too long.
func (o *Offsets) clock() {
	defer o.wg.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	trim := time.Now()
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-timer.C:
		case <-o.wake:
		}
		o.sweep()
		if time.Since(trim) >= trimEvery {
			trim = time.Now()
			o.client.joins.trim(joinIdle)
		}
		timer.Reset(o.tick())
	}
}

// tick starts the heartbeats that are due and returns how long there is nothing to do.
func (o *Offsets) tick() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait := trimEvery
	if len(o.busy) > 0 {
		wait = sweepEvery
	}
	now := time.Now()
	for len(o.beats) > 0 && !o.closed {
		b := o.beats[0]
		if !b.current() {
			heap.Pop(&o.beats)
			continue
		}
		if d := b.at.Sub(now); d > 0 {
			return min(wait, d)
		}
		if o.beating >= maxBeating {
			return wait // the next one that ends wakes us
		}
		heap.Pop(&o.beats)
		o.beating++
		o.wg.Add(1)
		go o.beat(b, b.group.claim, b.group.term)
	}
	return wait
}

// current reports whether the claim still stands. The lock is held.
func (b beat) current() bool {
	return b.group.claim.state == held && b.group.claim.memberID == b.memberID
}

// sweep answers requests that waited too long.
func (o *Offsets) sweep() {
	type late struct {
		op   *op
		code coordinator.Code
	}
	var all []late
	o.mu.Lock()
	now := time.Now()
	for g := range o.busy {
		code := coordinator.CoordinatorNotAvailable
		if g.joining || g.claim.state == lost {
			code = coordinator.CoordinatorLoadInProgress // being claimed
		}
		n := 0
		for _, p := range g.queue {
			if !p.deadline.IsZero() && !now.Before(p.deadline) {
				all = append(all, late{p, code})
			} else {
				g.queue[n] = p
				n++
			}
		}
		clear(g.queue[n:])
		g.queue = g.queue[:n]
	}
	o.mu.Unlock()
	for _, l := range all {
		l.op.fail(l.code, nil)
	}
}

// beat sends one heartbeat and plans the next or a new claim.
func (o *Offsets) beat(b beat, c claim, term uint64) {
	defer o.wg.Done()
	code, err := o.client.heartbeat(o.ctx, o.client.lanes[b.group.lane], b.group.id, c)
	defer o.kick()
	g := b.group
	lostNow := false
	o.mu.Lock()
	o.beating--
	switch {
	case g.term != term || !b.current() || o.closed:
	case err != nil || isCoordinatorTrouble(code):
		o.planBeat(g, c.memberID, time.Second, 2*time.Second)
	case code == kerr.FencedInstanceID.Code:
		lostNow = true
		o.taken(g)
	case isClaimLost(code):
		lostNow = true
		o.setClaim(g, claim{state: lost, memberID: c.memberID})
	case code != 0:
		o.planBeat(g, c.memberID, 2*time.Second, 4*time.Second)
	default:
		o.planBeat(g, c.memberID, o.session*85/400, o.session*115/400)
	}
	if lostNow && g.claim.state == lost && len(g.queue) == 0 {
		g.queue = append(g.queue, &op{kind: opReclaim})
		o.start(g)
	}
	o.mu.Unlock()
	if code != 0 && !isCoordinatorTrouble(code) {
		o.log.Info("heartbeat refused upstream", "group", g.id, "lost", lostNow, "error", kerr.ErrorForCode(code))
	}
}

// heartbeat keeps a claim alive and returns the upstream's code.
func (c *Client) heartbeat(ctx context.Context, l *lane, group string, cl claim) (int16, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = group, cl.generation, cl.memberID, &instanceID
	resp, err := c.request(ctx, l.cl, group, req)
	if err != nil {
		return 0, err
	}
	code := resp.(*kmsg.HeartbeatResponse).ErrorCode
	_ = c.checkGroup(group, code)
	return code, nil
}
