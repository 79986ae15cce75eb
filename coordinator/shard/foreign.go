package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// foreignChecked asks the upstream whether the id of a group that is not here is taken there: before a join creates the
// group, and to tell members and tools of a group of another type what is wrong. So it does before the first member of a group
// that is empty here: the application may have gone back to the upstream, and run there. It says whether the call may go on; else
// the call waits for the upstream's word.
func (m *Machine) foreignChecked(c *Call, group string) bool {
	if c.free {
		return true
	}
	calls, asked := m.foreign[group]
	id := strings.Clone(group)
	m.foreign[id] = append(calls, c)
	if !asked {
		m.host.Foreign(id)
	}
	return false
}

// ForeignChecked is the outcome of [Host.Foreign]: the group of that id upstream. What is not known keeps a group from
// being created, and offsets from being moved, which begins or ends with the deletion of what the upstream has.
func (m *Machine) ForeignChecked(now int64, id string, found coordinator.ForeignGroup, err error) {
	m.now = now
	calls := m.foreign[id]
	delete(m.foreign, id)
	if !m.leading {
		return
	}
	for _, c := range calls {
		switch {
		case err != nil && moves(c):
			m.refuse(c, notAvailable)
		case err != nil && (joins(c) || adopts(c)) && m.working.Group(id) == nil:
			m.refuse(c, notAvailable)
		case err == nil && concerns(c, found) && m.mayBeTheirs(c, id):
			m.refuseForeign(c, id, found)
		default:
			c.free, c.found = true, found
			m.dispatch(c)
		}
	}
}

// concerns says whether a group upstream is in the way of a call: to a description it is whatever it is, to members only
// one that they cannot take the place of. Where their own group is gone, its offsets are such a group without members, and
// they are to make it anew.
func concerns(c *Call, found coordinator.ForeignGroup) bool {
	_, describes := c.Request.(*DescribeRequest)
	return found.InUse || describes && found.Type != ""
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

func moves(c *Call) bool {
	_, ok := c.Request.(*MoveOffsetsRequest)
	return ok
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
