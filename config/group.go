package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/coordinator"
)

// GroupPrefix begins the names of all settings that a streams group may have of its own.
const GroupPrefix = "streams."

// GroupType is the type of a group's setting.
type GroupType uint8

// Types of settings, as Kafka's ConfigDef names them.
const (
	GroupInt GroupType = iota
	GroupLong
	GroupBool
	GroupString
	GroupList
)

var groupTypeNames = [...]string{"INT", "LONG", "BOOLEAN", "STRING", "LIST"}

// String is Kafka's name of the type.
func (t GroupType) String() string { return groupTypeNames[t] }

// GroupSetting describes a setting that a group may have of its own (resource type GROUP; Kafka's GroupConfig). A group
// that has none uses the node's setting of the name Broker.
type GroupSetting struct {
	// Name is the group's name of the setting, such as "streams.session.timeout.ms".
	Name string
	// Broker is the node's setting that stands in; "group." and Name unless the table says otherwise.
	Broker string
	// Help is one sentence for people.
	Help string
	// Internal settings are listed only where the group or the node sets them, as Kafka does with settings of unfinished
	// features.
	Internal bool

	// One of these is the setting's place in the effective settings, and gives it its type.
	int  func(*coordinator.GroupSettings) *int32
	long func(*coordinator.GroupSettings) *int64
	flag func(*coordinator.GroupSettings) *bool
	text func(*coordinator.GroupSettings) *string
	list func(*coordinator.GroupSettings) *[]string

	// least is the smallest number that makes sense at all; limits are what the node allows, where that is less, or noLimit.
	least  int64
	limits func(*Streams) (low, high int64)
	// allowed are the texts that there are; nil for the name of an assignor.
	allowed []string
}

const noLimit = -1

// topologyPolicies are the values of streams.topology.update.policy.
var topologyPolicies = []string{"epoch", "latest"}

// rackStrategies are the values of streams.rack.aware.assignment.strategy.
var rackStrategies = []string{coordinator.RackStrategyNone, coordinator.RackStrategyMinTraffic}

// groupSettings is the whole table; a further setting is one entry.
var groupSettings = []GroupSetting{
	{Name: "streams.session.timeout.ms", Help: "A member that is silent for longer is removed.", least: 1,
		int:    func(g *coordinator.GroupSettings) *int32 { return &g.SessionTimeoutMs },
		limits: func(s *Streams) (int64, int64) { return int64(s.MinSessionTimeoutMs), int64(s.MaxSessionTimeoutMs) }},
	{Name: "streams.heartbeat.interval.ms", Help: "How often members send heartbeats.", least: 1,
		int: func(g *coordinator.GroupSettings) *int32 { return &g.HeartbeatIntervalMs },
		limits: func(s *Streams) (int64, int64) {
			return int64(s.MinHeartbeatIntervalMs), int64(s.MaxHeartbeatIntervalMs)
		}},
	{Name: "streams.num.standby.replicas", Help: "Standby copies of each stateful task.",
		int:    func(g *coordinator.GroupSettings) *int32 { return &g.NumStandbyReplicas },
		limits: func(s *Streams) (int64, int64) { return noLimit, int64(s.MaxStandbyReplicas) }},
	{Name: "streams.initial.rebalance.delay.ms", Help: "How long the first assignment of an empty group waits for more members.",
		int: func(g *coordinator.GroupSettings) *int32 { return &g.InitialRebalanceDelayMs }},
	{Name: "streams.assignment.interval.ms", Help: "Least time between two assignments of the group.",
		int: func(g *coordinator.GroupSettings) *int32 { return &g.AssignmentIntervalMs },
		limits: func(s *Streams) (int64, int64) {
			return int64(s.MinAssignmentIntervalMs), int64(s.MaxAssignmentIntervalMs)
		}},
	{Name: "streams.assignor.offload.enable", Help: "Whether a large assignment is computed beside the group's other work.", Internal: true,
		flag: func(g *coordinator.GroupSettings) *bool { return &g.AssignorOffload }},
	{Name: "streams.task.offset.interval.ms", Help: "How often members report positions of their tasks.", Internal: true, least: 1,
		int:    func(g *coordinator.GroupSettings) *int32 { return &g.TaskOffsetIntervalMs },
		limits: func(s *Streams) (int64, int64) { return int64(s.MinTaskOffsetIntervalMs), noLimit }},
	{Name: "streams.num.warmup.replicas", Help: "Warm-up copies that the group may have at once.", Internal: true,
		int:    func(g *coordinator.GroupSettings) *int32 { return &g.NumWarmupReplicas },
		limits: func(s *Streams) (int64, int64) { return noLimit, int64(s.MaxWarmupReplicas) }},
	{Name: "streams.disconnect.timeout.ms", Help: "A member whose connection ended without a leave is removed after this time, two heartbeat intervals at least; 0: after its session timeout.", Internal: true,
		int: func(g *coordinator.GroupSettings) *int32 { return &g.DisconnectTimeoutMs }},
	{Name: "streams.rack.aware.assignment.tags", Help: "Client tags over which standbys are spread.",
		list: func(g *coordinator.GroupSettings) *[]string { return &g.RackAwareTags }},
	{Name: "streams.rack.aware.assignment.strategy", Help: "Whether active tasks prefer members in the rack of their partitions' leaders: none, or min_traffic, as far as the balance allows it.", Internal: true, allowed: rackStrategies,
		text: func(g *coordinator.GroupSettings) *string { return &g.RackAwareStrategy }},
	{Name: "streams.acceptable.recovery.lag", Help: "A copy of a task that is behind by no more records counts as caught up.", Internal: true,
		long: func(g *coordinator.GroupSettings) *int64 { return &g.AcceptableRecoveryLag }},
	{Name: "streams.assignor.name", Broker: "group.streams.assignors", Help: "The assignor of the group, one of the node's group.streams.assignors; by default the first of them.",
		text: func(g *coordinator.GroupSettings) *string { return &g.AssignorName }},
	{Name: "streams.topology.update.policy", Help: "What starts a topology update: epoch, that a member joins with the next topology epoch; latest, that it joins with a topology that is new to the group.", Internal: true, allowed: topologyPolicies,
		text: func(g *coordinator.GroupSettings) *string { return &g.TopologyUpdatePolicy }},
	{Name: "streams.topology.fence.older", Help: "Whether new members that come with an earlier topology are refused.", Internal: true,
		flag: func(g *coordinator.GroupSettings) *bool { return &g.TopologyFenceOlder }},
}

// GroupSettings lists every setting of groups in the order in which it is documented.
func GroupSettings() []GroupSetting {
	list := slices.Clone(groupSettings)
	for i := range list {
		list[i].Broker = list[i].broker()
	}
	return list
}

func groupSetting(name string) *GroupSetting {
	i := slices.IndexFunc(groupSettings, func(s GroupSetting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &groupSettings[i]
}

func (g *GroupSetting) broker() string {
	if g.Broker != "" {
		return g.Broker
	}
	return "group." + g.Name
}

// Type is the type of the setting.
func (g *GroupSetting) Type() GroupType {
	switch {
	case g.int != nil:
		return GroupInt
	case g.long != nil:
		return GroupLong
	case g.flag != nil:
		return GroupBool
	case g.text != nil:
		return GroupString
	}
	return GroupList
}

// bounds are the numbers that the node allows.
func (g *GroupSetting) bounds(s *Streams) (low, high int64) {
	low, high = g.least, math.MaxInt32
	if g.long != nil {
		high = math.MaxInt64
	}
	if g.limits == nil {
		return low, high
	}
	nodeLow, nodeHigh := g.limits(s)
	if nodeHigh != noLimit {
		high = nodeHigh
	}
	return max(low, nodeLow), high
}

// format is the setting's text in effective settings.
func (g *GroupSetting) format(in *coordinator.GroupSettings) string {
	switch g.Type() {
	case GroupInt:
		return strconv.FormatInt(int64(*g.int(in)), 10)
	case GroupLong:
		return strconv.FormatInt(*g.long(in), 10)
	case GroupBool:
		return strconv.FormatBool(*g.flag(in))
	case GroupString:
		return *g.text(in)
	}
	return strings.Join(*g.list(in), ",")
}

// apply puts a text that [GroupSetting.normal] made into effective settings. Numbers that the node does not allow (any
// more) are moved to the nearest that it does, and so is an assignor that is not registered; it reports whether the text
// counts as it is.
func (g *GroupSetting) apply(s *Streams, to *coordinator.GroupSettings, text string) bool {
	switch g.Type() {
	case GroupInt, GroupLong:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false
		}
		low, high := g.bounds(s)
		allowed := min(max(n, low), high)
		if g.int != nil {
			*g.int(to) = int32(allowed)
		} else {
			*g.long(to) = allowed
		}
		return n == allowed
	case GroupBool:
		*g.flag(to) = text == "true"
	case GroupString:
		if !slices.Contains(g.texts(s), text) {
			return false
		}
		*g.text(to) = text
	default:
		*g.list(to) = parts(text)
	}
	return true
}

// texts are the texts that a setting of type GroupString may have.
func (g *GroupSetting) texts(s *Streams) []string {
	if g.allowed != nil {
		return g.allowed
	}
	return s.Assignors
}

// parts are the items of a list in its normal form.
func parts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// maxGroupValue bounds the text of a setting, in bytes: settings are in every node's memory.
const maxGroupValue = 4096

// normal checks a text against the type and the node's limits, and returns it in its one normal form.
func (g *GroupSetting) normal(s *Streams, text string) (string, *coordinator.Error) {
	if len(text) > maxGroupValue {
		return "", coordinator.Errorf(coordinator.InvalidConfig, "%s is %d bytes long, allowed are %d.", g.Name, len(text), maxGroupValue)
	}
	text = strings.TrimSpace(text)
	switch g.Type() {
	case GroupInt, GroupLong:
		return g.normalNumber(s, text)
	case GroupBool:
		if lower := strings.ToLower(text); lower == "true" || lower == "false" {
			return lower, nil
		}
		return "", g.invalid(text, "Expected value to be either true or false")
	case GroupString:
		if g.allowed != nil {
			if lower := strings.ToLower(text); slices.Contains(g.allowed, lower) {
				return lower, nil
			}
			return "", g.invalid(text, "String must be one of: "+strings.Join(g.allowed, ", "))
		}
		if !slices.Contains(s.Assignors, text) {
			return "", coordinator.Errorf(coordinator.InvalidConfig, "%s '%s' is not a registered task assignor. Registered assignors are: [%s].",
				g.Name, text, strings.Join(s.Assignors, ", "))
		}
		return text, nil
	}
	return g.normalList(text)
}

func (g *GroupSetting) normalNumber(s *Streams, text string) (string, *coordinator.Error) {
	low, high := g.bounds(s)
	size := 32
	if g.long != nil {
		size = 64
	}
	n, err := strconv.ParseInt(text, 10, size)
	switch {
	case err != nil:
		return "", g.invalid(text, fmt.Sprintf("Not a number of type %s; allowed are %d to %d", g.Type(), low, high))
	case n < g.least:
		return "", g.invalid(text, fmt.Sprintf("Value must be at least %d; allowed are %d to %d", g.least, low, high))
	case n >= low && n <= high:
		return strconv.FormatInt(n, 10), nil
	}
	switch nodeLow, nodeHigh := g.limits(s); {
	case nodeHigh == noLimit:
		return "", coordinator.Errorf(coordinator.InvalidConfig, "%s must be greater than or equal to %d, but is %d.", g.Name, low, n)
	case nodeLow == noLimit:
		return "", coordinator.Errorf(coordinator.InvalidConfig, "%s must be less than or equal to %d, but is %d.", g.Name, high, n)
	}
	return "", coordinator.Errorf(coordinator.InvalidConfig, "%s must be in the range %d to %d inclusive. It would be %d.", g.Name, low, high, n)
}

func (g *GroupSetting) normalList(text string) (string, *coordinator.Error) {
	if text == "" {
		return "", nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
		switch {
		case items[i] == "":
			return "", coordinator.Errorf(coordinator.InvalidConfig, "Configuration '%s' values must not be empty. One of %q is.", g.Name, text)
		case slices.Contains(items[:i], items[i]):
			return "", coordinator.Errorf(coordinator.InvalidConfig, "%s must not contain duplicate tag keys. %q stands twice in %q.", g.Name, items[i], text)
		}
	}
	return strings.Join(items, ","), nil
}

func (g *GroupSetting) invalid(text, why string) *coordinator.Error {
	return coordinator.Errorf(coordinator.InvalidConfig, "Invalid value %s for configuration %s: %s", text, g.Name, why)
}
