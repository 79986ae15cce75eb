package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// AdoptRequest asks to make a group without members in place of one that the upstream's own coordinator has (streams.Adopt).
type AdoptRequest struct {
	GroupID string
	// Epoch is the group epoch that it has there; 0 for none.
	Epoch int32
	// Topology is the one that it has there; nil for none.
	Topology *topology.Topology
}

// AdoptResponse answers an AdoptRequest. Err is nil when the group is here now: GROUP_ID_NOT_FOUND where the upstream's group
// has members, or is of a type that keeps its id; INVALID_REQUEST where coordd has a group of that id; or what is wrong with the
// topology.
type AdoptResponse struct{ Err *coordinator.Error }

// adopt makes the group once the upstream has said, on behalf of this request, that nobody is in its own.
func (m *Machine) adopt(c *Call, r *AdoptRequest) {
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	id := strings.Clone(r.GroupID)
	if m.committed.Group(id) == nil && !m.foreignChecked(c, id) {
		return
	}
	m.submitInternal(task{
		group: id, call: c,
		internal: func(m *Machine, g *fsm.Group, _ *streams.Soft) (streams.Decision, bool) {
			if g == nil && !m.stillFree(c, id) { // it was here when the upstream was asked
				m.adopt(c, r)
				return streams.Decision{}, false
			}
			env := m.env(id)
			d, err := streams.Adopt(g, &env, id, r.Epoch, r.Topology)
			if len(d.Records) == 0 {
				c.Response, c.Err = &AdoptResponse{Err: err}, nil
				if m.open.touches(id) { // what it saw is not committed
					m.open.park(c, nil, id)
				} else {
					c.Done.CallDone(c)
				}
				return streams.Decision{}, false
			}
			return d, true
		},
		after: func(m *Machine) { m.reply(c, &AdoptResponse{}) },
	})
}
