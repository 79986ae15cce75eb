package streams

import (
	"errors"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

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
	h.validated = h.line.validated(groupMetadata(h.group).ValidatedTopologyEpoch, topics.Configured)
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
	if old != nil && topology.Unaffected(t, env.Metadata, old.Version) {
		return &ConfiguredTopics{Topology: t, Version: env.MetadataVersion, Hash: old.Hash, Configured: old.Configured}, nil
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
