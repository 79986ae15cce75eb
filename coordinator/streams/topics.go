package streams

import (
	"errors"

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

// configure brings the configured topology up to date.
func (h *heartbeat) configure(d *Decision) *coordinator.Error {
	topics, err := configured(h.soft, h.topology, &h.env)
	if err != nil {
		return err
	}
	h.topics = topics
	if h.soft == nil || h.soft.Topics != topics {
		d.Soft.Topics = topics
	}
	if topics.Hash != groupMetadata(h.group).MetadataHash && h.causes&CauseTopology == 0 {
		h.causes |= CauseTopicChange
	}
	h.validated = validatedEpoch(topics.Configured)
	if create := topics.Configured.Create; len(create) > 0 {
		d.Effects = append(d.Effects, CreateTopics{Topics: create})
	}
	return nil
}

// configured returns the topology configured against the topics of env: the one in soft where no topic changed since.
func configured(soft *Soft, t *topology.Topology, env *Env) (*ConfiguredTopics, *coordinator.Error) {
	var old *ConfiguredTopics
	if soft != nil && soft.Topics != nil && soft.Topics.Topology == t {
		old = soft.Topics
	}
	if old != nil && old.Version == env.MetadataVersion {
		return old, nil
	}
	if env.Metadata == nil {
		return nil, coordinator.Errorf(coordinator.CoordinatorNotAvailable, "The topics are not known yet.")
	}
	hash := topology.MetadataHash(t, env.Metadata)
	if old != nil && old.Hash == hash {
		return &ConfiguredTopics{Topology: t, Version: env.MetadataVersion, Hash: hash, Configured: old.Configured}, nil
	}
	c, err := topology.Configure(t, env.Metadata)
	if err != nil {
		return nil, invalidTopology(err)
	}
	return &ConfiguredTopics{Topology: t, Version: env.MetadataVersion, Hash: hash, Configured: c}, nil
}

// invalidTopology is the answer to a topology that cannot be configured whatever topics exist.
func invalidTopology(err error) *coordinator.Error {
	var invalid *topology.InvalidTopology
	if errors.As(err, &invalid) {
		return &coordinator.Error{Code: coordinator.StreamsInvalidTopology, Message: invalid.Error()}
	}
	return &coordinator.Error{Code: coordinator.StreamsInvalidTopology, Message: err.Error()}
}

// validatedEpoch is the topology epoch whose topics are complete and well partitioned, or -1.
func validatedEpoch(c *topology.Configured) int32 {
	if c.Ready() {
		return c.Epoch
	}
	return -1
}

// checkOwned refuses reports of tasks that the topology does not have. Without a configured topology nobody can say. What
// the member was told to own is never refused, for the answer ends the application: a topic may have been made anew with
// fewer partitions since.
func (h *heartbeat) checkOwned() *coordinator.Error {
	if !h.topics.Configured.Ready() {
		return nil
	}
	for _, role := range [...]topology.Tasks{h.req.Active, h.req.Standby, h.req.Warmup} {
		for i := range role {
			if err := h.checkTasks(&role[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *heartbeat) checkTasks(s *topology.SubtopologyTasks) *coordinator.Error {
	n, ok := h.topics.Configured.Tasks(s.Subtopology)
	for _, p := range s.Partitions {
		if ok && p >= 0 && p < n || holds(h.current, topology.Task{Subtopology: s.Subtopology, Partition: p}) {
			continue
		}
		if !ok {
			return coordinator.Errorf(coordinator.InvalidRequest, "Subtopology %s does not exist in the topology.", s.Subtopology)
		}
		return coordinator.Errorf(coordinator.InvalidRequest,
			"Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d", p, s.Subtopology, n)
	}
	return nil
}

// holds reports whether the member was told to own the task in any role and has not confirmed its release.
func holds(c *record.CurrentAssignment, t topology.Task) bool {
	for _, a := range [...]*topology.Assignment{&c.Assigned, &c.Revoking} {
		if a.Active.Contains(t) || a.Standby.Contains(t) || a.Warmup.Contains(t) {
			return true
		}
	}
	return false
}
