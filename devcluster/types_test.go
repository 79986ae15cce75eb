package devcluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// running is a development cluster with a client.
type running struct {
	*Cluster
	t   *testing.T
	ctx context.Context
	cl  *kgo.Client
	adm *kadm.Client
}

func run(t *testing.T, set ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	port, admin := ports(t)
	c, err := Start(ctx, Options{Port: port, AdminPort: admin, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	r := &running{Cluster: c, t: t, ctx: ctx}
	r.cl = r.client()
	r.adm = kadm.NewClient(r.cl)
	return r
}

func (r *running) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	versions := kversion.Tip()
	versions.SetMaxKeyVersion(88, 1)
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(r.Bootstrap(), ",")...), kgo.DisableClientMetrics(), kgo.MaxVersions(versions))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

// beat sends a streams heartbeat: a join at epoch 0.
func (r *running) beat(group string, epoch int32) *kmsg.StreamsGroupHeartbeatResponse {
	r.t.Helper()
	return r.beatWith(group, epoch, func(*kmsg.StreamsGroupHeartbeatRequest) {})
}

// beatWith sends what change makes of a streams heartbeat.
func (r *running) beatWith(group string, epoch int32, change func(*kmsg.StreamsGroupHeartbeatRequest)) *kmsg.StreamsGroupHeartbeatResponse {
	r.t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = group, "m", epoch, -1
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 60_000
		req.ProcessID = kmsg.StringPtr("p")
		req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{
			Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{{SubtopologyID: "0", SourceTopics: []string{"in"}}},
		}
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	change(req)
	resp, err := req.RequestWith(r.ctx, r.cl.SeedBrokers()[0]) // every node serves every group
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.ErrorCode == kerr.NotCoordinator.Code { // told once to a member that comes to another node
		return r.beatWith(group, epoch, change)
	}
	return resp
}

// committed is the offset of partition 0 of the group's topic.
func (r *running) committed(group string) int64 {
	r.t.Helper()
	at, err := r.adm.FetchOffsets(r.ctx, group)
	if err != nil {
		r.t.Fatal(err)
	}
	o, _ := at.Lookup("in", 0)
	return o.At
}

// listed is how ListGroups shows the group, over all brokers.
func (r *running) listed(group string) []string {
	r.t.Helper()
	var found []string
	for _, shard := range r.cl.RequestSharded(r.ctx, kmsg.NewPtrListGroupsRequest()) {
		if shard.Err != nil {
			r.t.Fatal(shard.Err)
		}
		for _, g := range shard.Resp.(*kmsg.ListGroupsResponse).Groups {
			if g.Group == group {
				found = append(found, g.GroupType+" "+g.GroupState)
			}
		}
	}
	return found
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

// A group id goes from a streams group to a classic one and back, with its offsets.
func TestAGroupIdChangesItsType(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0")
	if _, err := r.adm.CreateTopic(r.ctx, 1, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if err := r.cl.ProduceSync(r.ctx, &kgo.Record{Topic: "in", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// The embedded Kafka keeps the protocol type of a group for ever, so that nothing may be committed by the member here:
	// the tests over a real Kafka do that.
	if resp := r.beat("app", 0); resp.ErrorCode != 0 || r.beat("app", -1).ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	var at kadm.Offsets
	at.AddOffset("in", 0, 5, -1)
	if _, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil || r.committed("app") != 5 {
		t.Fatal(err, r.committed("app"))
	}

	consumer := r.client(kgo.ConsumerGroup("app"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit())
	fetches := consumer.PollFetches(r.ctx)
	if records := fetches.Records(); fetches.Err() != nil || len(records) == 0 || records[0].Offset != 5 {
		t.Fatalf("the classic group begins with %v %v", fetches.Records(), fetches.Err())
	}
	eventually(t, "the classic group is listed, and nothing else of that id", func() bool {
		return fmt.Sprint(r.listed("app")) == "[classic Stable]"
	})
	for _, epoch := range []int32{0, 3, -1} {
		resp := r.beat("app", epoch)
		if resp.ErrorCode != kerr.GroupIDNotFound.Code || *resp.ErrorMessage != "Group app is not a streams group." {
			t.Errorf("epoch %d on a classic group with members: %d %v", epoch, resp.ErrorCode, resp.ErrorMessage)
		}
	}
	if d, err := r.adm.DescribeGroups(r.ctx, "app"); err != nil || len(d["app"].Members) != 1 || d["app"].State != "Stable" {
		t.Errorf("%+v %v", d, err)
	}

	if err := consumer.LeaveGroupContext(r.ctx); err != nil {
		t.Fatal(err)
	}
	if resp := r.beat("app", 0); resp.ErrorCode != 0 || r.committed("app") != 5 {
		t.Errorf("join on an empty classic group: %d %v; committed %d", resp.ErrorCode, resp.ErrorMessage, r.committed("app"))
	}
	if found := r.listed("app"); len(found) != 1 || !strings.HasPrefix(found[0], "streams ") {
		t.Errorf("listed %v", found)
	}
	if resp := r.beat("app", -1); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	if resp, err := r.adm.DeleteGroups(r.ctx, "app", "never was"); err != nil || resp["app"].Err != nil || resp["never was"].Err != kerr.GroupIDNotFound {
		t.Errorf("%+v %v", resp, err)
	}
	if found := r.listed("app"); len(found) != 0 {
		t.Errorf("after the deletion: listed %v", found)
	}
}
