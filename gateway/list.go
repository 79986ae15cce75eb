package gateway

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/protocol"
)

// listOverlap is for how long a node goes on to list the groups of a shard that it no longer leads: a client asks all nodes,
// not at the same moment, and may have been answered by the new leader before that one led. A group that is told twice is one
// to every client; one that nobody told would be gone.
const listOverlap = 500 * time.Millisecond

// listGroups answers by the groups that this node leads; on the port of an upstream broker by the broker's groups, less
// those that are ours or stand for one of ours.
func (c *conn) listGroups(h protocol.Header, body, frame []byte) error {
	if c.port.broker != noBroker {
		return c.forward(c.port.broker, h, frame, rewriteDecoded)
	}
	filter, err := protocol.DecodeListGroups(h.Version, body)
	if err != nil {
		return err
	}
	since, complete := time.Now().Add(-listOverlap), false
	var shards []uint32
	c.blocking(func() {
		if complete = c.g.awaitLeaders(c.done); complete {
			shards, complete = c.upToDate(since)
		}
	})
	if !complete {
		return c.replyError(h, body, notAvailable) // clients ask again; a list without these groups would look whole
	}
	var own []protocol.GroupEntry
	for _, number := range shards {
		for g := range c.g.coords.Groups(number) {
			own = append(own, protocol.GroupEntry{
				ID: g.ID, ProtocolType: protocol.StreamsProtocolType, State: string(g.State), Type: protocol.StreamsGroupType,
			})
		}
	}
	answer, err := protocol.AppendListGroups(nil, h, filter, own, nil, nil)
	if err != nil {
		return err
	}
	c.replyFrame(h, answer)
	return nil
}

// upToDate are the shards that this node has led since, once its replicas of them hold all that was acknowledged: a client
// that is told of a group by two nodes takes either answer. It blocks; false means that a leader could not be asked in time.
func (c *conn) upToDate(since time.Time) (shards []uint32, ok bool) {
	for number := range c.g.coords.Shards() {
		if c.g.coords.LedSince(number, since) {
			shards = append(shards, number)
		}
	}
	reached := make([]bool, len(shards))
	var wg sync.WaitGroup
	for i, number := range shards {
		wg.Go(func() { reached[i] = c.g.catchUp(&errand{numbered: true, number: number, c: c}, c.client) })
	}
	wg.Wait()
	return shards, !slices.Contains(reached, false)
}

// catchUp waits until this node's replica of a shard holds all that the shard's leader had acknowledged. It blocks.
func (g *Gateway) catchUp(e *errand, client *coordinator.Client) bool {
	out, gone := g.atLeader(e, func(a *attempt) error {
		if a.leader == g.coords.Self() {
			g.executePosition(e.number, client, a.tell)
		} else {
			g.hops.request(a.leader, hopPosition, client, binary.BigEndian.AppendUint32(nil, e.number), a)
		}
		return nil
	})
	if gone != nil || out.err != nil || len(out.answer) != 8 {
		return false
	}
	reached := make(chan bool, 1)
	g.coords.AwaitPosition(e.number, binary.BigEndian.Uint64(out.answer), func(r bool) { reached <- r })
	return <-reached
}

// executePosition answers up to where this node's replica holds the log of a shard that it leads, as a big-endian uint64.
func (g *Gateway) executePosition(number uint32, client *coordinator.Client, done func(answer []byte, err *coordinator.Error)) {
	e := &execution{done: done, finish: func(*shard.Call) []byte {
		return binary.BigEndian.AppendUint64(nil, g.coords.Position(number))
	}}
	e.call = shard.Call{Client: client, Request: &shard.ProofRequest{}, Done: e}
	g.coords.Submit(number, &e.call)
}

// awaitLeaders waits until every shard has a leader that could list its groups, for ParkTime in all.
func (g *Gateway) awaitLeaders(gone <-chan struct{}) bool {
	timer := time.NewTimer(g.cfg.ParkTime)
	defer timer.Stop()
	for number := range g.coords.Shards() {
		for {
			changed := g.coords.LeaderChanged(number)
			if _, ok := g.coords.Leader(number); ok {
				break
			}
			select {
			case <-changed:
			case <-timer.C:
				return false
			case <-gone:
				return false
			case <-g.ctx.Done():
				return false
			}
		}
	}
	return true
}

// shadowProtocol is the protocol type of the memberships that coordd has upstream for its groups' offsets.
const shadowProtocol = "coordd"

// filterGroups takes those groups out of an upstream broker's list that stand for groups of ours: coordd's memberships, and
// what offsets without a member leave there. A group with members is never ours, whatever a replica that lags says.
func (g *Gateway) filterGroups(r *kmsg.ListGroupsResponse) {
	var bare []string
	for _, e := range r.Groups {
		if e.ProtocolType != shadowProtocol && (r.Version < statesFrom || e.GroupState == "Empty" || e.GroupState == "Dead") {
			bare = append(bare, e.Group)
		}
	}
	ours := g.oursAmong(bare)
	r.Groups = slices.DeleteFunc(r.Groups, func(e kmsg.ListGroupsResponseGroup) bool {
		return e.ProtocolType == shadowProtocol || ours[e.Group]
	})
}

// statesFrom is the version from which on ListGroups tells states.
const statesFrom = 4

// maxListed is how many groups of one list the leaders of their shards are asked for.
const maxListed = 256

// oursAmong says which of the groups are ours: by this node's replica, and for what it does not hold by the leaders, for
// it may lag.
func (g *Gateway) oursAmong(groups []string) map[string]bool {
	ours := map[string]bool{}
	var unsure []string
	for _, id := range groups {
		if g.coords.Holds(id) {
			ours[id] = true
		} else if len(unsure) < maxListed {
			unsure = append(unsure, id)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	width := make(chan struct{}, batchWidth)
	for _, id := range unsure {
		width <- struct{}{}
		wg.Go(func() {
			defer func() { <-width }()
			if now, err := g.holdsAtLeader(&errand{group: id}, askerClient); err == nil && now.held() {
				mu.Lock()
				ours[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return ours
}
