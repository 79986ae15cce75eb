//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/test/rig"
	"github.com/coordd/coordd/web"
)

// offsetsWorld is a cluster with a topic of three partitions with ten records each, one a second from 1970 on.
type offsetsWorld struct {
	t         *testing.T
	ctx       context.Context
	cluster   *rig.Cluster
	bootstrap string
	group     string
}

func startOffsets(t *testing.T, upstream, store string) *offsetsWorld {
	dir := place(t)
	behind := startUpstream(t, upstream, dir)
	w := &offsetsWorld{t: t, cluster: startClusterWith(t, 3, behind, dir, map[string]any{"offsets.store": store}), ctx: within(t, 3*time.Minute), group: "reading"}
	w.bootstrap = w.cluster.Bootstrap()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(behind, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	// Records are as old as 1970; they must not be deleted for that.
	if _, err := kadm.NewClient(cl).CreateTopics(w.ctx, 3, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, "read-in"); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for p := range int32(3) {
		for i := range 10 {
			records = append(records, &kgo.Record{Topic: "read-in", Partition: p, Timestamp: time.UnixMilli(int64(1000 * i)), Value: []byte("v")})
		}
	}
	if err := cl.ProduceSync(w.ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return w
}

// command runs a command of coordd groups at a node, and returns what it says.
func (w *offsetsWorld) command(node *rig.Node, args ...string) (string, error) {
	out, err := w.cluster.CLI(w.ctx, node, append([]string{"groups", args[0], w.group}, args[1:]...)...)
	return out + errorText(err), err
}

func (w *offsetsWorld) must(args ...string) string {
	w.t.Helper()
	out, err := w.command(w.cluster.Nodes[2], args...)
	if err != nil {
		w.t.Fatalf("%v: %s", args, out)
	}
	return out
}

// refused runs a command that must fail and say so.
func (w *offsetsWorld) refused(says string, args ...string) {
	w.t.Helper()
	if out, err := w.command(w.cluster.Nodes[2], args...); err == nil || !strings.Contains(out, says) {
		w.t.Errorf("%v: %q is missing in %s", args, says, out)
	}
}

func (w *offsetsWorld) offsets() (g web.GroupOffsets) {
	w.t.Helper()
	out := w.must("offsets", "-o", "json")
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		w.t.Fatal(out, err)
	}
	return g
}

// are checks store and committed offsets.
func (w *offsetsWorld) are(what, store string, want map[int32]int64) {
	w.t.Helper()
	g := w.offsets()
	got := map[int32]int64{}
	for _, p := range g.Partitions {
		if p.Committed >= 0 {
			got[p.Partition] = p.Committed
		}
	}
	if g.Store != store || !maps.Equal(got, want) {
		w.t.Fatalf("%s: offsets %v in store %s, want %v in %s", what, got, g.Store, want, store)
	}
}

// session has a member join, commit and leave.
func (w *offsetsWorld) session(offsets map[int32]int64) {
	w.t.Helper()
	p := rig.NewProbe(w.bootstrap, w.group, "read-in")
	if err := p.Settle(30 * time.Second); err != nil {
		w.t.Fatal(err)
	}
	if err := p.Commit("read-in", offsets); err != nil {
		w.t.Fatal(err)
	}
	if err := p.Leave(); err != nil {
		w.t.Fatal(err)
	}
}

// TestOffsetsCommands shows offsets of a group, resets them and puts them back, and moves them to the other store and back, over both
// stores.
func TestOffsetsCommands(t *testing.T) {
	for _, upstream := range []string{"kfake3", "kafka"} {
		for _, store := range []string{"upstream", "raft"} {
			t.Run(upstream+"/"+store, func(t *testing.T) {
				t.Parallel()
				w := startOffsets(t, upstream, store)
				w.shows(store)
				w.resets(store)
				other := map[string]string{"upstream": "raft", "raft": "upstream"}[store]
				w.moves(store, other)
				w.moves(other, store)
			})
		}
	}
}

func (w *offsetsWorld) shows(store string) {
	w.t.Helper()
	w.refused("is not one of coordd's", "offsets")
	p := rig.NewProbe(w.bootstrap, w.group, "read-in")
	if err := p.Settle(30 * time.Second); err != nil {
		w.t.Fatal(err)
	}
	if err := p.Commit("read-in", map[int32]int64{0: 4, 1: 10}); err != nil {
		w.t.Fatal(err)
	}
	g := w.offsets()
	if g.Store != store || g.Lag != 6 || g.Members != 1 || len(g.Partitions) != 3 || len(g.Notes) > 0 {
		w.t.Fatalf("%+v", g)
	}
	for i, committed := range []int64{4, 10, -1} {
		o := g.Partitions[i]
		if o.Subtopology != "0" || o.Partition != int32(i) || o.Committed != committed || o.Start != 0 || o.End != 10 || o.Member != p.Member || o.Kind != "source" || o.Problem != "" {
			w.t.Errorf("%+v", o)
		}
	}
	w.refused("has 1 member", "reset-offsets", "--to-earliest", "--execute")
	w.refused("has members (1)", "offsets", "--move-to", "raft")
	if err := p.Leave(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *offsetsWorld) resets(store string) {
	w.t.Helper()
	before := map[int32]int64{0: 4, 1: 10}
	if out := w.must("reset-offsets", "--shift-by", "-2", "--topic", "read-in:0,1"); !strings.Contains(out, "nothing was changed: add --execute to change 2 offsets") {
		w.t.Error(out)
	}
	w.are("dry run", store, before)
	saved := filepath.Join(w.t.TempDir(), "before.csv")
	w.must("reset-offsets", "--to-datetime", "1970-01-01T00:00:06.500", "--execute", "--export", saved)
	w.are("by time", store, map[int32]int64{0: 7, 1: 7, 2: 7})
	if content, err := os.ReadFile(saved); err != nil || string(content) != "read-in,0,4\nread-in,1,10\nread-in,2,-1\n" {
		w.t.Fatalf("%q %v", content, err)
	}
	w.must("reset-offsets", "--from-file", saved, "--execute", "--export", saved+".2")
	w.are("from the file", store, before)
	w.must("reset-offsets", "--to-earliest", "--execute", "--export", saved+".3")
	w.are("to the start", store, map[int32]int64{0: 0, 1: 0, 2: 0})
	w.must("reset-offsets", "--to-offset", "99", "--topic", "read-in:1", "--execute", "--export", saved+".4")
	w.are("beyond the end", store, map[int32]int64{0: 0, 1: 10, 2: 0})
}

// moves moves offsets while the node that leads the group is killed, and looks whether they are as before and can be changed.
func (w *offsetsWorld) moves(from, to string) {
	w.t.Helper()
	want := map[int32]int64{0: 1, 1: 2, 2: 3}
	w.session(want)
	w.are("before the move", from, want)

	var coordinator, asked *rig.Node
	leader := w.offsets().Coordinator
	for _, n := range w.cluster.Nodes {
		if int32(n.ID) == leader {
			coordinator = n
		} else {
			asked = n
		}
	}
	first := make(chan string, 1)
	go func() {
		out, _ := w.command(asked, "offsets", "--move-to", to)
		first <- out
	}()
	time.Sleep(time.Duration(len(from)) * 10 * time.Millisecond) // somewhere on the way, or before or after it
	coordinator.Kill()
	said := <-first
	for end := time.Now().Add(time.Minute); ; {
		out, err := w.command(asked, "offsets", "--move-to", to)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			w.t.Fatalf("not moved: %s\nat first: %s", out, said)
		}
	}
	if err := coordinator.Start(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.cluster.WaitReady(w.ctx, time.Minute); err != nil {
		w.t.Fatal(err)
	}
	w.are("after the move", to, want)
	want[1] = 5
	w.session(map[int32]int64{1: 5})
	w.are("committed after the move", to, want)
}
