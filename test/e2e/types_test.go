//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// TestAGroupIdChangesItsType lets an id be a streams group whose offsets coordd commits as the upstream group's member, then
// a classic group, then a streams group again. The offsets go along each time.
func TestAGroupIdChangesItsType(t *testing.T) {
	dir := place(t)
	cluster := startCluster(t, 3, startUpstream(t, "kafka", dir), dir)
	bootstrap := cluster.Nodes[0].Client + "," + cluster.Nodes[1].Client
	ctx := within(t, 2*time.Minute)
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DisableClientMetrics())...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	cl := client()
	adm := kadm.NewClient(cl)
	const group, topic = "turncoat", "types.in"
	created, err := adm.CreateTopic(ctx, 1, 1, nil, topic)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	member := rig.NewProbe(bootstrap, group, topic)
	if err := member.Settle(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if code := commitAs(ctx, t, cl, member, topic, created.ID, 5); code != 0 {
		t.Fatalf("commit of the member: %v", code)
	}
	if err := member.Leave(); err != nil {
		t.Fatal(err)
	}

	consumer := client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	fetches := consumer.PollFetches(ctx)
	if records := fetches.Records(); fetches.Err() != nil || len(records) == 0 || records[0].Offset != 5 {
		t.Fatalf("the classic group begins with %v %v", records, fetches.Err())
	}
	if d, err := adm.DescribeGroups(ctx, group); err != nil || len(d[group].Members) != 1 || d[group].ProtocolType != "consumer" {
		t.Errorf("%+v %v", d, err)
	}
	var refused rig.Code
	intruder := rig.NewProbe(bootstrap, group, topic)
	if err := intruder.Settle(5 * time.Second); !errors.As(err, &refused) || refused != 69 {
		t.Errorf("a streams member came into a classic group: %v", err)
	}
	if err := consumer.CommitRecords(ctx, fetches.Records()[0]); err != nil {
		t.Error(err)
	}
	if err := consumer.LeaveGroupContext(ctx); err != nil {
		t.Fatal(err)
	}

	again := rig.NewProbe(bootstrap, group, topic)
	if err := again.Settle(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if at, err := adm.FetchOffsets(ctx, group); err != nil || at[topic][0].At != 6 {
		t.Errorf("the streams group begins at %+v %v", at, err)
	}
	if code := commitAs(ctx, t, cl, again, topic, created.ID, 7); code != 0 {
		t.Errorf("commit of the member: %v", code)
	}
	if err := again.Leave(); err != nil {
		t.Fatal(err)
	}
	if r, err := adm.DeleteGroups(ctx, group); err != nil || r[group].Err != nil {
		t.Errorf("%+v %v", r, err)
	}
}

// TestOtherTypesKeepTheirIds lets a streams member ask for the ids of consumer and share groups, with members and without.
func TestOtherTypesKeepTheirIds(t *testing.T) {
	dir := place(t)
	cluster := startCluster(t, 3, startUpstream(t, "kafka", dir), dir)
	bootstrap := cluster.Nodes[0].Client
	ctx := within(t, 2*time.Minute)
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	const topic = "kinds.in"
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for kind, opts := range map[string][]kgo.Opt{
		"consumer": {kgo.ConsumerGroup("consumer"), kgo.ServerSideBalancer()},
		"share":    {kgo.ShareGroup("share")},
	} {
		t.Run(kind, func(t *testing.T) {
			member, err := kgo.NewClient(append(opts, kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.DisableClientMetrics())...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(member.Close)
			polling, stop := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for polling.Err() == nil {
					member.PollFetches(polling)
				}
			}()
			awaitListed(ctx, t, adm, kind, "Stable")
			refused(t, bootstrap, kind, topic)
			stop()
			<-done
			member.Close()
			awaitListed(ctx, t, adm, kind, "Empty")
			refused(t, bootstrap, kind, topic)
		})
	}
}

// refused lets a streams member join the group, which must be answered GROUP_ID_NOT_FOUND.
func refused(t *testing.T, bootstrap, group, topic string) {
	t.Helper()
	var code rig.Code
	if err := rig.NewProbe(bootstrap, group, topic).Settle(5 * time.Second); !errors.As(err, &code) || code != 69 {
		t.Errorf("a streams member came into the group %s: %v", group, err)
	}
}

func awaitListed(ctx context.Context, t *testing.T, adm *kadm.Client, group, state string) {
	t.Helper()
	for {
		listed, err := adm.ListGroups(ctx)
		if err == nil && listed[group].State == state {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("group %s is not %s: %+v %v", group, state, listed[group], err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// commitAs commits the offset of partition 0 as a member, again while coordd takes its membership upstream over.
func commitAs(ctx context.Context, t *testing.T, cl *kgo.Client, member *rig.Probe, topic string, id kadm.TopicID, offset int64) rig.Code {
	t.Helper()
	for {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation = member.Group, member.Member, member.Epoch
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = offset
		in := kmsg.NewOffsetCommitRequestTopic()
		in.Topic, in.TopicID, in.Partitions = topic, id, []kmsg.OffsetCommitRequestTopicPartition{p}
		req.Topics = []kmsg.OffsetCommitRequestTopic{in}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		code := rig.Code(resp.Topics[0].Partitions[0].ErrorCode)
		if !code.Retriable() || ctx.Err() != nil {
			return code
		}
		time.Sleep(50 * time.Millisecond)
	}
}
