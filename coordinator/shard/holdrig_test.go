package shard

import (
	"testing"

	"github.com/coordd/coordd/coordinator/streams"
)

// line is a client connection of a member in a rig.
type line struct {
	r      *rig
	holder *Holder
	n      uint64
}

var lines uint64

func (r *rig) line() *line {
	lines++
	return &line{r: r, holder: NewHolder(lines)}
}

// send gives a request over the connection, as the gateway does: what is held there is let go first.
func (l *line) send(h *streams.HeartbeatRequest) (*Call, *answer) {
	l.letGo()
	l.n++
	a := &answer{}
	c := &Call{Client: client, Request: h, Done: a, Hold: l.holder, HoldNumber: l.n}
	l.r.Submit(l.r.now, c)
	l.r.Flush()
	return c, a
}

func (l *line) letGo() {
	if l.holder.Release(l.n) {
		l.r.LetGo(l.r.now, l.holder)
	}
}

// hanging is a rig whose settings hold heartbeats.
func hanging(t *testing.T) *rig {
	r := newRig(t)
	r.settings.HeartbeatHoldMs = -1
	return r
}

// settle lets everything that is due happen at this time.
func (r *rig) settle() {
	for range 10 {
		r.freshProof()
		r.Tick(r.now)
		r.Flush()
		r.commitAll()
	}
}

// pass lets time pass.
func (r *rig) pass(ms int64) {
	for ; ms > 0; ms -= min(ms, 100) {
		r.now += min(ms, 100)
		r.settle()
	}
}

// stable makes a group with members that each acknowledged what they were told, the last heartbeat of each being held.
func (r *rig) stable(group string, members ...string) (ls []*line, calls []*Call, answers []*answer) {
	r.t.Helper()
	epochs := map[string]int32{}
	for _, m := range members {
		l := r.line()
		asked := len(r.foreign)
		c, a := l.send(join(group, m))
		if len(r.foreign) > asked {
			r.ForeignChecked(r.now, group, noForeign, nil)
			r.Flush()
		}
		r.commitAll()
		if !a.done || c.Heartbeat.Err != nil {
			r.t.Fatalf("join of %s: %v %v", m, a.done, c.Heartbeat.Err)
		}
		ls, calls, answers = append(ls, l), append(calls, c), append(answers, a)
	}
	for range 6 {
		for i, m := range members {
			for answers[i].done {
				epoch := calls[i].Heartbeat.MemberEpoch
				h := beat(group, m, epoch)
				if calls[i].Heartbeat.Active != nil {
					h = report(group, m, epoch, calls[i].Heartbeat.Active)
				} else if epochs[m] == epoch {
					break
				}
				epochs[m] = epoch
				calls[i], answers[i] = ls[i].send(h)
				r.settle()
			}
		}
	}
	for i, m := range members {
		if answers[i].done {
			r.pass(5000)
			calls[i], answers[i] = ls[i].send(beat(group, m, calls[i].Heartbeat.MemberEpoch))
		}
	}
	r.settle()
	for i, m := range members {
		if answers[i].done {
			r.t.Fatalf("the heartbeat of %s is not held: %+v", m, calls[i].Heartbeat)
		}
	}
	return ls, calls, answers
}

// endpointsOf makes a request with the endpoint epoch that an answer told.
func endpointsOf(c *Call, h *streams.HeartbeatRequest) *streams.HeartbeatRequest {
	h.EndpointEpoch = c.Heartbeat.EndpointEpoch
	return h
}

func (r *rig) group(id string) *group { return r.groups[id] }
