package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// storeOp is one operation of the offset store under way. It has a group where it changes offsets for a client.
type storeOp struct {
	call          *Call
	group, member string
	term          uint64
	commit        bool
	answered      []offsets.CommitTopicResult // of a request that the store sees in part only
	after         func(m *Machine, err error)
	committed     func(m *Machine, r *offsets.CommitResponse) // of a commit that no client asked for
	fetched       func(m *Machine, r *offsets.FetchResponse)  // of a fetch that no client asked for
}

// commitOffsets fences a commit by member and epoch and hands it to the store. While members exist the store must hold
// the group's membership upstream, so that what an earlier leader still has in flight is refused there.
func (m *Machine) commitOffsets(c *Call, r *offsets.CommitRequest) {
	if m.awaitsDeletion(c, r.GroupID) {
		return
	}
	if m.logsOffsets(r.GroupID) {
		m.logCommit(c, r)
		return
	}
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	g := m.committed.Group(r.GroupID)
	kept, refused := offsets.Admit(g, r, m.knownTopics(), m.host.Settings(r.GroupID).OffsetMetadataMaxBytes)
	if kept == nil {
		m.reply(c, &offsets.CommitResponse{Topics: refused})
		return
	}
	if e := m.groups[r.GroupID]; e != nil && e.awaited[r.MemberID] {
		e.blocked = append(e.blocked, c)
		return
	}
	if !m.storeReady(g, c) {
		return
	}
	op := &storeOp{call: c, group: strings.Clone(r.GroupID), commit: true, answered: refused}
	if g != nil && g.Member(r.MemberID) != nil {
		op.member = strings.Clone(r.MemberID)
		e := m.groupOf(r.GroupID)
		if e.commits == nil {
			e.commits = map[string]int{}
		}
		e.commits[op.member]++
	}
	m.host.Commit(m.startStore(op), kept)
}

func (m *Machine) fetchOffsets(c *Call, r *offsets.FetchRequest) {
	if m.logsOffsets(r.GroupID) {
		m.fetchLogged(c, r)
		return
	}
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	g := m.committed.Group(r.GroupID)
	if err := offsets.CheckFetch(g, r); err != nil && !m.untold(g, r) {
		m.reply(c, offsets.FetchFailed(r, err))
		return
	}
	if r.MemberID != nil && m.holdsGrants(r.GroupID) {
		// A static member that takes another's place has its tasks at once: what an earlier leader has in flight for the
		// one before must not arrive after this answer.
		e := m.groupOf(r.GroupID)
		e.waiting = append(e.waiting, c)
		m.resumeClaim(r.GroupID)
		return
	}
	m.host.Fetch(m.startStore(&storeOp{call: c}), r)
}

// untold says that the request has the epoch that its member was told last: it was moved on while its heartbeat was held,
// and asked for offsets before it read the answer that tells it so.
func (m *Machine) untold(g *fsm.Group, r *offsets.FetchRequest) bool {
	soft := m.softOf(r.GroupID)
	if g == nil || soft == nil || r.MemberID == nil {
		return false
	}
	member, sm := g.Member(*r.MemberID), soft.Members[*r.MemberID]
	return member != nil && member.Current != nil && sm != nil && sm.Untold && r.MemberEpoch == member.Current.PreviousEpoch
}

// deleteOffsets lets the store delete what the rules allow, and answers the other topics itself.
func (m *Machine) deleteOffsets(c *Call, r *offsets.DeleteRequest) {
	if m.awaitsDeletion(c, r.GroupID) {
		return
	}
	if m.logsOffsets(r.GroupID) {
		m.deleteLogged(c, r)
		return
	}
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	g := m.committed.Group(r.GroupID)
	if err := offsets.CheckDeleteGroup(g, r.GroupID); err != nil {
		m.reply(c, offsets.DeleteFailed(err))
		return
	}
	allowed, refused := offsets.AdmitDelete(g, r, m.knownTopics())
	if len(allowed.Topics) == 0 {
		m.reply(c, &offsets.DeleteResponse{Topics: refused})
		return
	}
	if !m.storeReady(g, c) {
		return
	}
	m.host.DeleteOffsets(m.startStore(&storeOp{call: c, group: strings.Clone(r.GroupID), answered: refused}), allowed)
}

// knownTopics are the upstream's topics, nil before the first picture of them.
func (m *Machine) knownTopics() topology.Metadata {
	topics, version := m.host.Topics()
	if version == 0 {
		return nil
	}
	return topics
}

// storeReady says whether the store may be asked to change offsets of the group: with members, when the membership
// upstream is held; without, when none is left. Else the call waits until that is so.
func (m *Machine) storeReady(g *fsm.Group, c *Call) bool {
	if g == nil {
		return true
	}
	e := m.groupOf(g.ID)
	if g.NumMembers() == 0 {
		if !g.OffsetsClaimed {
			return true
		}
	} else if e.claim == claimHeld {
		return true
	}
	e.waiting = append(e.waiting, c)
	m.resumeClaim(g.ID)
	return false
}

func (m *Machine) startStore(op *storeOp) uint64 {
	m.nextOp++
	op.term = m.term
	m.store[m.nextOp] = op
	return m.nextOp
}

// StoreDone is the outcome of a store operation: *offsets.CommitResponse, *offsets.FetchResponse,
// *offsets.DeleteResponse, or an error (nil for success) of [Host.DropOffsets]. Where the leadership is over that asked for it,
// clients are to ask the next leader: the offsets may be elsewhere by now, and what the upstream took be deleted there.
func (m *Machine) StoreDone(now int64, id uint64, response any) {
	m.now = now
	op := m.store[id]
	if op == nil {
		return
	}
	delete(m.store, id)
	switch {
	case !m.leading || op.term != m.term:
		m.refuse(op.call, notCoordinator)
		return
	case op.after != nil:
		err, _ := response.(error)
		op.after(m, err)
		return
	case op.committed != nil:
		op.committed(m, response.(*offsets.CommitResponse))
		return
	case op.fetched != nil:
		op.fetched(m, response.(*offsets.FetchResponse))
		return
	case op.commit:
		m.commitDone(op, response.(*offsets.CommitResponse))
	}
	if op.commit && !m.commitCounts(op) {
		m.refuse(op.call, notCoordinator)
	} else {
		m.clientAnswered(op, response)
	}
	if e := m.groups[op.group]; e != nil && e.moveWaits && !m.changesUnderWay(op.group) {
		e.moveWaits = false
		m.unblock(e)
	}
}

// commitCounts says whether a commit that the upstream has answered may be acknowledged. A leader that came later may have made the group in the log by
// what the upstream said before the commit arrived there: without a group here nothing else keeps the two apart.
func (m *Machine) commitCounts(op *storeOp) bool {
	if m.working.Group(op.group) != nil {
		return true
	}
	m.idChanged(op.group, false)
	return m.proven()
}

// clientAnswered answers the client who asked for an operation.
func (m *Machine) clientAnswered(op *storeOp, response any) {
	switch r := response.(type) {
	case *offsets.CommitResponse:
		r.Topics = offsets.Joined(op.answered, r.Topics)
		m.reply(op.call, r)
	case *offsets.DeleteResponse:
		r.Topics = offsets.Joined(op.answered, r.Topics)
		m.reply(op.call, r)
	default:
		m.reply(op.call, response)
	}
}

// commitDone lets go what waited for the member's commits. A commit that the upstream fenced shows that the membership
// is no longer ours.
func (m *Machine) commitDone(op *storeOp, r *offsets.CommitResponse) {
	e := m.groups[op.group]
	if e == nil {
		return
	}
	if fenced(r) && e.claim == claimHeld {
		e.claim = claimNone
	}
	if op.member == "" {
		return
	}
	if n := e.commits[op.member]; n > 1 {
		e.commits[op.member] = n - 1
		return
	}
	delete(e.commits, op.member)
	if e.awaited[op.member] {
		delete(e.awaited, op.member)
		m.fireMember(timerKey{kind: timerMember, group: op.group, member: op.member}, e)
	}
	m.unblock(e)
}

func fenced(r *offsets.CommitResponse) bool {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.Code == coordinator.NotCoordinator {
				return true
			}
		}
	}
	return false
}

// deleteGroup deletes the offsets of an empty group, then the group.
func (m *Machine) deleteGroup(c *Call, r *DeleteGroupRequest) {
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	g := m.committed.Group(r.GroupID)
	if err := emptyGroup(g, r.GroupID); err != nil {
		m.reply(c, &DeleteGroupResponse{Err: err})
		return
	}
	if e := m.groups[g.ID]; e != nil && e.moving { // its offsets are in two places
		e.blocked = append(e.blocked, c)
		return
	}
	if r.expired && (!g.LeftUpstream() || !m.outlived(g)) { // since it was looked at
		m.reply(c, &DeleteGroupResponse{})
		return
	}
	if !m.storeReady(g, c) {
		return
	}
	upstream := g.Store() != record.StoreRaft || g.LeftUpstream()
	if upstream && m.lateMs(g.ID) > 0 { // its commits would come back, and its deletion hit a group of the id made anew
		m.refuse(c, tooSoon)
		return
	}
	if g.LeftUpstream() && !m.foreignChecked(c, g.ID) {
		return
	}
	d := &deletion{call: c, group: m.groupOf(g.ID), expires: r.expired}
	d.group.deleting++
	if !upstream || g.LeftUpstream() && c.found.InUse { // those in the log go with the group, and others' upstream stay
		d.dropped(m, nil)
		return
	}
	m.host.DropOffsets(m.startStore(&storeOp{call: c, after: d.dropped}), g.ID)
}

// deletion is a DeleteGroup under way. Until it is decided no member may join.
type deletion struct {
	call    *Call
	group   *group
	decided bool // group.deleting does not count it any more
	expires bool // nobody asked for it: whoever came meanwhile keeps the group
}

// dropped goes on when the offsets are gone, or could not be deleted.
func (d *deletion) dropped(m *Machine, err error) {
	if err != nil {
		m.refuse(d.call, notAvailable)
		d.over(m)
		return
	}
	m.submitInternal(task{group: d.group.id, call: d.call, internal: d.decide, after: d.committed, failed: d.over})
}

func (d *deletion) decide(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
	if m.groups[d.group.id] != d.group {
		g = nil // another deletion was quicker, and what has the id now is another group
	}
	if err := emptyGroup(g, d.group.id); err != nil {
		d.call.Response, d.call.Err = &DeleteGroupResponse{Err: err}, nil
		if m.open.touches(d.group.id) { // what it saw is not committed
			m.open.park(d.call, nil, d.group.id)
		} else {
			d.call.Done.CallDone(d.call)
		}
		d.over(m)
		return streams.Decision{}, false
	}
	d.count()
	if d.expires && (g.NumOffsets() > 0 || !m.outlived(g)) {
		m.reply(d.call, &DeleteGroupResponse{})
		d.over(m)
		return streams.Decision{}, false
	}
	return streams.Decision{Records: deletionRecords(g)}, true
}

func (d *deletion) committed(m *Machine) {
	if d.expires {
		m.host.Observe(Event{Group: d.group.id, Expired: true})
	}
	m.reply(d.call, &DeleteGroupResponse{})
	d.over(m) // a join that was decided right after the deletion has made the group anew: nobody else lets these go
}

// count takes the deletion out of those that joins wait for: a join that is decided from now on makes the group anew.
func (d *deletion) count() {
	if !d.decided {
		d.decided = true
		d.group.deleting--
	}
}

// over lets the joins go that waited, unless the group went, which does.
func (d *deletion) over(m *Machine) {
	d.count()
	if e := d.group; m.groups[e.id] == e && e.deleting == 0 {
		m.unblock(e)
	}
}

// unblock decides again on the calls that wait for commits or a deletion; some may have to wait on.
func (m *Machine) unblock(e *group) {
	blocked := e.blocked
	e.blocked = nil
	for _, c := range blocked {
		m.dispatch(c)
	}
}

// emptyGroup is nil for a group that may be deleted.
func emptyGroup(g *fsm.Group, id string) *coordinator.Error {
	switch {
	case g == nil:
		return coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", id)
	case g.NumMembers() > 0:
		return coordinator.Errorf(coordinator.NonEmptyGroup, "Group %s has %d members; only an empty group can be deleted.", id, g.NumMembers())
	}
	return nil
}
