package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
)

// question is one to the upstream about the id of a group.
type question struct {
	asked bool
	// calls are those that it is asked for, and next those that came since: the answer may be older than what was acknowledged before
	// they came.
	calls, next []*Call
	// here says whether the group was here when it was asked, and at is Machine.changes then.
	here bool
	at   uint64
}

// idChange tells, as numbers of Machine.changes, when the group of an id went last, and when the last commit to the upstream was answered that found
// no group here.
type idChange struct{ went, committed uint64 }

// maxChanged bounds the ids whose changes are known; where there are more, all that the upstream said by then has to be asked again.
const maxChanged = 10_000

// foreignChecked asks the upstream whether the id of a group that is not here is taken there: before a join creates the
// group, and to tell members and tools of a group of another type what is wrong. So it does before the first member of a group
// that is empty here: the application may have gone back to the upstream, and run there. It says whether the call may go on; else
// the call waits for the upstream's word.
func (m *Machine) foreignChecked(c *Call, group string) bool {
	if m.stillFree(c, group) {
		return true
	}
	c.free = false
	switch q := m.foreign[group]; {
	case q == nil:
		id := strings.Clone(group)
		q = &question{calls: []*Call{c}}
		m.foreign[id] = q
		m.ask(id, q)
	case q.asked:
		q.next = append(q.next, c)
	default:
		q.calls = append(q.calls, c)
	}
	return false
}

func (m *Machine) ask(id string, q *question) {
	q.asked, q.here, q.at = true, m.working.Group(id) != nil, m.changes
	m.host.Foreign(id)
}

// stillFree says whether what the upstream said on behalf of the call counts. Where a group is made by it, it must be as young as the last change:
// the group has not come or gone since it was asked, and where the new one will not look for offsets upstream, no commit to there was under
// way since.
func (m *Machine) stillFree(c *Call, group string) bool {
	if !c.free || !makes(c) {
		return c.free
	}
	here, last := m.working.Group(group) != nil, m.changed[group]
	switch {
	case c.here != here || c.asked < m.forgot || c.asked < last.went:
		return false
	case here || c.found.Offsets || m.options.Store != record.StoreRaft:
		return true
	}
	return c.asked >= last.committed && !m.changesUnderWay(group)
}

// makes says whether a call may make a group.
func makes(c *Call) bool { return joins(c) || adopts(c) }

// idChanged notes that the group of an id went, or that a commit to the upstream was answered.
func (m *Machine) idChanged(group string, went bool) {
	m.changes++
	last, known := m.changed[group]
	if !known && len(m.changed) >= maxChanged {
		clear(m.changed)
		m.forgot = m.changes
	}
	if went {
		last.went = m.changes
	} else {
		last.committed = m.changes
	}
	m.changed[strings.Clone(group)] = last
}

// ForeignChecked is the outcome of [Host.Foreign]: the group of that id upstream. What is not known keeps a group from
// being created, and offsets from being moved or deleted where that deletes what the upstream has.
func (m *Machine) ForeignChecked(now int64, id string, found coordinator.ForeignGroup, err error) {
	m.now = now
	q := m.foreign[id]
	if q == nil || !m.leading {
		delete(m.foreign, id)
		return
	}
	again := &question{}
	m.foreign[id] = again
	for _, c := range q.calls {
		switch {
		case err != nil && drops(c):
			m.refuse(c, notAvailable)
		case err != nil && makes(c) && m.working.Group(id) == nil:
			m.refuse(c, notAvailable)
		case err == nil && concerns(c, found) && m.mayBeTheirs(c, id):
			m.refuseForeign(c, id, found)
		default:
			c.free, c.found, c.here, c.asked = true, found, q.here, q.at
			m.dispatch(c)
		}
	}
	for _, c := range q.next {
		m.dispatch(c)
	}
	if len(again.calls) > 0 {
		m.ask(id, again)
	} else {
		delete(m.foreign, id)
	}
}

// concerns says whether a group upstream is in the way of a call: to a description it is whatever it is, to members only
// one that they cannot take the place of. Where their own group is gone, its offsets are such a group without members, and
// they are to make it anew.
func concerns(c *Call, found coordinator.ForeignGroup) bool {
	_, describes := c.Request.(*DescribeRequest)
	return found.InUse && !drops(c) || describes && found.Type != ""
}

// mayBeTheirs says whether the id may be another group's after all: a group of ours that has come to be meanwhile is ours, except
// to who would be its first member.
func (m *Machine) mayBeTheirs(c *Call, id string) bool {
	g := m.working.Group(id)
	return g == nil || g.NumMembers() == 0 && joins(c)
}

func joins(c *Call) bool {
	r, ok := c.Request.(*streams.HeartbeatRequest)
	return ok && r.MemberEpoch == streams.JoinEpoch
}

func adopts(c *Call) bool {
	_, ok := c.Request.(*AdoptRequest)
	return ok
}

// drops says whether a call may delete what the upstream has under the id. Such a call decides by itself what becomes of what it found.
func drops(c *Call) bool {
	switch c.Request.(type) {
	case *MoveOffsetsRequest, *DeleteGroupRequest, *VacateRequest:
		return true
	}
	return false
}

// refuseForeign answers a call about a group of another type.
func (m *Machine) refuseForeign(c *Call, id string, found coordinator.ForeignGroup) {
	why := coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s is not a streams group.", id)
	if found.Type == "streams" {
		why.Message = "Group " + id + " is a streams group of the Kafka cluster behind coordd"
		if found.InUse {
			why.Message += ", and has members there"
		}
		why.Message += "."
	}
	switch r := c.Request.(type) {
	case *streams.HeartbeatRequest:
		m.finishHeartbeat(c, r, &streams.Decision{Reply: streams.HeartbeatResponse{Err: why}})
	case *DescribeRequest:
		m.reply(c, &streams.Description{GroupID: id, Err: why})
	case *AdoptRequest:
		m.reply(c, &AdoptResponse{Err: why})
	}
}
