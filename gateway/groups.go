package gateway

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// How long a connection takes the leader's word that a group is not ours, and how many such groups it remembers.
const (
	foreignTTL = 2 * time.Second
	maxForeign = 1000
)

// byGroup routes requests that name groups or config resources.
func (c *conn) byGroup(h protocol.Header, body, frame []byte) error {
	switch h.Key {
	case protocol.KeyFindCoordinator:
		return c.findCoordinator(h, body, frame)
	case protocol.KeyDescribeConfigs, protocol.KeyAlterConfigs, protocol.KeyIncrementalAlterConfigs, keyListConfigResources:
		return c.configs(h, body, frame)
	}
	if group, ok := protocol.GroupID(h.Key, h.Version, body); ok {
		return c.oneGroup(group, h, body, frame)
	}
	return c.batch(h, body, frame)
}

// oneGroup answers a request about one group.
func (c *conn) oneGroup(group string, h protocol.Header, body, frame []byte) error {
	now, refusal := c.ours(group, h.Key)
	if now.held() && refusal == nil && h.Key == protocol.KeyOffsetDelete {
		now, refusal = c.oursAtLeader(group) // the replica may lag, and the group be the upstream's by now
	}
	switch {
	case refusal != nil:
		return c.replyError(h, body, refusal)
	case !now.held() && now.logs() && protocol.CommitsWithoutMember(h, body):
		return c.replyFromLeader(group, h, body, frame) // it must know of all that may hinder a group in the log
	case !now.held():
		return c.toCoordinator(group, h, body, frame)
	}
	switch h.Key {
	case protocol.KeyOffsetCommit, protocol.KeyTxnOffsetCommit, protocol.KeyOffsetFetch, protocol.KeyOffsetDelete:
		return c.replyFromLeader(group, h, body, frame)
	}
	return c.otherType(group, h, body, frame)
}

// otherType answers a request of another group type that names a group of ours. A JoinGroup of a new member takes the
// place of a group without members. The shard's leader says how things stand: a replica that lags would refuse the members
// of the group that has just got the id.
func (c *conn) otherType(group string, h protocol.Header, body, frame []byte) error {
	ask := c.g.holdsAtLeader
	if h.Key == protocol.KeyJoinGroup {
		anew, err := protocol.JoinsAnew(h.Version, body)
		if err != nil {
			return err
		}
		if anew {
			// The group must not go where the join cannot come to anything.
			if _, refusal, err := c.reachCoordinator(group, h); err != nil {
				return err
			} else if refusal != nil {
				return c.replyError(h, body, refusal)
			}
			ask = c.g.vacateAtLeader
		}
	}
	var now holding
	var refusal *coordinator.Error
	said := c.g.word(group)
	c.blocking(func() { now, refusal = ask(&errand{group: group, c: c}, c.client) })
	switch {
	case refusal != nil:
		return c.replyError(h, body, refusal)
	case !now.held():
		if c.vacated == nil || len(c.vacated) >= maxForeign {
			c.vacated = map[string]denial{}
		}
		said.holding, said.at = now, time.Now()
		c.vacated[strings.Clone(group)] = said
		return c.toCoordinator(group, h, body, frame)
	}
	answer, err := protocol.AppendTypeRefusal(nil, h, body, now.empty())
	if err != nil {
		return err
	}
	c.replyFrame(h, answer)
	return nil
}

// replyFromLeader answers by what the leader of the group's shard says.
func (c *conn) replyFromLeader(group string, h protocol.Header, body, frame []byte) error {
	var out outcome
	var err error
	c.blocking(func() { out, err = c.g.requestAtLeader(&errand{group: group, c: c}, c.client, frame) })
	switch {
	case err != nil:
		return err
	case out.err != nil:
		return c.replyError(h, body, out.err)
	}
	c.replyFrame(h, out.answer)
	return nil
}

// replyFrame answers a request by a whole frame.
func (c *conn) replyFrame(h protocol.Header, answer []byte) {
	s := c.open(h, nil)
	s.out, s.code = append(s.out[:0], answer...), codeIn(h, answer)
	s.answer()
}

// replyError answers a request by one error wherever its layout has room for it.
func (c *conn) replyError(h protocol.Header, body []byte, e *coordinator.Error) error {
	answer, err := protocol.AppendError(nil, h, body, e.Code, e.Message)
	if err != nil {
		return err
	}
	s := c.open(h, nil)
	s.out, s.code = append(s.out[:0], answer...), e.Code
	s.answer()
	return nil
}

// ours says whether a group is coordd's. This node's replica may say yes; only the shard's leader may say no, because a
// replica that lags would send the commit of one of our members to the upstream, where it is fatal.
func (c *conn) ours(group string, key int16) (holding, *coordinator.Error) {
	said := c.g.word(group)
	gone, ok := c.vacated[group]
	left := ok && gone.recent(said.at)
	switch {
	case left && gone.counts(c.g, group, key):
		return gone.holding, nil
	case !left && c.g.coords.Holds(group): // else this node's replica may lag
		return heldBit, nil
	}
	if other, ok := c.others[group]; ok && other.recent(said.at) && other.counts(c.g, group, key) {
		return other.holding, nil
	}
	now, refusal := c.oursAtLeader(group)
	if refusal == nil && !now.held() {
		if c.others == nil || len(c.others) >= maxForeign {
			c.others = map[string]denial{}
		}
		said.holding = now
		c.others[strings.Clone(group)] = said
	}
	return now, refusal
}

// oursAtLeader is what the leader of the group's shard says.
func (c *conn) oursAtLeader(group string) (now holding, refusal *coordinator.Error) {
	c.blocking(func() { now, refusal = c.g.holdsAtLeader(&errand{group: group, c: c}, c.client) })
	return now, refusal
}

// toCoordinator sends a request about a group that is not ours on to the upstream broker that coordinates it.
func (c *conn) toCoordinator(group string, h protocol.Header, body, frame []byte) error {
	broker, refusal, err := c.reachCoordinator(group, h)
	switch {
	case err != nil:
		return err
	case refusal != nil:
		return c.replyError(h, body, refusal)
	}
	return c.forward(broker, h, frame, c.passedOn(h, body, strings.Clone(group)))
}

// reachCoordinator finds the upstream broker that coordinates a group and connects to it. A coordinator port lists
// versions for our own groups that the upstream may not know; NOT_COORDINATOR then sends the client to the upstream's
// own port.
func (c *conn) reachCoordinator(group string, h protocol.Header) (int32, *coordinator.Error, error) {
	broker, code, err := c.upstreamCoordinator(group)
	switch {
	case err != nil:
		return 0, nil, err
	case code != coordinator.None:
		return 0, &coordinator.Error{Code: code}, nil
	case !c.versionsOf(broker).serves(h.Key, h.Version):
		return 0, notCoordinator, nil
	}
	if _, err := c.to(broker); err != nil {
		if broker == c.port.broker {
			return 0, nil, err
		}
		return 0, notAvailable, nil
	}
	return broker, nil, nil
}

// forgetsWhenMoved passes an answer on, and forgets who coordinates the group when that has changed.
func forgetsWhenMoved(groups ...string) rewriter {
	return func(c *conn, h protocol.Header, answer []byte) ([]byte, error) {
		resp := kmsg.ResponseForKey(h.Key)
		resp.SetVersion(h.Version)
		_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
		if err != nil || resp.ReadFrom(body) != nil {
			return answer, nil // the client may make more of it
		}
		if moved(resp) {
			for _, g := range groups {
				c.g.where.forget(g)
			}
		}
		return answer, nil
	}
}

// moved says whether an answer has NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE in it.
func moved(resp kmsg.Response) bool {
	gone := func(code int16) bool {
		return code == int16(coordinator.NotCoordinator) || code == int16(coordinator.CoordinatorNotAvailable)
	}
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return gone(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		return gone(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		return gone(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return gone(r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return gone(r.ErrorCode)
	case *kmsg.ShareGroupHeartbeatResponse:
		return gone(r.ErrorCode)
	case *kmsg.OffsetDeleteResponse:
		return gone(r.ErrorCode)
	case *kmsg.AlterShareGroupOffsetsResponse:
		return gone(r.ErrorCode)
	case *kmsg.DeleteShareGroupOffsetsResponse:
		return gone(r.ErrorCode)
	case *kmsg.OffsetCommitResponse:
		return len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && gone(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.TxnOffsetCommitResponse:
		return len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && gone(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.OffsetFetchResponse:
		if r.Version < 2 { // the error of the group stands on each partition
			return len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && gone(r.Topics[0].Partitions[0].ErrorCode)
		}
		for _, g := range r.Groups {
			if gone(g.ErrorCode) {
				return true
			}
		}
		return gone(r.ErrorCode)
	}
	return batchMoved(resp, gone)
}
