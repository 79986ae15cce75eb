package gateway

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
)

// holding is what the leader of a shard says of a group, as the byte that a hop carries.
type holding byte

const (
	heldBit  holding = 1
	emptyBit holding = 2
)

func (h holding) held() bool  { return h&heldBit != 0 }
func (h holding) empty() bool { return h&emptyBit != 0 }

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
		return []byte{byte(h)}
	}}
	group = strings.Clone(group) // an attempt may be given up while the shard still looks at it
	e.call = shard.Call{Client: client, Request: &shard.HoldsRequest{GroupID: group}, Done: e}
	if kind == hopVacate {
		e.call.Request = &shard.VacateRequest{GroupID: group}
	}
	g.coords.Submit(g.coords.Shard(group), &e.call)
}
