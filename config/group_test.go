package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
)

// node loads the settings of a node with what the conformance scenarios set.
func node(t testing.TB, set ...string) *Streams {
	t.Helper()
	n, _, err := Load(Sources{Set: append(append([]string{}, minimal...), set...)})
	if err != nil {
		t.Fatal(err)
	}
	return &n.Streams
}

var wideLimits = []string{"group.streams.min.session.timeout.ms=1000", "group.streams.min.heartbeat.interval.ms=100"}

func set(pairs ...string) *GroupAlteration {
	a := &GroupAlteration{Group: "g"}
	for i := 0; i < len(pairs); i += 2 {
		a.Changes = append(a.Changes, GroupChange{Name: pairs[i], Value: &pairs[i+1]})
	}
	return a
}

func op(name string, op GroupOp, value string) *GroupAlteration {
	return &GroupAlteration{Group: "g", Changes: []GroupChange{{Name: name, Op: op, Value: &value}}}
}

// What Kafka 4.4 says to the same requests is the beginning of each message; coordd adds the value and what is allowed.
func TestAlterRefusals(t *testing.T) {
	s := node(t, wideLimits...)
	const tags = "streams.rack.aware.assignment.tags"
	for _, c := range []struct {
		alteration *GroupAlteration
		code       coordinator.Code
		message    []string
	}{
		{set("streams.session.timeout.ms", "60001"), coordinator.InvalidConfig, []string{"streams.session.timeout.ms must be in the range 1000 to 60000 inclusive", "60001"}},
		{set("streams.session.timeout.ms", "999"), coordinator.InvalidConfig, []string{"streams.session.timeout.ms must be in the range 1000 to 60000 inclusive", "999"}},
		{set("streams.session.timeout.ms", "0"), coordinator.InvalidConfig, []string{"Invalid value 0 for configuration streams.session.timeout.ms: Value must be at least 1", "1000 to 60000"}},
		{set("streams.heartbeat.interval.ms", "99"), coordinator.InvalidConfig, []string{"streams.heartbeat.interval.ms must be in the range 100 to 15000 inclusive", "99"}},
		{set("streams.heartbeat.interval.ms", "15001"), coordinator.InvalidConfig, []string{"streams.heartbeat.interval.ms must be in the range 100 to 15000 inclusive", "15001"}},
		{set("streams.num.standby.replicas", "3"), coordinator.InvalidConfig, []string{"streams.num.standby.replicas must be less than or equal to 2", "3"}},
		{set("streams.num.standby.replicas", "-1"), coordinator.InvalidConfig, []string{"Invalid value -1 for configuration streams.num.standby.replicas: Value must be at least 0", "0 to 2"}},
		{set("streams.num.standby.replicas", "two"), coordinator.InvalidConfig, []string{"Invalid value two for configuration streams.num.standby.replicas: Not a number of type INT", "0 to 2"}},
		{set("streams.num.warmup.replicas", "21"), coordinator.InvalidConfig, []string{"streams.num.warmup.replicas must be less than or equal to 20", "21"}},
		{set("streams.initial.rebalance.delay.ms", "-1"), coordinator.InvalidConfig, []string{"Invalid value -1 for configuration streams.initial.rebalance.delay.ms: Value must be at least 0"}},
		{set("streams.initial.rebalance.delay.ms", "2147483648"), coordinator.InvalidConfig, []string{"Invalid value 2147483648", "Not a number of type INT", "2147483647"}},
		{set("streams.assignment.interval.ms", "15001"), coordinator.InvalidConfig, []string{"streams.assignment.interval.ms must be in the range 0 to 15000 inclusive", "15001"}},
		{set("streams.task.offset.interval.ms", "14999"), coordinator.InvalidConfig, []string{"streams.task.offset.interval.ms must be greater than or equal to 15000", "14999"}},
		{set("streams.acceptable.recovery.lag", "-1"), coordinator.InvalidConfig, []string{"Invalid value -1 for configuration streams.acceptable.recovery.lag: Value must be at least 0"}},
		{set("streams.acceptable.recovery.lag", "9223372036854775808"), coordinator.InvalidConfig, []string{"Not a number of type LONG"}},
		{set("streams.assignor.offload.enable", "yes"), coordinator.InvalidConfig, []string{"Invalid value yes for configuration streams.assignor.offload.enable: Expected value to be either true or false"}},
		{set("streams.assignor.name", "nope"), coordinator.InvalidConfig, []string{"streams.assignor.name 'nope' is not a registered task assignor. Registered assignors are: [sticky, highly_available, auto]."}},
		{set("streams.assignor.name", "Sticky"), coordinator.InvalidConfig, []string{"streams.assignor.name 'Sticky' is not a registered task assignor."}},
		{set("streams.rack.aware.assignment.strategy", "balance_subtopology"), coordinator.InvalidConfig, []string{"Invalid value balance_subtopology for configuration streams.rack.aware.assignment.strategy: String must be one of: none, min_traffic"}},
		{set(tags, "a,,b"), coordinator.InvalidConfig, []string{"Configuration 'streams.rack.aware.assignment.tags' values must not be empty", "a,,b"}},
		{set(tags, "a, b ,a"), coordinator.InvalidConfig, []string{"streams.rack.aware.assignment.tags must not contain duplicate tag keys", "a, b ,a"}},
		{set(tags, strings.Repeat("x", 4097)), coordinator.InvalidConfig, []string{tags, "4097", "4096"}},
		{set("streams.no.such.config", "1"), coordinator.InvalidConfig, []string{"Unknown group config name: streams.no.such.config"}},
		{set("streams.session.timeout.ms", "x", "streams.no.a", "1"), coordinator.InvalidConfig, []string{"Unknown group config name: streams.no.a"}},
		{set("streams.session.timeout.ms", "5000"), coordinator.InvalidConfig, []string{"streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms", "5000 and 5000"}},
		{set("streams.session.timeout.ms", "9000", "streams.heartbeat.interval.ms", "9000"), coordinator.InvalidConfig, []string{"must be greater than", "9000 and 9000"}},
		{op("streams.session.timeout.ms", GroupAppend, "1"), coordinator.InvalidConfig, []string{"Can't APPEND to key streams.session.timeout.ms because its type is not LIST."}},
		{op("streams.nope", GroupSubtract, "1"), coordinator.InvalidConfig, []string{"Can't SUBTRACT to key streams.nope because its type is not LIST."}},
		{op("streams.session.timeout.ms", 9, "50000"), coordinator.InvalidRequest, []string{"9", "streams.session.timeout.ms", "SUBTRACT"}},
		{set("streams.session.timeout.ms", "50000", "streams.session.timeout.ms", "50001"), coordinator.InvalidRequest, []string{"Error due to duplicate config keys", "streams.session.timeout.ms"}},
		{&GroupAlteration{Group: "g", Changes: []GroupChange{{Name: "streams.session.timeout.ms"}}}, coordinator.InvalidRequest, []string{"Null value not supported for : streams.session.timeout.ms"}},
		{&GroupAlteration{}, coordinator.InvalidRequest, []string{"Default group resources are not allowed."}},
	} {
		stored := GroupConfig{"streams.initial.rebalance.delay.ms": "7"}
		after, err := s.Alter(stored, c.alteration)
		if err == nil || err.Code != c.code || after != nil {
			t.Errorf("%+v: %v, %v", c.alteration, after, err)
			continue
		}
		for _, m := range c.message {
			if !strings.Contains(err.Message, m) {
				t.Errorf("%q does not say %q", err.Message, m)
			}
		}
		if diff := cmp.Diff(GroupConfig{"streams.initial.rebalance.delay.ms": "7"}, stored); diff != "" {
			t.Errorf("a refused alteration changed what is stored: %s", diff)
		}
	}
}

func TestAlterChanges(t *testing.T) {
	s := node(t, append(wideLimits, "group.streams.rack.aware.assignment.tags=zone")...)
	const tags, session, standbys = "streams.rack.aware.assignment.tags", "streams.session.timeout.ms", "streams.num.standby.replicas"
	replace := func(a *GroupAlteration) *GroupAlteration { a.Replace = true; return a }
	for _, c := range []struct {
		name       string
		stored     GroupConfig
		alteration *GroupAlteration
		want       GroupConfig
	}{
		{"set", nil, set(session, " 50000 ", standbys, "+1"), GroupConfig{session: "50000", standbys: "1"}},
		{"set leaves others", GroupConfig{session: "50000"}, set(standbys, "1"), GroupConfig{session: "50000", standbys: "1"}},
		{"delete", GroupConfig{session: "50000", standbys: "1"}, op(session, GroupDelete, ""), GroupConfig{standbys: "1"}},
		{"delete what is not set, or no setting", GroupConfig{session: "50000"}, op("streams.nope", GroupDelete, ""), GroupConfig{session: "50000"}},
		{"append to the node's", nil, op(tags, GroupAppend, "rack"), GroupConfig{tags: "zone,rack"}},
		{"append to the group's", GroupConfig{tags: "a"}, op(tags, GroupAppend, "b, a"), GroupConfig{tags: "a,b"}},
		{"subtract", GroupConfig{tags: "a,b,c"}, op(tags, GroupSubtract, "c,a,x"), GroupConfig{tags: "b"}},
		{"subtract all", nil, op(tags, GroupSubtract, "zone"), GroupConfig{tags: ""}},
		{"an empty list", nil, set(tags, ""), GroupConfig{tags: ""}},
		{"another assignor", nil, set("streams.assignor.name", " highly_available "), GroupConfig{"streams.assignor.name": "highly_available"}},
		{"booleans in one spelling", nil, set("streams.assignor.offload.enable", "FALSE"), GroupConfig{"streams.assignor.offload.enable": "false"}},
		{"strategies in one spelling", nil, set("streams.rack.aware.assignment.strategy", " MIN_TRAFFIC"), GroupConfig{"streams.rack.aware.assignment.strategy": "min_traffic"}},
		{"replace", GroupConfig{session: "50000", standbys: "1"}, replace(set(standbys, "2")), GroupConfig{standbys: "2"}},
		{"replace by nothing", GroupConfig{session: "50000"}, replace(set()), GroupConfig{}},
		{"what is outside by now hinders nobody", GroupConfig{standbys: "7"}, set(session, "50000"), GroupConfig{standbys: "7", session: "50000"}},
		{"nor does a setting of a later release", GroupConfig{"streams.later": "x"}, set(session, "50000"), GroupConfig{"streams.later": "x", session: "50000"}},
	} {
		after, err := s.Alter(c.stored, c.alteration)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, after); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestEffective(t *testing.T) {
	s := node(t)
	if g, clamped := s.Effective(nil); g != &s.Defaults || clamped != nil {
		t.Error("a group without settings does not use the node's")
	}
	g, clamped := s.Effective(GroupConfig{
		"streams.session.timeout.ms": "1000", "streams.heartbeat.interval.ms": "20000", "streams.num.standby.replicas": "3",
		"streams.num.warmup.replicas": "4", "streams.assignor.name": "gone", "streams.rack.aware.assignment.tags": "a,b",
		"streams.acceptable.recovery.lag": "9000000000", "streams.task.offset.interval.ms": "1", "streams.initial.rebalance.delay.ms": "0",
		"streams.assignment.interval.ms": "15001", "streams.assignor.offload.enable": "false", "streams.later": "x",
		"streams.rack.aware.assignment.strategy": "min_traffic",
	})
	want := s.Defaults
	want.SessionTimeoutMs, want.HeartbeatIntervalMs, want.NumStandbyReplicas, want.NumWarmupReplicas = 45000, 15000, 2, 4
	want.RackAwareTags, want.AcceptableRecoveryLag, want.TaskOffsetIntervalMs = []string{"a", "b"}, 9_000_000_000, 15000
	want.RackAwareStrategy = coordinator.RackStrategyMinTraffic
	want.InitialRebalanceDelayMs, want.AssignmentIntervalMs, want.AssignorOffload = 0, 15000, false
	if diff := cmp.Diff(&want, g); diff != "" {
		t.Error(diff)
	}
	wantClamped := []Clamped{
		{"streams.session.timeout.ms", "1000", "45000"}, {"streams.heartbeat.interval.ms", "20000", "15000"},
		{"streams.num.standby.replicas", "3", "2"}, {"streams.assignment.interval.ms", "15001", "15000"},
		{"streams.task.offset.interval.ms", "1", "15000"}, {"streams.assignor.name", "gone", "sticky"},
	}
	if diff := cmp.Diff(wantClamped, clamped); diff != "" {
		t.Error(diff)
	}
}

// The names, sources and synonyms are those that Kafka 4.4 tells of the same settings.
func TestDescribe(t *testing.T) {
	s := node(t, "group.streams.assignment.interval.ms=0", "group.streams.assignor.offload.enable=false")
	entries := s.Describe(GroupConfig{"streams.num.standby.replicas": "2", "streams.acceptable.recovery.lag": "3"})
	got := map[string][]GroupValue{}
	types := map[string]GroupType{}
	for _, e := range entries {
		got[e.Name], types[e.Name] = e.Sources, e.Type
		source, _, _ := strings.Cut(e.Sources[0].Value, ",") // of the node's assignors the first is the default
		if e.Value != source || e.Help == "" {
			t.Errorf("%+v", e)
		}
	}
	builtin := func(name, value string) []GroupValue { return []GroupValue{{name, value, SourceDefault}} }
	want := map[string][]GroupValue{
		"streams.session.timeout.ms":         builtin("group.streams.session.timeout.ms", "45000"),
		"streams.heartbeat.interval.ms":      builtin("group.streams.heartbeat.interval.ms", "5000"),
		"streams.initial.rebalance.delay.ms": builtin("group.streams.initial.rebalance.delay.ms", "3000"),
		"streams.rack.aware.assignment.tags": builtin("group.streams.rack.aware.assignment.tags", ""),
		"streams.assignor.name":              builtin("group.streams.assignors", "sticky,highly_available,auto"),
		"streams.assignment.interval.ms": {
			{"group.streams.assignment.interval.ms", "0", SourceNode}, {"group.streams.assignment.interval.ms", "1000", SourceDefault}},
		"streams.assignor.offload.enable": {
			{"group.streams.assignor.offload.enable", "false", SourceNode}, {"group.streams.assignor.offload.enable", "true", SourceDefault}},
		"streams.num.standby.replicas": {
			{"streams.num.standby.replicas", "2", SourceGroup}, {"group.streams.num.standby.replicas", "0", SourceDefault}},
		"streams.acceptable.recovery.lag": {
			{"streams.acceptable.recovery.lag", "3", SourceGroup}, {"group.streams.acceptable.recovery.lag", "10000", SourceDefault}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantTypes := map[string]GroupType{
		"streams.session.timeout.ms": GroupInt, "streams.heartbeat.interval.ms": GroupInt, "streams.initial.rebalance.delay.ms": GroupInt,
		"streams.assignor.offload.enable": GroupBool, "streams.rack.aware.assignment.tags": GroupList, "streams.assignor.name": GroupString,
		"streams.assignment.interval.ms": GroupInt, "streams.num.standby.replicas": GroupInt, "streams.acceptable.recovery.lag": GroupLong,
	}
	if diff := cmp.Diff(wantTypes, types); diff != "" {
		t.Error(diff)
	}
}

// Every setting of groups has a setting of the node that stands in, with the same default.
func TestGroupSettingsHaveNodeSettings(t *testing.T) {
	s := node(t)
	for _, g := range GroupSettings() {
		broker, ok := lookup(g.Broker)
		standsIn, _, _ := strings.Cut(broker.Default, ",") // of a list of assignors the first
		if !ok || g.format(&s.Defaults) != standsIn {
			t.Errorf("%s: node setting %s, default %q", g.Name, g.Broker, broker.Default)
		}
	}
}

// What was accepted is in normal form, counts unclamped, and is accepted again as it is; what was refused changed nothing.
func TestAlterProperties(t *testing.T) {
	s := node(t, wideLimits...)
	var names []string
	for _, g := range GroupSettings() {
		names = append(names, g.Name)
	}
	names = append(names, "streams.nope", "")
	values := rapid.OneOf(rapid.SampledFrom([]string{"", "0", "1", "2", "6000", "50000", "true", "sticky", "auto", "a,b", "a, a", "-1"}), rapid.String())
	rapid.Check(t, alterAtRandom(s, names, values))
}

// FuzzAlter looks for texts that break the same.
func FuzzAlter(f *testing.F) {
	s := node(f, wideLimits...)
	var names []string
	for _, g := range GroupSettings() {
		names = append(names, g.Name)
	}
	f.Fuzz(rapid.MakeFuzz(alterAtRandom(s, names, rapid.String())))
}

func alterAtRandom(s *Streams, names []string, values *rapid.Generator[string]) func(*rapid.T) {
	return func(t *rapid.T) {
		config := GroupConfig{}
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			a := &GroupAlteration{Group: "g", Replace: rapid.Bool().Draw(t, "replace")}
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				value := values.Draw(t, "value")
				a.Changes = append(a.Changes, GroupChange{
					Name: rapid.SampledFrom(names).Draw(t, "name"), Op: GroupOp(rapid.IntRange(0, 3).Draw(t, "op")), Value: &value,
				})
			}
			after, err := s.Alter(config, a)
			if err != nil {
				if err.Message == "" || err.Code != coordinator.InvalidConfig && err.Code != coordinator.InvalidRequest {
					t.Fatalf("%v", err)
				}
				continue
			}
			config = after
			effective, clamped := s.Effective(config)
			if clamped != nil {
				t.Fatalf("accepted and clamped: %v", clamped)
			}
			if effective.SessionTimeoutMs <= effective.HeartbeatIntervalMs {
				t.Fatalf("session timeout %d, heartbeat interval %d", effective.SessionTimeoutMs, effective.HeartbeatIntervalMs)
			}
			again := &GroupAlteration{Group: "g", Replace: true}
			for name, value := range config {
				again.Changes = append(again.Changes, GroupChange{Name: name, Value: &value})
			}
			same, err := s.Alter(nil, again)
			if err != nil {
				t.Fatalf("%v: %v", config, err)
			}
			if diff := cmp.Diff(config, same); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}
