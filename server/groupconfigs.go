package server

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/gateway"
	"github.com/coordd/coordd/raftnode"
)

// groupConfigs keeps the settings that groups have of their own in the system shard, and knows on every node what they
// come to. The leader of the system shard changes them, one alteration after the other.
type groupConfigs struct {
	node *Node

	altering sync.Mutex // held from reading what is stored until the change is committed

	some      atomic.Bool // whether any group has settings of its own, so that else nobody waits for mu
	mu        sync.RWMutex
	state     fsm.State
	effective map[string]*coordinator.GroupSettings // of groups with settings of their own
	index     uint64                                // of the system shard's log, up to which this node acts
	updated   chan struct{}                         // closed by the next update
}

var _ gateway.GroupConfigs = (*groupConfigs)(nil)

func newGroupConfigs(n *Node) *groupConfigs {
	return &groupConfigs{node: n, effective: map[string]*coordinator.GroupSettings{}, updated: make(chan struct{})}
}

// of are the effective settings of a group. The pointer stays the same until they change. It allocates nothing and does
// not keep the id.
func (c *groupConfigs) of(group string) *coordinator.GroupSettings {
	if !c.some.Load() {
		return &c.node.config.Streams.Defaults
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if s := c.effective[group]; s != nil {
		return s
	}
	return &c.node.config.Streams.Defaults
}

// stored are the settings that a group has of its own, as this node knows them.
func (c *groupConfigs) stored(group string) config.GroupConfig {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return groupConfig(c.state.GroupConfig(group))
}

// update takes over what the system shard says now, and tells the shards whose groups have other settings than before.
func (c *groupConfigs) update() {
	index := c.node.system.replica.index.Load()
	state := c.node.system.replica.State()
	c.mu.Lock()
	before := c.state
	c.state = state
	var changed []string
	if !state.SameGroupConfigs(before) {
		changed = c.takeOver(before, state)
		c.some.Store(len(c.effective) > 0)
	}
	c.mu.Unlock()
	for _, group := range changed {
		c.node.runnerOf(group).post(input{kind: inputSettings, group: group})
	}
	c.mu.Lock()
	c.index = max(c.index, index)
	close(c.updated)
	c.updated = make(chan struct{})
	c.mu.Unlock()
}

// awaitPatience bounds how long an acknowledgement waits for a node that is behind.
const awaitPatience = 500 * time.Millisecond

// Await implements gateway.GroupConfigs.
func (c *groupConfigs) Await(position uint64, done func()) {
	if index, _ := c.acting(); index >= position {
		done()
		return
	}
	c.node.run(func() {
		patience := time.NewTimer(awaitPatience)
		defer patience.Stop()
		defer done()
		for {
			index, updated := c.acting()
			if index >= position {
				return
			}
			select {
			case <-updated:
			case <-patience.C:
				return
			case <-c.node.ctx.Done():
				return
			}
		}
	})
}

func (c *groupConfigs) acting() (index uint64, updated <-chan struct{}) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.index, c.updated
}

func (c *groupConfigs) takeOver(before, now fsm.State) (changed []string) {
	for id, stored := range now.GroupConfigs() {
		if before.GroupConfig(id) == stored {
			continue
		}
		settings, clamped := c.node.config.Streams.Effective(groupConfig(stored))
		c.effective[id] = settings
		changed = append(changed, id)
		for _, s := range clamped {
			c.node.log.Warn("a group's setting is outside of what this node allows", "group", cut(id), "setting", s.Name,
				"stored", s.Stored, "used", s.Effective)
		}
		if settings.SessionTimeoutMs <= settings.HeartbeatIntervalMs {
			c.node.log.Warn("a group's session timeout is not above its heartbeat interval: its members will be removed", "group", cut(id),
				"session.timeout.ms", settings.SessionTimeoutMs, "heartbeat.interval.ms", settings.HeartbeatIntervalMs)
		}
	}
	for id := range before.GroupConfigs() {
		if now.GroupConfig(id) == nil {
			delete(c.effective, id)
			changed = append(changed, id)
		}
	}
	return changed
}

func groupConfig(stored *record.GroupConfig) config.GroupConfig {
	if stored == nil {
		return nil
	}
	c := make(config.GroupConfig, len(stored.Settings))
	for _, s := range stored.Settings {
		c[s.Key] = s.Value
	}
	return c
}

func groupConfigRecord(group string, c config.GroupConfig) record.Record {
	r := record.Record{Key: record.Key{Type: record.TypeGroupConfig, Group: group}}
	if len(c) == 0 {
		return r
	}
	v := &record.GroupConfig{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		v.Settings = append(v.Settings, record.KeyValue{Key: name, Value: c[name]})
	}
	r.Value = v
	return r
}

// Describe implements gateway.GroupConfigs.
func (c *groupConfigs) Describe(groups []string, done func([][]config.GroupEntry, *coordinator.Error)) {
	c.proven(func(state fsm.State, err *coordinator.Error) {
		if err != nil {
			done(nil, err)
			return
		}
		entries := make([][]config.GroupEntry, len(groups))
		for i, group := range groups {
			entries[i] = c.node.config.Streams.Describe(groupConfig(state.GroupConfig(group)))
		}
		done(entries, nil)
	})
}

// List implements gateway.GroupConfigs.
func (c *groupConfigs) List(done func([]string, *coordinator.Error)) {
	c.proven(func(state fsm.State, err *coordinator.Error) {
		if err != nil {
			done(nil, err)
			return
		}
		groups := []string{}
		for id := range state.GroupConfigs() {
			groups = append(groups, id)
		}
		done(groups, nil)
	})
}

// proven reads what the system shard says after this node has proven that it leads it, so that everybody sees what was
// acknowledged to anybody.
func (c *groupConfigs) proven(read func(fsm.State, *coordinator.Error)) {
	s := c.node.system
	if !s.leads() {
		go read(fsm.State{}, notSystemLeader)
		return
	}
	s.group.Verify(func(err error) {
		if err != nil {
			read(fsm.State{}, notSystemLeader)
			return
		}
		read(s.replica.State(), nil)
	})
}

// notSystemLeader says that nothing was done, maybeAltered that the outcome is not known.
var (
	notSystemLeader = &coordinator.Error{Code: coordinator.NotCoordinator, Message: "This node does not lead the system shard.", NotStarted: true}
	maybeAltered    = &coordinator.Error{Code: coordinator.NotCoordinator, Message: "This node does not lead the system shard any more."}
)

// Alter implements gateway.GroupConfigs.
func (c *groupConfigs) Alter(alterations []config.GroupAlteration, validateOnly bool, done func([]*coordinator.Error, uint64, *coordinator.Error)) {
	c.node.run(func() {
		c.altering.Lock()
		defer c.altering.Unlock()
		refusals, err := c.alter(alterations, validateOnly)
		done(refusals, c.node.system.replica.index.Load(), err)
	})
}

// alter makes those of the alterations that are allowed. An error besides theirs says that the outcome is not known, or
// that nothing was done.
func (c *groupConfigs) alter(alterations []config.GroupAlteration, validateOnly bool) ([]*coordinator.Error, *coordinator.Error) {
	if err := c.settled(); err != nil {
		return nil, err
	}
	state := c.node.system.replica.State()
	refusals := make([]*coordinator.Error, len(alterations))
	written := false
	var records []record.Record
	size := 0
	for i := range alterations {
		a := &alterations[i]
		stored := groupConfig(state.GroupConfig(a.Group))
		after, refusal := c.node.config.Streams.Alter(stored, a)
		if refusal == nil && len(a.Group) > maxGroupID {
			refusal = coordinator.Errorf(coordinator.InvalidRequest, "The group id is %d bytes long, allowed are %d.", len(a.Group), maxGroupID)
		}
		if refusals[i] = refusal; refusal != nil || maps.Equal(stored, after) {
			continue
		}
		r := groupConfigRecord(strings.Clone(a.Group), after)
		if more := record.Size(r); size+more > maxSystemEntry {
			if err := c.write(records, validateOnly, written); err != nil {
				return nil, err
			}
			records, size, written = nil, 0, true
		}
		records = append(records, r)
		size += record.Size(r)
	}
	return refusals, c.write(records, validateOnly, written)
}

const (
	// maxGroupID bounds the ids of groups with settings, in bytes, by what a record can hold.
	maxGroupID = 32767
	// maxSystemEntry bounds the records of an entry, in bytes, below what an entry may have.
	maxSystemEntry = record.MaxEntrySize / 2
)

// settled makes sure that this node leads the system shard and has applied all that was acknowledged.
func (c *groupConfigs) settled() *coordinator.Error {
	proof := make(chan *coordinator.Error, 1)
	c.proven(func(_ fsm.State, err *coordinator.Error) { proof <- err })
	select {
	case err := <-proof:
		return err
	case <-c.node.ctx.Done():
		return notSystemLeader
	}
}

// write writes what fits into one entry; after says that others of the request are written.
func (c *groupConfigs) write(records []record.Record, validateOnly, after bool) *coordinator.Error {
	if len(records) == 0 || validateOnly {
		return nil
	}
	err := c.node.system.write(c.node.ctx, records)
	switch {
	case err == nil:
		for _, r := range records {
			c.node.log.Info("settings of a group changed", "group", cut(r.Key.Group), "settings", settingsText(r))
		}
		return nil
	case errors.Is(err, raftnode.ErrRejected):
		c.node.log.Error("settings of groups cannot be stored", "error", err)
		return &coordinator.Error{Code: coordinator.InvalidRequest, Message: "The settings cannot be stored: " + err.Error() + "."}
	}
	c.node.log.Debug("settings of groups are not written", "error", err)
	return notWritten(err, after)
}

// notWritten tells what was surely not begun from what will be seen: either can be repeated at the next leader.
func notWritten(err error, after bool) *coordinator.Error {
	if errors.Is(err, raftnode.ErrNotLeader) && !after {
		return notSystemLeader
	}
	return maybeAltered
}

func settingsText(r record.Record) string {
	v, _ := r.Value.(*record.GroupConfig)
	if v == nil {
		return "none of its own"
	}
	var list []string
	for _, s := range v.Settings {
		list = append(list, s.Key+"="+cut(s.Value))
	}
	return strings.Join(list, " ")
}
