package streams

import (
	"errors"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// configure brings the configured topology up to date.
func (h *heartbeat) configure(d *Decision) *coordinator.Error {
	first := h.newTopology != nil || numMembers(h.group) == 0
	topics, err := configured(h.soft, h.group, h.topology, &h.env)
	if err != nil {
		if first && err.Code == coordinator.StreamsInvalidTopology {
			d.firstSet(h.topology, nil, &h.env)
			h.doubted = d.Doubt
		}
		return err
	}
	h.topics = topics
	d.takeTopics(h.soft, topics, &h.env)
	if first {
		d.firstSet(h.topology, topics.Configured.Problem, &h.env)
	}
	if topics.Hash != groupMetadata(h.group).MetadataHash && h.causes&CauseTopology == 0 {
		h.causes |= CauseTopicChange
	}
	h.validated = h.line.validated(groupMetadata(h.group).ValidatedTopologyEpoch, topics.Configured)
	return nil
}

// takeTopics keeps what was found about the topics, and has missing internal topics created.
func (d *Decision) takeTopics(soft *Soft, topics *ConfiguredTopics, env *Env) {
	if soft == nil || soft.Topics != topics {
		d.Soft.Topics = topics
	}
	d.armGrace(soft, topics, env.Now)
	if topics.unconfirmed(env) {
		d.doubt(topics.Sighted, env)
	}
	if create := topics.Found.Create; len(create) > 0 {
		d.Effects = append(d.Effects, CreateTopics{Topics: create})
	}
}

// configured returns the topology set against the topics of env: what is in soft where no topic changed since. A group
// that was right goes by the topics of before for a while.
func configured(soft *Soft, g *fsm.Group, t *topology.Topology, env *Env) (*ConfiguredTopics, *coordinator.Error) {
	var old *ConfiguredTopics
	if soft != nil && soft.Topics != nil && soft.Topics.Topology == t {
		old = soft.Topics
	}
	if old != nil && old.Version == env.MetadataVersion && !old.graceOver(env) {
		return old, nil
	}
	if env.Metadata == nil {
		return nil, coordinator.Errorf(coordinator.CoordinatorNotAvailable, "The topics are not known yet.")
	}
	found, resolution, err := find(old, t, env)
	var inherited int64
	if err != nil || !found.Ready() {
		inherited = inheritedGrace(soft, g, t, env)
	}
	if err != nil {
		if !wasRight(g, t) && inherited == 0 {
			return nil, err
		}
		found = notFitting(t, env, err)
	}
	topics := &ConfiguredTopics{Topology: t, Version: env.MetadataVersion, Hash: found.Hash, Configured: found, Found: found, Resolution: resolution}
	if !found.Ready() {
		topics.sight(old, env)
		topics.goOn(old, g, inherited, env)
	}
	return topics, nil
}

// find sets the topology against the topics as they are.
func find(old *ConfiguredTopics, t *topology.Topology, env *Env) (*topology.Configured, *topology.Resolution, *coordinator.Error) {
	var before *topology.Resolution
	var version uint64
	if old != nil {
		if topology.Unaffected(t, env.Metadata, old.Version) {
			return old.Found, old.Resolution, nil
		}
		before, version = old.Resolution, old.Version
	}
	resolution := before.Resolve(t, env.Metadata, version)
	if old != nil && old.Found.Hash == resolution.MetadataHash(env.Metadata) {
		return old.Found, resolution, nil
	}
	found, err := resolution.Configure(env.Metadata)
	if err != nil {
		return nil, resolution, invalidTopology(err)
	}
	return found, resolution, nil
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
