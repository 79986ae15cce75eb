package gateway

import (
	"strings"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/protocol"
)

// holding is what the leader of a shard says of a group, as the byte that a hop carries.
type holding byte

const (
	heldBit  holding = 1
	emptyBit holding = 2
	logsBit  holding = 4 // shard.HoldsResponse.Logs
)

func (h holding) held() bool  { return h&heldBit != 0 }
func (h holding) empty() bool { return h&emptyBit != 0 }
func (h holding) logs() bool  { return h&logsBit != 0 }

// denial is the word of the leader of a group's shard that coordd does not have the group.
type denial struct {
	holding
	at time.Time
	// leader is who said it, or who led before; unknown without ok.
	leader int32
	ok     bool
}

// word begins what the leader of a group's shard is about to say.
func (g *Gateway) word(group string) denial {
	w := denial{at: time.Now()}
	w.leader, w.ok = g.coords.Leader(g.coords.Shard(group))
	return w
}

// recent says that hardly any replica is behind what was said.
func (w *denial) recent(at time.Time) bool { return at.Sub(w.at) < foreignTTL }

// counts says whether a request may go by what was said. About offsets the leader is asked anew where the group may be made in the log
// at any time: the upstream knows nothing of commits that were acknowledged since.
func (w *denial) counts(g *Gateway, group string, key int16) bool {
	switch key {
	case protocol.KeyOffsetCommit, protocol.KeyTxnOffsetCommit, protocol.KeyOffsetFetch, protocol.KeyOffsetDelete:
		leader, ok := g.coords.Leader(g.coords.Shard(group))
		return !w.logs() && (!ok || w.ok && leader == w.leader)
	}
	return true
}

// holdsAtLeader asks a group's leader whether the group is ours. It blocks.
func (g *Gateway) holdsAtLeader(e *errand, client *coordinator.Client) (holding, *coordinator.Error) {
	return g.askHolding(e, client, hopHolds)
}

// vacateAtLeader has the leader of a group's shard make room for a classic group, and says how things stand then. It
// blocks.
func (g *Gateway) vacateAtLeader(e *errand, client *coordinator.Client) (holding, *coordinator.Error) {
	return g.askHolding(e, client, hopVacate)
}

func (g *Gateway) askHolding(e *errand, client *coordinator.Client, kind byte) (holding, *coordinator.Error) {
	out, gone := g.atLeader(e, func(a *attempt) error {
		if a.leader == g.coords.Self() {
			g.executeHolding(kind, client, e.group, a.tell)
		} else {
			g.hops.request(a.leader, kind, client, []byte(e.group), a)
		}
		return nil
	})
	switch {
	case gone != nil:
		return 0, notAvailable
	case out.err != nil:
		return 0, out.err
	case len(out.answer) != 1:
		return 0, notAvailable
	}
	return holding(out.answer[0]), nil
}

// executeHolding answers what askHolding asks by one byte.
func (g *Gateway) executeHolding(kind byte, client *coordinator.Client, group string, done func(answer []byte, err *coordinator.Error)) {
	e := &execution{done: done, finish: func(call *shard.Call) []byte {
		var h holding
		if r := call.Response.(*shard.HoldsResponse); r.Held {
			h = heldBit
			if r.Empty {
				h |= emptyBit
			}
		}
		if call.Response.(*shard.HoldsResponse).Logs {
			h |= logsBit
		}
		return []byte{byte(h)}
	}}
	group = strings.Clone(group) // an attempt may be given up while the shard still looks at it
	e.call = shard.Call{Client: client, Request: &shard.HoldsRequest{GroupID: group}, Done: e}
	if kind == hopVacate {
		e.call.Request = &shard.VacateRequest{GroupID: group}
	}
	g.coords.Submit(g.coords.Shard(group), &e.call)
}
