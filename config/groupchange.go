package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
)

// GroupConfig holds the settings that a group has of its own, by name, as texts.
type GroupConfig map[string]string

// GroupOp is what happens to a setting (AlterConfigOp; the numbers are the protocol's).
type GroupOp int8

// Operations on a setting. Append and Subtract are for lists.
const (
	GroupSet GroupOp = iota
	GroupDelete
	GroupAppend
	GroupSubtract
)

var groupOpNames = [...]string{"SET", "DELETE", "APPEND", "SUBTRACT"}

// GroupChange is a wish about one setting. Value counts unless the setting is deleted.
type GroupChange struct {
	Name  string
	Op    GroupOp
	Value *string
}

// GroupAlteration is a wish about the settings of one group.
type GroupAlteration struct {
	Group string
	// Replace lets only the settings of this request remain (AlterConfigs); else the others stay.
	Replace bool
	Changes []GroupChange
}

// Alter returns what a group's settings are after an alteration. Either all changes are made or none. What was stored
// before is not judged again: limits may have changed since. The errors are INVALID_CONFIG for names and values, and
// INVALID_REQUEST for what is no alteration at all.
func (s *Streams) Alter(stored GroupConfig, a *GroupAlteration) (GroupConfig, *coordinator.Error) {
	if a.Group == "" {
		return nil, coordinator.Errorf(coordinator.InvalidRequest, "Default group resources are not allowed.")
	}
	seen := make(map[string]bool, len(a.Changes))
	for i := range a.Changes {
		c := &a.Changes[i]
		switch {
		case seen[c.Name]:
			return nil, coordinator.Errorf(coordinator.InvalidRequest, "Error due to duplicate config keys: %s stands twice.", c.Name)
		case c.Op < GroupSet || c.Op > GroupSubtract:
			return nil, coordinator.Errorf(coordinator.InvalidRequest, "Unknown operation %d on %s; allowed are 0 (SET), 1 (DELETE), 2 (APPEND) and 3 (SUBTRACT).", c.Op, c.Name)
		case c.Value == nil && c.Op != GroupDelete:
			return nil, coordinator.Errorf(coordinator.InvalidRequest, "Null value not supported for : %s", c.Name)
		}
		seen[c.Name] = true
	}
	after := GroupConfig{}
	if !a.Replace {
		maps.Copy(after, stored)
	}
	if err := s.change(after, a.Changes); err != nil {
		return nil, err
	}
	if seen[sessionTimeout] || seen[heartbeatInterval] || a.Replace {
		if err := s.checkSession(after); err != nil {
			return nil, err
		}
	}
	return after, nil
}

const (
	sessionTimeout    = "streams.session.timeout.ms"
	heartbeatInterval = "streams.heartbeat.interval.ms"
)

// change makes the changes. Of several errors the one is told that Kafka tells: unknown names come before bad values.
func (s *Streams) change(config GroupConfig, changes []GroupChange) *coordinator.Error {
	for i := range changes {
		c := &changes[i]
		g := groupSetting(c.Name)
		if (c.Op == GroupAppend || c.Op == GroupSubtract) && (g == nil || g.Type() != GroupList) {
			return coordinator.Errorf(coordinator.InvalidConfig, "Can't %s to key %s because its type is not LIST.", groupOpNames[c.Op], c.Name)
		}
		if g == nil && c.Op == GroupSet {
			return coordinator.Errorf(coordinator.InvalidConfig, "Unknown group config name: %s", c.Name)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Op == GroupDelete {
			delete(config, c.Name)
			continue
		}
		g := groupSetting(c.Name)
		text, err := g.normal(s, *c.Value)
		if err != nil {
			return err
		}
		if c.Op == GroupAppend || c.Op == GroupSubtract {
			if text, err = g.normal(s, s.listChanged(config, g, c.Op, parts(text))); err != nil {
				return err
			}
		}
		config[c.Name] = text
	}
	return nil
}

// listChanged adds items to a list, or takes them out of it. A group without a list of its own starts from the node's.
func (s *Streams) listChanged(config GroupConfig, g *GroupSetting, op GroupOp, items []string) string {
	text, own := config[g.Name]
	if !own {
		text = g.format(&s.Defaults)
	}
	list := slices.Clone(parts(text))
	for _, item := range items {
		i := slices.Index(list, item)
		switch {
		case op == GroupAppend && i < 0:
			list = append(list, item)
		case op == GroupSubtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	return strings.Join(list, ",")
}

// checkSession refuses a session timeout that a member could not keep by its heartbeats.
func (s *Streams) checkSession(config GroupConfig) *coordinator.Error {
	_, ownSession := config[sessionTimeout]
	_, ownHeartbeat := config[heartbeatInterval]
	if !ownSession && !ownHeartbeat {
		return nil
	}
	if g, _ := s.Effective(config); g.SessionTimeoutMs <= g.HeartbeatIntervalMs {
		return coordinator.Errorf(coordinator.InvalidConfig, "%s must be greater than %s, but they would be %d and %d.",
			sessionTimeout, heartbeatInterval, g.SessionTimeoutMs, g.HeartbeatIntervalMs)
	}
	return nil
}

// Clamped is a setting of a group that cannot count as it is stored, because the node's limits have changed.
type Clamped struct{ Name, Stored, Effective string }

// Effective are the settings that count for a group: its own within the node's limits, else the node's. Without any of its
// own it is the node's Defaults themselves.
func (s *Streams) Effective(config GroupConfig) (*coordinator.GroupSettings, []Clamped) {
	if len(config) == 0 {
		return &s.Defaults, nil
	}
	effective := s.Defaults
	var clamped []Clamped
	for i := range groupSettings {
		g := &groupSettings[i]
		if text, own := config[g.Name]; own && !g.apply(s, &effective, text) {
			clamped = append(clamped, Clamped{Name: g.Name, Stored: text, Effective: g.format(&effective)})
		}
	}
	return &effective, clamped
}

// GroupSource says where the value of a setting comes from.
type GroupSource uint8

// Sources, the strongest first.
const (
	SourceGroup   GroupSource = iota // the group's own
	SourceNode                       // the node's configuration, where it says something other than the default
	SourceDefault                    // built in
)

// GroupValue is a value of a setting at one of its sources.
type GroupValue struct {
	Name, Value string
	Source      GroupSource
}

// GroupEntry is one setting of a group as it is shown to people.
type GroupEntry struct {
	Name, Help string
	Type       GroupType
	// Value is what counts, or would if the node's limits allowed it.
	Value string
	// Sources are all that have a value, the one that counts first.
	Sources []GroupValue
}

// Describe lists the settings of a group: all but the internal ones that neither it nor the node sets.
func (s *Streams) Describe(config GroupConfig) []GroupEntry {
	entries := make([]GroupEntry, 0, len(groupSettings))
	for i := range groupSettings {
		g := &groupSettings[i]
		own, set := config[g.Name]
		e := GroupEntry{Name: g.Name, Help: g.Help, Type: g.Type(), Value: g.format(&s.Defaults)}
		node := e.Value
		if g.Type() == GroupString && g.allowed == nil {
			node = strings.Join(s.Assignors, ",")
		}
		builtin, known := lookup(g.broker())
		if g.Internal && !set && known && node == builtin.Default {
			continue
		}
		if set {
			e.Value = own
			e.Sources = append(e.Sources, GroupValue{g.Name, own, SourceGroup})
		}
		if !known || node != builtin.Default {
			e.Sources = append(e.Sources, GroupValue{g.broker(), node, SourceNode})
		}
		if known {
			e.Sources = append(e.Sources, GroupValue{g.broker(), builtin.Default, SourceDefault})
		}
		entries = append(entries, e)
	}
	return entries
}
