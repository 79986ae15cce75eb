package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var minimal = []string{"data.dir=/tmp/x", "upstream.bootstrap.servers=127.0.0.1:1"}

func TestDefaultsAreKafkas(t *testing.T) {
	n, _, err := Load(Sources{Set: minimal})
	if err != nil {
		t.Fatal(err)
	}
	d := n.Streams.Defaults
	got := []int64{int64(d.SessionTimeoutMs), int64(d.HeartbeatIntervalMs), int64(d.MaxSize), int64(d.InitialRebalanceDelayMs),
		int64(d.AssignmentIntervalMs), int64(d.TaskOffsetIntervalMs), d.AcceptableRecoveryLag, int64(d.NumWarmupReplicas), int64(d.OffsetMetadataMaxBytes)}
	want := []int64{45000, 5000, 2147483647, 3000, 1000, 60000, 10000, 2, 4096}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if d.AssignorName != "sticky" || n.Shards != 8 || n.RaftAdvertised != n.RaftListen {
		t.Fatalf("%+v", n)
	}
}

func TestPrecedenceFlagOverEnvironmentOverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coordd.yaml")
	text := "shards: 3\ngroup.streams.assignment.interval.ms: 7\nlog.level: warn\ndata.dir: /from-file\n" +
		"upstream.bootstrap.servers: [a:1, b:2]\npeers:\n  - {id: 0, raft: 'h0:9640', client: 'h0:9092'}\n  - {id: 1, raft: 'h1:9640', client: 'h1:9092'}\nraft.advertised: h0:9640\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, unused, err := Load(Sources{
		File:    file,
		Environ: []string{"COORDD_SHARDS=4", "COORDD_LOG_LEVEL=error", "COORDD_SERVICE_HOST=10.0.0.1", "HOME=/root"},
		Set:     []string{"shards=5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.Shards != 5 || n.LogLevel != "error" || n.Streams.Defaults.AssignmentIntervalMs != 7 {
		t.Fatalf("shards %d, level %s, interval %d", n.Shards, n.LogLevel, n.Streams.Defaults.AssignmentIntervalMs)
	}
	if diff := cmp.Diff([]string{"a:1", "b:2"}, n.UpstreamBootstrap); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]Peer{{0, "h0:9640", "h0:9092"}, {1, "h1:9640", "h1:9092"}}, n.Peers); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]string{"COORDD_SERVICE_HOST"}, unused); diff != "" {
		t.Fatal(diff)
	}
}

func TestRefusalsNameSettingValueAndRange(t *testing.T) {
	for _, c := range []struct{ set, setting, mentions string }{
		{"shards=65", "shards", "1 to 64"},
		{"shards=x", "shards", "1 to 64"},
		{"shard=3", "shard", "did you mean shards"},
		{"group.streams.session.timeout.ms=44999", "group.streams.session.timeout.ms", "45000 to 60000"},
		{"group.streams.heartbeat.interval.ms=100", "group.streams.heartbeat.interval.ms", "5000 to 15000"},
		{"group.streams.num.standby.replicas=3", "group.streams.num.standby.replicas", "0 to 2"},
		{"group.streams.assignors=", "group.streams.assignors", "empty"},
		{"group.streams.assignors=sticky,sticky", "group.streams.assignors", "twice"},
		{"group.streams.assignors=sticky,balanced", "group.streams.assignors", "\"balanced\" is unknown (allowed: one or more of sticky, highly_available, auto, separated by commas)"},
		{"offsets.store=kafka", "offsets.store", "one of upstream, raft"},
		{"group.streams.max.session.timeout.ms=44999", "group.streams.max.session.timeout.ms", "45000 or more"},
		{"group.streams.max.heartbeat.interval.ms=4999", "group.streams.max.heartbeat.interval.ms", "5000 or more"},
		{"group.streams.min.assignment.interval.ms=15001", "group.streams.max.assignment.interval.ms", "15001 or more"},
		{"group.streams.assignment.interval.ms=15001", "group.streams.assignment.interval.ms", "0 to 15000"},
		{"group.streams.task.offset.interval.ms=14999", "group.streams.task.offset.interval.ms", "15000 to"},
		{"group.streams.num.warmup.replicas=21", "group.streams.num.warmup.replicas", "0 to 20"},
		{"group.streams.acceptable.recovery.lag=-1", "group.streams.acceptable.recovery.lag", "from 0"},
		{"group.streams.initial.rebalance.delay.ms=-1", "group.streams.initial.rebalance.delay.ms", "0 or more"},
		{"group.streams.max.size=0", "group.streams.max.size", "1 or more"},
		{"group.streams.rack.aware.assignment.tags=a,b,a", "group.streams.rack.aware.assignment.tags", "twice"},
		{"group.streams.assignor.offload.enable=yes", "group.streams.assignor.offload.enable", "true or false"},
		{"group.streams.topology.description.plugin.class=x.Y", "group.streams.topology.description.plugin.class", "no classes"},
		{"group.coordinator.rebalance.protocols=classic", "group.coordinator.rebalance.protocols", "streams"},
		{"group.coordinator.rebalance.protocols=classic,streams,new", "group.coordinator.rebalance.protocols", "unknown"},
		{"offsets.retention.minutes=0", "offsets.retention.minutes", "1 or more"},
		{"offsets.retention.check.interval.ms=0", "offsets.retention.check.interval.ms", "1 to"},
		{"client.listen=nowhere", "client.listen", "host:port"},
		{"data.dir=", "data.dir", "folder"},
		{"upstream.bootstrap.servers=", "upstream.bootstrap.servers", "broker"},
		{"peers=1=h:1/h:2", "node.id", "ids in peers"},
		{"peers=0=127.0.0.1:9640/h:2,0=h:3/h:4", "peers", "each id once"},
		{"peers=nonsense", "peers", "id=raftHost"},
		{"client.listen=0.0.0.0:9092", "client.advertised.host", "clients cannot connect to"},
		{"client.listen=127.0.0.1:9103", "client.listen", "stands for upstream broker 3"},
		{"admin.listen=127.0.0.1:9100", "admin.listen", "stands for upstream broker 0"},
		{"broker.port.base=65530", "broker.port.base", "65504 or less"},
		{"nonsense", "nonsense", "name=value"},
	} {
		_, _, err := Load(Sources{Set: append(append([]string{}, minimal...), c.set)})
		var refused *Error
		if !errors.As(err, &refused) || refused.Setting != c.setting || !strings.Contains(err.Error(), c.mentions) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

// Limits that contradict each other are told with the names of both, and nothing is offered that the other forbids.
func TestContradictions(t *testing.T) {
	for _, c := range []struct {
		set      []string
		setting  string
		mentions string
	}{
		{[]string{"group.streams.min.session.timeout.ms=70000"}, "group.streams.max.session.timeout.ms", "70000 or more, by group.streams.min.session.timeout.ms"},
		{[]string{"group.streams.min.heartbeat.interval.ms=9000", "group.streams.max.heartbeat.interval.ms=8000"}, "group.streams.max.heartbeat.interval.ms", "9000 or more, by group.streams.min.heartbeat.interval.ms"},
		{[]string{"group.streams.heartbeat.interval.ms=60000", "group.streams.max.heartbeat.interval.ms=60000"}, "group.streams.heartbeat.interval.ms", "group.streams.max.session.timeout.ms, which is 60000"},
		{[]string{"group.streams.heartbeat.interval.ms=50000", "group.streams.max.heartbeat.interval.ms=60000"}, "group.streams.session.timeout.ms",
			"more than group.streams.heartbeat.interval.ms, which is 50000, to 60000, by group.streams.max.session.timeout.ms"},
		{[]string{"group.streams.heartbeat.interval.ms=2147483647", "group.streams.max.heartbeat.interval.ms=2147483647", "group.streams.session.timeout.ms=2147483647",
			"group.streams.max.session.timeout.ms=2147483647"}, "group.streams.heartbeat.interval.ms", "less than"},
		{[]string{"group.streams.disconnect.timeout.ms=9999"}, "group.streams.disconnect.timeout.ms", "at least 10000, two times group.streams.heartbeat.interval.ms"},
		{[]string{"group.streams.heartbeat.interval.ms=2000000000", "group.streams.max.heartbeat.interval.ms=2147483647", "group.streams.session.timeout.ms=2147483647",
			"group.streams.max.session.timeout.ms=2147483647", "group.streams.disconnect.timeout.ms=2147483647"}, "group.streams.disconnect.timeout.ms", "0, while group.streams.heartbeat.interval.ms is 2000000000"},
		{[]string{"raft.listen=127.0.0.1:9092"}, "raft.listen", "client.listen is 127.0.0.1:9092"},
		{[]string{"admin.listen=0.0.0.0:9640"}, "admin.listen", "raft.listen is 127.0.0.1:9640"},
	} {
		_, _, err := Load(Sources{Set: append(append([]string{}, minimal...), c.set...)})
		var refused *Error
		if !errors.As(err, &refused) || refused.Setting != c.setting || !strings.Contains(err.Error(), c.mentions) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
	if _, _, err := Load(Sources{Set: append(append([]string{}, minimal...), "raft.listen=127.0.0.1:0", "client.listen=127.0.0.1:0", "admin.listen=127.0.0.1:0")}); err != nil {
		t.Errorf("ports of the system's choice: %v", err)
	}
}

func TestAdvertisedHost(t *testing.T) {
	peers := "peers=0=127.0.0.1:9640/node-0:9092"
	for _, c := range []struct {
		set  []string
		want string
	}{
		{nil, "127.0.0.1"},
		{[]string{"client.listen=0.0.0.0:9092", peers}, "node-0"},
		{[]string{"client.listen=0.0.0.0:9092", peers, "client.advertised.host=public"}, "public"},
	} {
		n, _, err := Load(Sources{Set: append(append([]string{}, minimal...), c.set...)})
		if err != nil || n.AdvertisedHost() != c.want {
			t.Errorf("%v: %v, %v", c.set, n, err)
		}
	}
}

func TestFileRefusals(t *testing.T) {
	dir := t.TempDir()
	for text, mentions := range map[string]string{
		"group:\n  streams:\n    max:\n      size: 3\n": "flat names, such as 'group.streams.max.size",
		"shrds: 3\n":       "did you mean shards",
		"shards: many\n":   "1 to 64",
		": : :\n\t- bad":   "not YAML",
		"peers: [{id: x}]": "id is not a number",
	} {
		file := filepath.Join(dir, "f.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(Sources{File: file, Set: minimal}); err == nil || !strings.Contains(err.Error(), mentions) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := Load(Sources{File: filepath.Join(dir, "absent"), Set: minimal}); err == nil {
		t.Error("a missing file was accepted")
	}
}
