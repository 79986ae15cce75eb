package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// foreignChecked asks the upstream whether the id of a group that is not here is taken there: before a join creates the
// group, and to tell members and tools of a group of another type what is wrong. It says whether the call may go on; else
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

// ForeignChecked is the outcome of [Host.Foreign]: the type of a group of that id upstream that no streams group may take
// over, "" for none. What is not known keeps a group from being created, and nothing else.
func (m *Machine) ForeignChecked(now int64, id, foreignType string, err error) {
	m.now = now
	calls := m.foreign[id]
	delete(m.foreign, id)
	if !m.leading {
		return
	}
	for _, c := range calls {
		switch {
		case err != nil && joins(c):
			m.refuse(c, notAvailable)
		case err == nil && foreignType != "" && m.working.Group(id) == nil:
			m.refuseForeign(c, id, foreignType)
		default:
			c.free = true
			m.dispatch(c)
		}
	}
}

func joins(c *Call) bool {
	r, ok := c.Request.(*streams.HeartbeatRequest)
	return ok && r.MemberEpoch == streams.JoinEpoch
}

// refuseForeign answers a call about a group of another type.
func (m *Machine) refuseForeign(c *Call, id, foreignType string) {
	why := coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s is not a streams group.", id)
	if foreignType == "streams" {
		why.Message = "Group " + id + " is a streams group of the Kafka cluster behind coordd, and has members there."
	}
	switch r := c.Request.(type) {
	case *streams.HeartbeatRequest:
		m.finishHeartbeat(c, r, &streams.Decision{Reply: streams.HeartbeatResponse{Err: why}})
	case *DescribeRequest:
		m.reply(c, &streams.Description{GroupID: id, Err: why})
	}
}
