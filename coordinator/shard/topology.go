package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
)

// AbortTopologyRequest asks to take the last topology update of a group back (streams.AbortTopology).
type AbortTopologyRequest struct {
	GroupID string
	// Epoch is the group's topology epoch, so that a request that is repeated takes nothing else back.
	Epoch int32
}

// AbortTopologyResponse answers an AbortTopologyRequest.
type AbortTopologyResponse struct {
	// Err is nil when the topology of before is the group's again: GROUP_ID_NOT_FOUND, or INVALID_REQUEST where there is
	// nothing to go back to.
	Err *coordinator.Error
	// Epoch is the topology epoch that the group has now, From the one that was given up, and Restored the one that the
	// topology had before.
	Epoch, From, Restored int32
}

// abortTopology goes back to the topology of before, once. It waits for topics that are current: what it decides holds for all
// members. A problem of theirs that is new is told to nobody before they have been read again, as ever.
func (m *Machine) abortTopology(c *Call, r *AbortTopologyRequest) {
	if m.unsettled(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c})
		return
	}
	id := strings.Clone(r.GroupID)
	if m.committed.Group(id) == nil {
		m.reply(c, &AbortTopologyResponse{Err: coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", id)})
		return
	}
	var done AbortTopologyResponse
	m.submitInternal(task{
		group: id, call: c,
		internal: func(m *Machine, g *fsm.Group, soft *streams.Soft) (streams.Decision, bool) {
			if m.withoutTopicsYet() || !m.host.TopicsCurrent() {
				m.host.RefreshTopics()
				m.refuse(c, loading)
				return streams.Decision{}, false
			}
			env := m.env(id)
			d, restored, err := streams.AbortTopology(g, soft, &env, id, r.Epoch)
			if m.doubtful(id, &d) {
				m.awaitTopics(c, &d)
				return streams.Decision{}, false
			}
			done = AbortTopologyResponse{Err: err}
			if err == nil {
				done = AbortTopologyResponse{Epoch: r.Epoch + 1, From: r.Epoch, Restored: restored}
			}
			if len(d.Records) == 0 {
				c.Response, c.Err = &done, nil
				if m.open.touches(id) { // what it saw is not committed
					m.open.park(c, nil, id)
				} else {
					c.Done.CallDone(c)
				}
				return streams.Decision{}, false
			}
			return d, true
		},
		after: func(m *Machine) { m.reply(c, &done) },
	})
}
