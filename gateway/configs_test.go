package gateway

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
)

// fakeConfigs are settings of groups that only the leader of the system shard answers for.
type fakeConfigs struct {
	w     *world
	self  int32
	store *configStore
}

type configStore struct {
	mu      sync.Mutex
	streams config.Streams
	groups  map[string]config.GroupConfig
	altered int
	awaited map[int32]uint64 // by node, the last position
}

func (f fakeConfigs) leads() *coordinator.Error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.leaders[SystemShard] != f.self {
		return &coordinator.Error{Code: coordinator.NotCoordinator}
	}
	return nil
}

func (f fakeConfigs) Describe(groups []string, done func([][]config.GroupEntry, *coordinator.Error)) {
	if err := f.leads(); err != nil {
		done(nil, err)
		return
	}
	f.store.mu.Lock()
	var entries [][]config.GroupEntry
	for _, g := range groups {
		entries = append(entries, f.store.streams.Describe(f.store.groups[g]))
	}
	f.store.mu.Unlock()
	done(entries, nil)
}

func (f fakeConfigs) Alter(list []config.GroupAlteration, validateOnly bool, done func([]*coordinator.Error, uint64, *coordinator.Error)) {
	if err := f.leads(); err != nil {
		done(nil, 0, err)
		return
	}
	f.store.mu.Lock()
	refusals := make([]*coordinator.Error, len(list))
	for i := range list {
		after, err := f.store.streams.Alter(f.store.groups[list[i].Group], &list[i])
		if refusals[i] = err; err == nil && !validateOnly {
			f.store.groups[list[i].Group] = after
			f.store.altered++
		}
	}
	position := uint64(f.store.altered)
	f.store.mu.Unlock()
	done(refusals, position, nil)
}

func (f fakeConfigs) Await(position uint64, done func()) {
	f.store.mu.Lock()
	f.store.awaited[f.self] = position
	f.store.mu.Unlock()
	done()
}

func (f fakeConfigs) List(done func([]string, *coordinator.Error)) {
	if err := f.leads(); err != nil {
		done(nil, err)
		return
	}
	f.store.mu.Lock()
	var groups []string
	for g := range f.store.groups {
		groups = append(groups, g)
	}
	f.store.mu.Unlock()
	done(groups, nil)
}

// newConfigWorld has settings of groups, which node 2 leads; node 1 leads the groups.
func newConfigWorld(t testing.TB, nodes int) (*world, *configStore) {
	t.Helper()
	n, _, err := config.Load(config.Sources{Set: []string{"data.dir=/x", "upstream.bootstrap.servers=127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	store := &configStore{streams: n.Streams, groups: map[string]config.GroupConfig{}, awaited: map[int32]uint64{}}
	w := newWorld(t, worldConfig{nodes: nodes, brokers: 1, topics: []string{"t"}, config: func(c *Config) {
		f := c.Coordinators.(fakeCoords)
		c.GroupConfigs = fakeConfigs{f.w, f.self, store}
	}})
	w.leadSystem(2)
	return w, store
}

func (w *world) leadSystem(node int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaders[SystemShard] = node
	close(w.changed)
	w.changed = make(chan struct{})
}

// incremental is a request in which each resource is a type, a name, and names with values; a value of "-" deletes.
func incremental(validateOnly bool, resources ...[]string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	for _, r := range resources {
		typ, _ := strconv.Atoi(r[0])
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceType(typ), r[1]
		for i := 2; i < len(r); i += 2 {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			if c.Name = r[i]; r[i+1] == "-" {
				c.Op = kmsg.IncrementalAlterConfigOpDelete
			} else {
				c.Value = &r[i+1]
			}
			res.Configs = append(res.Configs, c)
		}
		req.Resources = append(req.Resources, res)
	}
	return req
}

func codesOf(resp *kmsg.IncrementalAlterConfigsResponse) (codes []int16) {
	for _, r := range resp.Resources {
		codes = append(codes, r.ErrorCode)
	}
	return codes
}

// described asks for all settings of groups, and returns the values that are the groups' own.
func described(w *wire, groups ...string) []map[string]string {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, g := range groups {
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, g
		req.Resources = append(req.Resources, res)
	}
	var list []map[string]string
	for _, r := range do[*kmsg.DescribeConfigsResponse](w, req, 4).Resources {
		own := map[string]string{}
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceGroupConfig {
				own[c.Name] = *c.Value
			}
		}
		if r.ErrorCode != 0 {
			own["error"] = strconv.Itoa(int(r.ErrorCode))
		}
		list = append(list, own)
	}
	return list
}

const group = "32" // the resource type

// Each part of a request goes to whose it is, and the answer has the order of the request.
func TestConfigsOfAllKindsInOneRequest(t *testing.T) {
	w, store := newConfigWorld(t, 3)
	c := dialPort(t, w.nodes[2].addr())
	node := strconv.Itoa(int(w.nodes[2].g.clientID(w.nodes[2].id)))
	resp := do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false,
		[]string{group, "g1", "streams.num.standby.replicas", "1", "consumer.session.timeout.ms", "50000"},
		[]string{"2", "t", "retention.ms", "100000"},
		[]string{group, "g2", "streams.num.standby.replicas", "9"},
		[]string{"4", node, "log.retention.ms", "1"},
		[]string{group, "", "streams.num.standby.replicas", "1"},
		[]string{group, "g3", "share.isolation.level", "read_committed"},
		[]string{group, "g4", "streams.nope", "1"},
		[]string{group, "twice", "streams.num.standby.replicas", "1"},
		[]string{group, "twice", "streams.num.standby.replicas", "1"},
		[]string{"4", "", "log.retention.ms", "1", "group.streams.assignment.interval.ms", "1"},
		[]string{"4", "0", "group.streams.assignment.interval.ms", "-"},
	), 1)
	if diff := cmp.Diff([]int16{0, 0, 40, 42, 42, 0, 40, 42, 42, 42, 42}, codesOf(resp)); diff != "" {
		t.Error(diff)
	}
	for i, name := range []string{"g1", "t", "g2", node, "", "g3", "g4", "twice", "twice", "", "0"} {
		if resp.Resources[i].ResourceName != name {
			t.Errorf("result %d is about %q, want %q", i, resp.Resources[i].ResourceName, name)
		}
	}
	for _, i := range []int{3, 9, 10} {
		if m := resp.Resources[i].ErrorMessage; m == nil || !strings.Contains(*m, "restart") {
			t.Errorf("result %d does not say what to do: %v", i, m)
		}
	}
	want := []map[string]string{
		{"streams.num.standby.replicas": "1", "consumer.session.timeout.ms": "50000"}, {}, {"share.isolation.level": "read_committed"}, {"error": "42"}, {},
	}
	if diff := cmp.Diff(want, described(c, "g1", "g2", "g3", "", "twice")); diff != "" {
		t.Error(diff)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	if diff := cmp.Diff(map[int32]uint64{1: 1}, store.awaited); diff != "" {
		t.Errorf("the acknowledgement did not wait for the group's coordinator: %s", diff)
	}
}

func TestDescribeConfigsOfAllKinds(t *testing.T) {
	w, _ := newConfigWorld(t, 2)
	c := dialPort(t, w.nodes[0].addr())
	node := strconv.Itoa(int(w.nodes[0].g.clientID(w.nodes[0].id)))
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	for _, r := range []struct {
		typ  kmsg.ConfigResourceType
		name string
		keys []string
	}{
		{kmsg.ConfigResourceTypeGroupConfig, "g", []string{"streams.session.timeout.ms", "consumer.session.timeout.ms"}},
		{kmsg.ConfigResourceTypeTopic, "t", []string{"retention.ms"}},
		{kmsg.ConfigResourceTypeBroker, node, nil},
		{kmsg.ConfigResourceTypeTopic, "absent", nil},
		{kmsg.ConfigResourceTypeGroupConfig, "g", []string{"streams.nope"}},
	} {
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName, res.ConfigNames = r.typ, r.name, r.keys
		req.Resources = append(req.Resources, res)
	}
	resp := do[*kmsg.DescribeConfigsResponse](c, req, 4)
	var got [][]string
	for _, r := range resp.Resources {
		line := []string{r.ResourceName, strconv.Itoa(int(r.ErrorCode))}
		for _, c := range r.Configs {
			line = append(line, c.Name)
		}
		got = append(got, line)
	}
	want := [][]string{
		{"g", "0", "streams.session.timeout.ms", "consumer.session.timeout.ms"}, {"t", "0", "retention.ms"}, {node, "0"}, {"absent", "3"}, {"g", "0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	s := resp.Resources[0].Configs[0]
	if *s.Value != "45000" || s.Source != kmsg.ConfigSourceDefaultConfig || s.ConfigType != kmsg.ConfigTypeInt || s.Documentation == nil || s.ReadOnly || s.IsSensitive ||
		len(s.ConfigSynonyms) != 1 || s.ConfigSynonyms[0].Name != "group.streams.session.timeout.ms" {
		t.Errorf("%+v", s)
	}
}

// A bad value among coordd's settings leaves those of the upstream as they were, and the other way round.
func TestAlterConfigsOfBothSidesOrNone(t *testing.T) {
	w, store := newConfigWorld(t, 2)
	c := dialPort(t, w.nodes[0].addr())
	for _, r := range [][]string{
		{group, "g", "streams.num.standby.replicas", "9", "consumer.session.timeout.ms", "50000"},
		{group, "g", "streams.num.standby.replicas", "1", "consumer.nope", "50000"},
	} {
		if codes := codesOf(do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false, r), 1)); codes[0] != 40 {
			t.Errorf("%v: %v", r, codes)
		}
	}
	both := []string{group, "g", "streams.num.standby.replicas", "1", "consumer.session.timeout.ms", "50000"}
	if codes := codesOf(do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(true, both), 1)); codes[0] != 0 {
		t.Error(codes)
	}
	if got := described(c, "g"); len(got[0]) != 0 || store.altered != 0 {
		t.Errorf("changed: %v", got)
	}
	for range 2 { // again changes nothing
		if codes := codesOf(do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false, both), 1)); codes[0] != 0 {
			t.Error(codes)
		}
	}
	do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false, []string{group, "g", "streams.num.standby.replicas", "-", "consumer.session.timeout.ms", "-"}), 1)
	if got := described(c, "g"); len(got[0]) != 0 {
		t.Errorf("not deleted: %v", got)
	}
}

// AlterConfigs replaces all. The upstream here does not take it for groups, which matters only where it would have to do
// something.
func TestAlterConfigsReplaces(t *testing.T) {
	w, _ := newConfigWorld(t, 2)
	c := dialPort(t, w.nodes[0].addr())
	alter := func(pairs ...string) int16 {
		req := kmsg.NewPtrAlterConfigsRequest()
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
		for i := 0; i < len(pairs); i += 2 {
			s := kmsg.NewAlterConfigsRequestResourceConfig()
			s.Name, s.Value = pairs[i], &pairs[i+1]
			res.Configs = append(res.Configs, s)
		}
		req.Resources = append(req.Resources, res)
		return do[*kmsg.AlterConfigsResponse](c, req, 2).Resources[0].ErrorCode
	}
	for _, step := range []struct {
		pairs []string
		code  int16
		want  map[string]string
	}{
		{[]string{"streams.num.standby.replicas", "1", "streams.session.timeout.ms", "50000"}, 0,
			map[string]string{"streams.num.standby.replicas": "1", "streams.session.timeout.ms": "50000"}},
		{[]string{"streams.num.standby.replicas", "2"}, 0, map[string]string{"streams.num.standby.replicas": "2"}},
		{[]string{"streams.num.standby.replicas", "1", "consumer.session.timeout.ms", "50000"}, 42, map[string]string{"streams.num.standby.replicas": "2"}},
		{[]string{"streams.num.standby.replicas", "3"}, 40, map[string]string{"streams.num.standby.replicas": "2"}},
		{nil, 0, map[string]string{}},
	} {
		if code := alter(step.pairs...); code != step.code {
			t.Errorf("%v: code %d, want %d", step.pairs, code, step.code)
		}
		if diff := cmp.Diff([]map[string]string{step.want}, described(c, "g")); diff != "" {
			t.Errorf("%v: %s", step.pairs, diff)
		}
	}
}

// A bad value among coordd's settings must not let the upstream drop those that it has.
func TestAlterConfigsWithABadValueDropsNothingUpstream(t *testing.T) {
	w, _ := newConfigWorld(t, 2)
	c := dialPort(t, w.nodes[0].addr())
	var dropped atomic.Int32
	w.kafka.ControlKey(int16(kmsg.AlterConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.kafka.KeepControl()
		if !r.(*kmsg.AlterConfigsRequest).ValidateOnly {
			dropped.Add(1)
		}
		return nil, nil, false
	})
	req := kmsg.NewPtrAlterConfigsRequest()
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
	value := "99"
	res.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "streams.num.standby.replicas", Value: &value}}
	req.Resources = append(req.Resources, res)
	for i, want := range []struct {
		code    int16
		dropped int32
	}{{40, 0}, {0, 1}} {
		if code := do[*kmsg.AlterConfigsResponse](c, req, 2).Resources[0].ErrorCode; code != want.code || dropped.Load() != want.dropped {
			t.Errorf("%d: code %d, replaced upstream %d times; want %+v", i, code, dropped.Load(), want)
		}
		value = "1"
	}
}

func TestListConfigResourcesUnitesBothSides(t *testing.T) {
	w, _ := newConfigWorld(t, 2)
	c := dialPort(t, w.nodes[0].addr())
	do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false,
		[]string{group, "ours", "streams.num.standby.replicas", "1"}, []string{group, "theirs", "consumer.session.timeout.ms", "50000"},
		[]string{group, "both", "streams.num.standby.replicas", "1", "consumer.session.timeout.ms", "50000"}), 1)
	for _, types := range [][]int8{{32}, nil} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		listed := map[string]int{}
		for _, r := range do[*kmsg.ListConfigResourcesResponse](c, req, 1).ConfigResources {
			if r.Type == 32 {
				listed[r.Name]++
			}
		}
		if diff := cmp.Diff(map[string]int{"ours": 1, "theirs": 1, "both": 1}, listed); diff != "" {
			t.Errorf("types %v: %s", types, diff)
		}
	}
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{2}
	if list := do[*kmsg.ListConfigResourcesResponse](c, req, 1).ConfigResources; len(list) != 1 || list[0].Name != "t" {
		t.Errorf("topics: %v", list)
	}
}

// The leader of the system shard may be any node, and move; without one clients are told to try again.
func TestConfigsFollowTheSystemLeader(t *testing.T) {
	w, store := newConfigWorld(t, 3)
	c := dialPort(t, w.nodes[0].addr())
	for i, leader := range []int32{1, 2, 3, 1} {
		w.leadSystem(leader)
		value := strconv.Itoa(46000 + i)
		if codes := codesOf(do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false, []string{group, "g", "streams.session.timeout.ms", value}), 1)); codes[0] != 0 {
			t.Fatalf("leader %d: %v", leader, codes)
		}
		if got := described(c, "g"); got[0]["streams.session.timeout.ms"] != value {
			t.Errorf("leader %d: %v", leader, got)
		}
	}
	w.leadSystem(0)
	if codes := codesOf(do[*kmsg.IncrementalAlterConfigsResponse](c, incremental(false, []string{group, "g", "streams.session.timeout.ms", "47000"}), 1)); codes[0] != 15 {
		t.Errorf("without a leader: %v", codes)
	}
	if got := described(c, "g"); got[0]["error"] != "15" {
		t.Errorf("without a leader: %v", got)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	if store.altered != 4 {
		t.Errorf("%d alterations, want 4", store.altered)
	}
}
