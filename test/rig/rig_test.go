package rig

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestShardOfIsJavasHash(t *testing.T) {
	for id, want := range map[string]int{"": 0, "a": 97 % 8, "ab": (97*31 + 98) % 8, "polygenelubricants": 0} {
		if got := ShardOf(id, 8); got != want { // String.hashCode of the last is -2147483648
			t.Errorf("shard of %q is %d, not %d", id, got, want)
		}
	}
}

func TestFreePortsAreApart(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		base, err := FreePorts(5)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if seen[base+i] {
				t.Fatalf("port %d handed out twice", base+i)
			}
			seen[base+i] = true
		}
	}
}

func TestParseLeaders(t *testing.T) {
	leaders, err := parseLeaders([]byte(`[{"shard":-1,"leader":2,"term":3},{"shard":0,"leader":1}]`))
	if err != nil || len(leaders) != 2 || leaders[-1] != 2 || leaders[0] != 1 {
		t.Errorf("%v %v", leaders, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `[{"shard":0,"leader":-1}]`} {
		if l, err := parseLeaders([]byte(bad)); err == nil {
			t.Errorf("%q is accepted as %v", bad, l)
		}
	}
}

func TestProcReportsLinesAndEnd(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	p, err := start(command{name: "sh", log: filepath.Join(t.TempDir(), "sh.log"), argv: []string{"sh", "-c", "echo one; echo trouble >&2; echo two; exit 3"},
		lines: func(l []byte) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, string(l))
		}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Err() == nil || p.Alive() {
		t.Errorf("exit code 3 is reported as %v", p.Err())
	}
	if got := strings.Join(lines, ","); got != "one,two" {
		t.Errorf("stdout was %q", got)
	}
	if p.Tail(1) != "trouble" {
		t.Errorf("log was %q", p.Tail(1))
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	ready := make(chan struct{})
	var once sync.Once
	p, err := start(command{name: "sh", log: filepath.Join(t.TempDir(), "sh.log"),
		argv:  []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"},
		lines: func([]byte) { once.Do(func() { close(ready) }) }})
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	if err := p.Stop(50 * time.Millisecond); err == nil || p.Alive() {
		t.Errorf("error %v, alive %v", err, p.Alive())
	}
}

func TestAppStateAddsUpEvents(t *testing.T) {
	a := &App{changed: make(chan struct{})}
	for _, l := range []string{
		`{"t":1,"event":"client","from":"CREATED","to":"REBALANCING"}`,
		`not json`,
		`{"t":2,"event":"tasks","thread":"1","active":["0_0","0_1"],"standby":[]}`,
		`{"t":3,"event":"tasks","thread":"2","active":["0_2"],"standby":["0_0"]}`,
		`{"t":4,"event":"tasks","thread":"1","active":["0_1"],"standby":[]}`,
		`{"t":5,"event":"thread","thread":"1","state":"RUNNING"}`,
		`{"t":6,"event":"client","from":"REBALANCING","to":"RUNNING"}`,
	} {
		a.line([]byte(l))
	}
	s := a.State()
	if s.Client != "RUNNING" || s.Threads["1"] != "RUNNING" || len(s.Active) != 2 || s.Active["0_1"] != "1" || s.Active["0_2"] != "2" || s.Standby["0_0"] != "2" {
		t.Errorf("%+v", s)
	}
	if a.Mark() != 6 || len(a.Events(4)) != 2 {
		t.Errorf("%d events", a.Mark())
	}
	if err := a.Wait(context.Background(), "RUNNING", func(s AppState) bool { return s.Client == "RUNNING" }); err != nil {
		t.Error(err)
	}
}

func TestDevPortsAreAllowed(t *testing.T) {
	admin, client, err := DevPorts()
	if err != nil || admin+3 > client {
		t.Errorf("admin ports from %d, client ports from %d: %v", admin, client, err)
	}
}
