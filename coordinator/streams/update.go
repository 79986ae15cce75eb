package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// updateTopology stores the topology of the first member and compares that of later ones with the group's (Kafka 4.4
// does not take topology updates).
func (h *heartbeat) updateTopology(d *Decision) *coordinator.Error {
	h.topology = groupTopology(h.group)
	sent := h.req.Topology
	switch {
	case h.topology == nil && sent == nil:
		// Only a group of which the log lost the topology: its members bring it back when they join anew.
		return unknownMember(h.memberID, h.groupID)
	case h.topology == nil:
		if err := validateTopology(sent); err != nil {
			return err // what is stored must be sound, whoever called
		}
		// Kafka stores such a topology while source topics are missing, and then no app can ever replace it.
		if err := topology.ValidateCounts(sent); err != nil {
			return invalidTopology(err)
		}
		value := &record.Topology{Topology: *sent.Clone()}
		h.topology = &value.Topology
		h.causes |= CauseTopology
		d.Records = append(d.Records, record.Record{
			Key: record.Key{Type: record.TypeTopology, Group: h.groupID}, Value: value,
		})
	case sent != nil && sent.Epoch >= h.topology.Epoch && !sent.Equal(h.topology):
		return coordinator.Errorf(coordinator.InvalidRequest, "Topology updates are not supported yet. The group has a topology "+
			"of epoch %d, the request another one of epoch %d; delete the group to change its topology.", h.topology.Epoch, sent.Epoch)
	}
	h.stale = h.meta.TopologyEpoch < h.topology.Epoch
	return nil
}
