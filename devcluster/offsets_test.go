package devcluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/web"
)

// insist asks until the answer is as it must be: nodes on a busy machine may say that something did not answer in time.
func insist(t *testing.T, what string, ask func() (wrong any)) {
	t.Helper()
	var wrong any
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if wrong = ask(); wrong == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, wrong)
}

// TestOffsetsAreShownResetAndMoved asks every node, whoever leads the group's shard.
func TestOffsetsAreShownResetAndMoved(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0")
	if _, err := r.adm.CreateTopics(r.ctx, 2, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	producer := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(2) {
		if err := producer.ProduceSync(r.ctx, &kgo.Record{Topic: "in", Partition: p, Value: []byte("v")}, &kgo.Record{Topic: "in", Partition: p, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	nodes := r.Nodes()
	show := web.OffsetsRequest{Group: "app", TimeMs: web.NoOffset}
	says := func(text string, ask func() error) {
		t.Helper()
		insist(t, text, func() any {
			if err := ask(); !strings.Contains(refused(err), text) {
				return fmt.Sprint("answered ", err)
			}
			return nil
		})
	}
	reset := func(node int, offsets ...web.NewOffset) error {
		done, err := nodes[node].ResetOffsets(r.ctx, web.ResetRequest{Group: "app", Offsets: offsets})
		if err == nil && done.Changed != len(offsets) {
			t.Fatalf("%+v", done)
		}
		return err
	}
	move := func(node int, group, to string) error {
		moved, err := nodes[node].MoveOffsets(r.ctx, web.MoveOffsetsRequest{Group: group, To: to})
		if err == nil && (moved.To != to || moved.From != to && moved.Offsets != 2) {
			t.Fatalf("%+v", moved)
		}
		return err
	}
	says("is not one of coordd's", func() error { _, err := nodes[0].Offsets(r.ctx, show); return err })
	member := func(epoch int32) {
		insist(t, "member", func() any {
			if resp := r.beat("app", epoch); resp.ErrorCode != 0 {
				return resp.ErrorCode
			}
			return nil
		})
	}
	set := []web.NewOffset{{Topic: "in", Partition: 0, Before: -1, Offset: 1}, {Topic: "in", Partition: 1, Before: -1, Offset: 2}}
	member(0)
	says("has 1 member: stop the app", func() error { return reset(1, set...) })
	says("has members (1)", func() error { return move(1, "app", "raft") })
	member(-1)
	says("is not one of coordd's", func() error { return move(0, "nothing", "raft") })
	says("allowed: upstream, raft", func() error { return move(0, "app", "tape") })
	for i, to := range []string{"raft", "upstream", "upstream"} {
		done := func(what string, ask func() error) {
			t.Helper()
			insist(t, what, func() any {
				if err := ask(); err != nil {
					return err
				}
				return nil
			})
		}
		done("reset", func() error { return reset(i, set...) })
		done("reset again", func() error { return reset((i+1)%3, set...) })
		says("the committed offset is 1 by now, not 0", func() error { return reset(i, web.NewOffset{Topic: "in", Partition: 0, Before: 0, Offset: 2}) })
		done("move", func() error { return move((i+2)%3, "app", to) })
		for _, node := range nodes {
			insist(t, "show", func() any {
				g, err := node.Offsets(r.ctx, show)
				if err != nil {
					return err
				}
				at := func(p web.PartitionOffsets) [3]int64 { return [3]int64{p.Committed, p.End, p.Lag} }
				if g.Store != to || g.Lag != 1 || len(g.Partitions) != 2 || at(g.Partitions[0]) != [3]int64{1, 2, 1} || at(g.Partitions[1]) != [3]int64{2, 2, 0} {
					return g
				}
				return nil
			})
		}
		drop := slices.Clone(set)
		for k := range drop {
			drop[k].Before, drop[k].Offset = drop[k].Offset, web.NoOffset
		}
		done("take away", func() error { return reset(i, drop...) })
		insist(t, "taken away", func() any {
			g, err := nodes[i].Offsets(r.ctx, show)
			if err != nil || len(g.Partitions) != 2 || g.Partitions[0].Committed != web.NoOffset || g.Partitions[1].Committed != web.NoOffset {
				return fmt.Sprint(g, err)
			}
			return nil
		})
	}
}
