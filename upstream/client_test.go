package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

func TestMetadataAndCreateTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094), kfake.ClusterID("the-cluster"))
		c := w.node().client
		ctx := context.Background()
		topics := []topology.InternalTopic{
			{Name: "app-changelog", Partitions: 3, ReplicationFactor: -1, Configs: []topology.Config{{Key: "cleanup.policy", Value: "compact"}}},
			{Name: "in", Partitions: 3},
		}
		results, err := c.CreateTopics(ctx, topics)
		if err != nil || len(results) != 2 || results["app-changelog"] != nil || !errors.Is(results["in"], topicctl.ErrTopicExists) {
			t.Fatalf("create: %v %v", results, err)
		}
		s, err := c.Metadata(ctx)
		if err != nil {
			t.Fatal(err)
		}
		image := topicctl.NewImage(s, nil)
		got, ok := image.Topic("app-changelog")
		if !ok || got.Partitions != 3 || got.ID == ([16]byte{}) || image.ClusterID != "the-cluster" || len(image.Brokers) != 3 {
			t.Errorf("image: %+v, topic %+v", image, got)
		}
		for range 5 {
			again, err := c.Metadata(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if next := topicctl.NewImage(again, image); next.Version != image.Version {
				t.Error("the same cluster makes another image")
			}
		}
	})
}

func TestWhichGroupsKeepTheirId(t *testing.T) {
	for _, c := range []struct {
		typ, protocol, state string
		want                 bool
	}{
		{"classic", "consumer", "Stable", true},
		{"classic", "consumer", "PreparingRebalance", true},
		{"classic", "consumer", "Empty", false},
		{"classic", "", "Empty", false},
		{"classic", "", "Dead", false},
		{"classic", protocolType, "Stable", false},
		{"Consumer", "consumer", "Stable", true},
		{"consumer", "consumer", "Empty", true},
		{"consumer", "consumer", "Dead", false},
		{"Share", "share", "Empty", true},
		{"streams", "streams", "Empty", false},
		{"streams", "streams", "Stable", true},
		{"", "consumer", "Stable", true}, // before ListGroups v5
		{"", "consumer", "Empty", false},
	} {
		g := &kmsg.ListGroupsResponseGroup{Group: "g", GroupType: c.typ, ProtocolType: c.protocol, GroupState: c.state}
		if got := inUse(g); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "ours")
		w.commit(o, commitReq("simple", -1, 1)) // an empty group
		for _, kind := range []string{"classic", "consumer", "share"} {
			w.member(kind)
		}
		type result struct {
			found coordinator.ForeignGroup
			err   error
		}
		ask := func(group string) result {
			return wait(t, func(done func(result)) {
				o.Foreign(group, func(found coordinator.ForeignGroup, err error) { done(result{found, err}) })
			})
		}
		for group, want := range map[string]coordinator.ForeignGroup{
			"ours": {Offsets: true}, "nothing": {}, "simple": {Type: "classic", Offsets: true},
			"classic": {Type: "consumer", InUse: true, Offsets: true}, "consumer": {Type: "consumer", InUse: true, Offsets: true},
			"share": {Type: "share", InUse: true, Offsets: true},
		} {
			eventually(t, group, func() bool { r := ask(group); return r.err == nil && r.found == want })
		}
		// A few lists are under way; the questions that come meanwhile share the next.
		asked := w.count(16)
		answers := make(chan result, 1000)
		for i := range 1000 {
			o.Foreign(fmt.Sprint("g", i%300), func(found coordinator.ForeignGroup, err error) { answers <- result{found, err} })
		}
		for range 1000 {
			if r := <-answers; r.err != nil || r.found != (coordinator.ForeignGroup{}) {
				t.Fatalf("%+v", r)
			}
		}
		if n := asked(); n < 1 || n > 2*foreignRounds {
			t.Errorf("%d ListGroups for 1000 questions", n)
		}
		w.cluster.Close()
		var kafka *coordinator.Error
		if r := ask("g"); !errors.As(r.err, &kafka) || kafka.Code != coordinator.CoordinatorNotAvailable {
			t.Errorf("upstream away: %+v", r)
		}
	})
}

// member starts a consumer in the group of that name and kind.
func (w *world) member(kind string) {
	w.t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(w.dial), kgo.ConsumeTopics("in"), kgo.DisableClientMetrics()}
	switch kind {
	case "share":
		opts = append(opts, kgo.ShareGroup(kind))
	case "consumer":
		opts = append(opts, kgo.ConsumerGroup(kind), kgo.ServerSideBalancer())
	default:
		opts = append(opts, kgo.ConsumerGroup(kind))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	go cl.PollFetches(context.Background())
}

// A session time-out that the upstream does not allow is lowered until it does.
func TestSessionTimeoutIsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kfake.GroupMaxSessionTimeout(20*time.Second))
		o := w.node()
		w.mustClaim(o, "g")
		if o.session != 15*time.Second {
			t.Errorf("session %v", o.session)
		}
		time.Sleep(10 * time.Minute)
		if code := w.commit(o, commitReq("g", 1, 1)); code != 0 {
			t.Errorf("commit: %d", code)
		}
	})
}

func TestClaimRefusedByForeignGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.member("classic")
		eventually(t, "the group has a member", func() bool {
			return wait(t, func(done func(bool)) {
				o.Foreign("classic", func(found coordinator.ForeignGroup, _ error) { done(found.InUse) })
			})
		})
		var kafka *coordinator.Error
		if err := w.claim(o, "classic"); !errors.As(err, &kafka) || kafka.Code != coordinator.InconsistentGroupProtocol {
			t.Errorf("claim: %v", err)
		}
		if code := w.commit(o, commitReq("classic", -1, 1)); code != coordinator.UnknownMemberID {
			t.Errorf("memberless commit: %d", code)
		}
		err := wait(t, func(done func(error)) { o.DeleteGroup("classic", done) })
		if !errors.As(err, &kafka) || kafka.Code != coordinator.NonEmptyGroup {
			t.Errorf("delete group: %v", err)
		}
	})
}

// The upstream's trouble is told as what clients retry, whatever the upstream calls it, and never lost.
func TestUpstreamErrors(t *testing.T) {
	for name, c := range map[string]struct {
		upstream int16
		times    int
		want     coordinator.Code
	}{
		"not coordinator once":   {kerr.NotCoordinator.Code, 1, coordinator.None},
		"loading once":           {kerr.CoordinatorLoadInProgress.Code, 1, coordinator.None},
		"not available for long": {kerr.CoordinatorNotAvailable.Code, 1 << 20, coordinator.CoordinatorNotAvailable},
		"rebalance once":         {kerr.RebalanceInProgress.Code, 1, coordinator.None},
		"generation once":        {kerr.IllegalGeneration.Code, 1, coordinator.None},
		"timed out once":         {kerr.RequestTimedOut.Code, 1, coordinator.None},
		"no right":               {kerr.GroupAuthorizationFailed.Code, 1, coordinator.CoordinatorNotAvailable},
		"server error":           {kerr.UnknownServerError.Code, 1, coordinator.CoordinatorNotAvailable},
		"metadata too large":     {kerr.OffsetMetadataTooLarge.Code, 1, coordinator.OffsetMetadataTooLarge},
		"fenced":                 {kerr.FencedInstanceID.Code, 1, coordinator.NotCoordinator},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				o := w.node()
				w.mustClaim(o, "g")
				left := c.times
				w.cluster.ControlKey(8, func(r kmsg.Request) (kmsg.Response, error, bool) {
					w.cluster.KeepControl()
					if left--; left < 0 {
						return nil, nil, false
					}
					return refuseCommit(r.(*kmsg.OffsetCommitRequest), c.upstream), nil, true
				})
				start := time.Now()
				if code := w.commit(o, commitReq("g", 1, 1)); code != c.want {
					t.Errorf("code %d, want %d", code, c.want)
				}
				if took := time.Since(start); took > 7*time.Second {
					t.Errorf("answered after %v", took)
				}
			})
		})
	}
}

func refuseCommit(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// An answer that got lost leaves open whether the commit was done: the claim is made anew before the next commit, so
// that nothing late overwrites it.
func TestUnknownOutcomeIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		joins := w.count(11)
		dropped := false
		w.cluster.ControlKey(8, func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			if dropped {
				return nil, nil, false
			}
			dropped = true
			return nil, errors.New("connection lost"), true
		})
		if code := w.commit(o, commitReq("g", 1, 6)); code != 0 {
			t.Errorf("commit: %d", code)
		}
		if joins() != 1 {
			t.Errorf("%d joins after an unknown outcome", joins())
		}
	})
}

// An upstream that accepts connections and says nothing must not hold up answers, nor Close.
func TestSilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			a, b := net.Pipe()
			go func() {
				buf := make([]byte, 1024)
				for {
					if _, err := b.Read(buf); err != nil {
						return
					}
				}
			}()
			return a, nil
		}
		c, err := Open(Options{Bootstrap: []string{"127.0.0.1:9092"}, Dial: silent})
		if err != nil {
			t.Fatal(err)
		}
		o := NewOffsets(OffsetsConfig{Client: c})
		start := time.Now()
		if code := w.commit(o, commitReq("g", -1, 1)); code != coordinator.CoordinatorNotAvailable {
			t.Errorf("commit: %d", code)
		}
		fetched := wait(t, func(done func(*offsets.FetchResponse)) { o.Fetch(&offsets.FetchRequest{GroupID: "g"}, done) })
		if fetched.Err == nil || fetched.Err.Code != coordinator.CoordinatorNotAvailable {
			t.Errorf("fetch: %+v", fetched)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("answered after %v", took)
		}
		claimed := make(chan error, 1)
		o.Claim("h", func(err error) { claimed <- err })
		time.Sleep(time.Minute)
		committed := make(chan coordinator.Code, 1)
		o.Commit(commitReq("h", 1, 1), func(r *offsets.CommitResponse) { committed <- r.Topics[0].Partitions[0].Code })
		asked := make(chan error, 1)
		c.Foreign("g", func(_ coordinator.ForeignGroup, err error) { asked <- err })
		synctest.Wait()
		start = time.Now()
		o.Close()
		c.Close()
		if err := <-claimed; !errors.Is(err, ErrDropped) {
			t.Errorf("claim: %v", err)
		}
		if code := <-committed; code != coordinator.CoordinatorNotAvailable {
			t.Errorf("commit at close: %d", code)
		}
		if <-asked == nil {
			t.Error("Foreign knows although nobody answered")
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		if code := w.commit(o, commitReq("h", 1, 1)); code != coordinator.CoordinatorNotAvailable {
			t.Errorf("commit after close: %d", code)
		}
	})
}
