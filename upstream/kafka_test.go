package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// TestRealKafka checks against the broker at COORDD_TEST_KAFKA what the upstream in memory may get wrong.
func TestRealKafka(t *testing.T) {
	address := os.Getenv("COORDD_TEST_KAFKA")
	if address == "" {
		t.Skip("COORDD_TEST_KAFKA names no broker")
	}
	w := &world{t: t}
	node := func() *Offsets {
		c, err := Open(Options{Bootstrap: []string{address}})
		if err != nil {
			t.Fatal(err)
		}
		o := NewOffsets(OffsetsConfig{Client: c, Rand: rand.Float64, Deadline: 10 * time.Second})
		t.Cleanup(func() { o.Close(); c.Close() })
		return o
	}
	old, next := node(), node()
	ctx := context.Background()
	results, err := old.client.CreateTopics(ctx, []topology.InternalTopic{{Name: "in", Partitions: 8}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("create:", results)
	for {
		s, err := old.client.Metadata(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := topicctl.NewImage(s, nil).Topic("in"); ok {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	group := fmt.Sprint("real-", time.Now().UnixNano())
	timed := func(what string, f func()) {
		start := time.Now()
		f()
		t.Logf("%s took %v", what, time.Since(start).Round(time.Millisecond))
	}
	timed("first claim", func() { w.mustClaim(old, group) })
	expect := func(what string, got, want coordinator.Code) {
		t.Helper()
		if got != want {
			t.Errorf("%s: code %d, want %d", what, got, want)
		}
	}
	timed("commit", func() { expect("commit", w.commit(old, commitReq(group, 1, 10)), 0) })
	timed("take-over", func() { w.mustClaim(next, group) })
	expect("fenced", w.commit(old, commitReq(group, 1, 5)), coordinator.NotCoordinator)
	expect("new holder", w.commit(next, commitReq(group, 1, 11)), 0)
	old.Release(group, func(error) {})

	for _, version := range []int16{4, 5} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(address))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		p := initProducer(t, cl, fmt.Sprint(group, "-", version))
		if version < 5 {
			p.addOffsets(group)
		}
		timed("transactional commit", func() { expect("transactional commit", w.commit(next, p.commit(group, version, int64(20+version))), 0) })
		if got := w.fetch(next, group, true); got.Code != coordinator.UnstableOffsetCommit {
			t.Errorf("open transaction: %+v", got)
		}
		p.end(true)
		for w.fetch(next, group, true).Code == coordinator.UnstableOffsetCommit {
			time.Sleep(10 * time.Millisecond)
		}
		if got := w.fetch(next, group, true).Offset; got != int64(20+version) {
			t.Errorf("v%d: offset %d", version, got)
		}
	}
	typ := func(group string) string {
		return wait(t, func(done func(string)) {
			next.Foreign(group, func(found coordinator.ForeignGroup, err error) {
				if !found.InUse {
					found.Type = ""
				}
				done(fmt.Sprint(found.Type, err))
			})
		})
	}
	if got := typ(group); got != "<nil>" {
		t.Errorf("own claim: %q", got)
	}
	if got := typ("nothing"); got != "<nil>" {
		t.Errorf("no group: %q", got)
	}
	for _, balancer := range []kgo.GroupOpt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())} {
		foreign := fmt.Sprint(group, "-", time.Now().UnixNano())
		cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup(foreign), kgo.ConsumeTopics("in"), balancer)
		if err != nil {
			t.Fatal(err)
		}
		go cl.PollFetches(ctx)
		for start := time.Now(); typ(foreign) != "consumer<nil>"; time.Sleep(50 * time.Millisecond) {
			if time.Since(start) > 20*time.Second {
				t.Errorf("consumer group: %q", typ(foreign))
				break
			}
		}
		t.Logf("claim of a foreign group: %v", w.claim(next, foreign))
		cl.Close()
	}
	timed("delete", func() {
		resp := wait(t, func(done func(*offsets.DeleteResponse)) {
			next.Delete(&offsets.DeleteRequest{GroupID: group, Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0}}}}, done)
		})
		if resp.Err != nil || resp.Topics[0].Partitions[0].Code != 0 {
			t.Errorf("delete: %+v %v", resp, resp.Err)
		}
	})
	timed("commit after delete", func() { expect("commit after delete", w.commit(next, commitReq(group, 1, 12)), 0) })
	next.Release(group, func(error) {})
	expect("memberless", w.commit(next, commitReq(group, -1, 3)), 0)

	w.mustClaim(old, group)
	old.Forget(group)
	expect("memberless over a leftover member", w.commit(next, commitReq(group, -1, 4)), 0)
	if err := wait(t, func(done func(error)) { next.DeleteGroup(group, done) }); err != nil {
		t.Errorf("delete group: %v", err)
	}
	timed("60 first claims", func() {
		done := make(chan error, 60)
		for i := range 60 {
			next.Claim(fmt.Sprint(group, "-", i), func(err error) { done <- err })
		}
		for range 60 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	timed("60 take-overs", func() {
		done := make(chan error, 60)
		for i := range 60 {
			old.Claim(fmt.Sprint(group, "-", i), func(err error) { done <- err })
		}
		for range 60 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 60 {
		old.DeleteGroup(fmt.Sprint(group, "-", i), func(error) {})
	}
}
