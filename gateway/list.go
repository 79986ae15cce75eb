package gateway

import (
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

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
	led, since := false, time.Now().Add(-listOverlap)
	c.blocking(func() { led = c.g.awaitLeaders(c.done) })
	if !led {
		return c.replyError(h, body, notAvailable) // clients ask again; a list without these groups would look whole
	}
	var own []protocol.GroupEntry
	for g := range c.g.coords.Groups(since) {
		own = append(own, protocol.GroupEntry{
			ID: g.ID, ProtocolType: protocol.StreamsProtocolType, State: string(g.State), Type: protocol.StreamsGroupType,
		})
	}
	answer, err := protocol.AppendListGroups(nil, h, filter, own, nil, nil)
	if err != nil {
		return err
	}
	c.replyFrame(h, answer)
	return nil
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
