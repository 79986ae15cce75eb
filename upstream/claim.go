package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// How coordd's claims look upstream: a classic group of this protocol type with one static member of this instance id.
const (
	protocolType = "coordd"
	protocolName = "offsets"
)

var instanceID = "coordd"

const (
	minSession = 6 * time.Second
	// rebalanceTimeout bounds how long the broker may hold a join; it must exceed group.initial.rebalance.delay.ms.
	rebalanceTimeout = 15 * time.Second
	// joinTimeout bounds one attempt, with the time to connect.
	joinTimeout = 20 * time.Second
	// contestedFor is how long after a take-over the next one looks like a dispute between two clusters; its rejoin waits
	// as before try contestedPause.
	contestedFor   = 10 * time.Second
	contestedPause = 6
)

// work does what is queued for a group, in order, and ends when nothing is left.
func (o *Offsets) work(g *group) {
	defer o.wg.Done()
	for {
		o.mu.Lock()
		if len(g.queue) == 0 {
			delete(o.busy, g)
			if g.claim.state == unclaimed && o.groups[g.id] == g {
				delete(o.groups, g.id)
			}
			o.mu.Unlock()
			return
		}
		ctx, cancel := context.WithCancel(o.ctx)
		g.cancel = cancel
		term := g.term
		ops := g.take()
		state := g.claim.state
		o.mu.Unlock()

		o.do(ctx, g, term, state, ops)

		o.mu.Lock()
		g.cancel = nil
		o.mu.Unlock()
		cancel()
	}
}

// maxTogether bounds the commits that are under way together.
const maxTogether = 256

// take removes the first op, or all commits at the head of the queue. The lock is held.
func (g *group) take() []*op {
	n := 1
	if g.queue[0].kind == opCommit {
		for n < len(g.queue) && n < maxTogether && g.queue[n].kind == opCommit {
			n++
		}
	}
	ops := g.queue[:n:n]
	g.queue = g.queue[n:]
	return ops
}

func (o *Offsets) do(ctx context.Context, g *group, term uint64, state claimState, ops []*op) {
	p := ops[0]
	switch p.kind {
	case opClaim:
		p.done(o.join(ctx, g, term, false))
	case opReclaim:
		if state == lost {
			o.rejoin(ctx, g, term)
		}
	case opRelease:
		p.done(o.leave(ctx, g, term))
	case opCommit:
		o.commitAll(ctx, g, term, ops)
	case opDelete:
		o.delete(ctx, g, term, p)
	case opDeleteGroup:
		o.deleteGroup(ctx, g, term, p)
	}
}

// update changes a group's claim unless it was forgotten meanwhile, and reports whether it did.
func (o *Offsets) update(g *group, term uint64, c claim) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g.term != term {
		return false
	}
	o.setClaim(g, c)
	return true
}

// superseded reports whether joining has become pointless: the group was forgotten, or shall be left next.
func (o *Offsets) superseded(g *group, term uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g.term != term || o.closed {
		return true
	}
	for _, p := range g.queue {
		if p.kind == opRelease || p.kind == opDeleteGroup {
			return true
		}
	}
	return false
}

// rejoin makes a lost claim anew, once this process has proven that it still leads.
func (o *Offsets) rejoin(ctx context.Context, g *group, term uint64) {
	o.mu.Lock()
	contested := !g.takenAt.IsZero() && time.Since(g.takenAt) < contestedFor
	o.mu.Unlock()
	if contested && !o.pause(ctx, contestedPause) {
		return
	}
	if o.cfg.Verify != nil {
		if err := o.verify(ctx, g.id); err != nil {
			o.log.Debug("claim not renewed", "group", g.id, "error", err)
			o.update(g, term, claim{state: fenced})
			return
		}
		o.mu.Lock()
		if g.claim.state == lost && g.claim.taken {
			g.takenAt = time.Now()
		}
		o.mu.Unlock()
	}
	if err := o.join(ctx, g, term, true); err != nil {
		o.log.Warn("cannot renew the claim of a group", "group", g.id, "error", err)
		if !errors.Is(err, ErrDropped) {
			o.update(g, term, claim{state: fenced}) // who believes to hold it learns from its next commit that it must claim anew
		}
	}
}

// join makes the claim and keeps trying until it stands, is superseded, or is refused for good.
func (o *Offsets) join(ctx context.Context, g *group, term uint64, again bool) error {
	o.mu.Lock()
	g.joining = true
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		g.joining = false
		o.mu.Unlock()
	}()
	var told bool
	for try := 1; ; try++ {
		if o.superseded(g, term) {
			o.update(g, term, claim{})
			return ErrDropped
		}
		session := o.sessionTimeout()
		c, err := o.client.join(ctx, g.id, session)
		if err == nil {
			if !o.update(g, term, c) {
				return ErrDropped
			}
			if told || again {
				o.log.Info("group claimed upstream", "group", g.id)
			}
			o.firstBeat(g, c.memberID)
			return nil
		}
		if final := o.refused(g, term, session, err); final != nil {
			return final
		}
		if !told && try > 2 {
			told = true
			o.log.Warn("cannot claim a group upstream yet", "group", g.id, "error", err)
		}
		if !o.pause(ctx, try) {
			o.update(g, term, claim{})
			return ErrDropped
		}
	}
}

// refused returns why an attempt to join must not be repeated, or nil.
func (o *Offsets) refused(g *group, term uint64, session time.Duration, err error) error {
	switch {
	case errors.Is(err, kerr.InvalidSessionTimeout):
		o.mu.Lock()
		o.session = min(o.session, max(session/2, minSession))
		o.mu.Unlock()
		return nil
	case errors.Is(err, kerr.FencedInstanceID):
		// Somebody joined under our instance id while we did.
		o.update(g, term, claim{state: fenced})
		return ErrFenced
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		o.update(g, term, claim{})
		return coordinator.Errorf(coordinator.InconsistentGroupProtocol, "the id is in use upstream by another group")
	case errors.Is(err, kerr.InvalidGroupID):
		o.update(g, term, claim{})
		return coordinator.Errorf(coordinator.InvalidGroupID, "the upstream refuses the group id")
	}
	return nil
}

func (o *Offsets) sessionTimeout() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.session
}

// pause waits before try+1, longer each time, and reports whether it was not cut short.
func (o *Offsets) pause(ctx context.Context, try int) bool {
	d := min(2*time.Second, 25*time.Millisecond<<min(try, 8))
	d = d/2 + time.Duration(o.cfg.Rand()*float64(d))
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// join makes one attempt: JoinGroup and SyncGroup as a new incarnation of the static member.
func (c *Client) join(ctx context.Context, group string, session time.Duration) (claim, error) {
	cl, err := c.joins.get(ctx)
	if err != nil {
		return claim{}, err
	}
	defer c.joins.put(cl)
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()

	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.InstanceID, req.ProtocolType = group, &instanceID, protocolType
	req.SessionTimeoutMillis = int32(session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(rebalanceTimeout.Milliseconds())
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: protocolName, Metadata: []byte{}}}
	req.Reason = kmsg.StringPtr("coordd leads the streams group")
	var joined *kmsg.JoinGroupResponse
	for range 2 {
		resp, err := c.request(ctx, cl, group, req)
		if err != nil {
			return claim{}, fmt.Errorf("join group: %w", err)
		}
		joined = resp.(*kmsg.JoinGroupResponse)
		if joined.ErrorCode != kerr.MemberIDRequired.Code {
			break
		}
		req.MemberID = joined.MemberID
	}
	if err := c.checkGroup(group, joined.ErrorCode); err != nil {
		return claim{}, fmt.Errorf("join group: %w", err)
	}
	if err := c.sync(ctx, cl, group, joined); err != nil {
		return claim{}, fmt.Errorf("sync group: %w", err)
	}
	return claim{state: held, memberID: joined.MemberID, generation: joined.Generation}, nil
}

func (c *Client) sync(ctx context.Context, cl *kgo.Client, group string, joined *kmsg.JoinGroupResponse) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = group, joined.Generation, joined.MemberID, &instanceID
	req.ProtocolType, req.Protocol = kmsg.StringPtr(protocolType), kmsg.StringPtr(protocolName)
	if joined.LeaderID == joined.MemberID {
		assignment := kmsg.NewSyncGroupRequestGroupAssignment()
		assignment.MemberID, assignment.MemberAssignment = joined.MemberID, []byte{}
		req.GroupAssignment = append(req.GroupAssignment, assignment)
	}
	resp, err := c.request(ctx, cl, group, req)
	if err != nil {
		return err
	}
	return c.checkGroup(group, resp.(*kmsg.SyncGroupResponse).ErrorCode)
}

// checkGroup turns a code into an error and forgets a coordinator that is none.
func (c *Client) checkGroup(group string, code int16) error {
	if isCoordinatorTrouble(code) {
		c.coordinators.forget(group)
	}
	return kerr.ErrorForCode(code)
}

// leave gives the claim up; without one, what a former holder left behind is removed. It fails with ErrFenced when
// another process holds the claim. Without an answer it fails too: the claim counts as given up here, but what an earlier
// holder has in flight may still arrive, and whoever released must try again.
func (o *Offsets) leave(ctx context.Context, g *group, term uint64) error {
	o.mu.Lock()
	c := g.claim
	o.mu.Unlock()
	if !o.update(g, term, claim{}) {
		return ErrDropped
	}
	if c.state == fenced || c.taken {
		return ErrFenced
	}
	for try := 1; try <= 5; try++ {
		err := o.client.leave(ctx, o.client.lanes[g.lane].cl, g.id, c.memberID)
		if err == nil {
			return nil
		}
		if errors.Is(err, kerr.FencedInstanceID) {
			return ErrFenced
		}
		o.log.Debug("cannot leave the upstream's group", "group", g.id, "error", err)
		if !o.pause(ctx, try) {
			return ErrDropped
		}
	}
	return errNotKnown
}

// leave removes the static member, only while it has that member id unless that is empty. A group or member that does
// not exist is no error.
func (c *Client) leave(ctx context.Context, cl *kgo.Client, group, memberID string) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.InstanceID = memberID, &instanceID
	member.Reason = kmsg.StringPtr("the streams group is empty")
	req.Members = append(req.Members, member)
	resp, err := c.request(ctx, cl, group, req)
	if err != nil {
		return err
	}
	left := resp.(*kmsg.LeaveGroupResponse)
	code := left.ErrorCode
	if code == 0 && len(left.Members) > 0 {
		code = left.Members[0].ErrorCode
	}
	err = c.checkGroup(group, code)
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	return err
}
