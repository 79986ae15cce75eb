package devcluster

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestAWebInterfaceSeesStreamsGroupsAsKafkaShowsThem asks what web interfaces and the tools for consumer groups ask, in old and
// new versions: a list of all groups, each described by the older calls, its offsets. A streams group has no classic state,
// and while it has members nobody else changes its offsets.
func TestAWebInterfaceSeesStreamsGroupsAsKafkaShowsThem(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0")
	if _, err := r.adm.CreateTopics(r.ctx, 1, 1, nil, "in", "other"); err != nil {
		t.Fatal(err)
	}
	var at kadm.Offsets
	at.AddOffset("in", 0, 5, -1)
	at.AddOffset("other", 0, 6, -1)
	if _, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil {
		t.Fatal(err)
	}
	if resp := r.beat("app", 0); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	reader := r.client(kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit())
	eventually(t, "the other group is stable", func() bool {
		d, err := r.adm.DescribeGroups(r.ctx, "readers")
		return err == nil && d["readers"].State == "Stable"
	})
	for name, versions := range map[string]*kversion.Versions{"1.1": kversion.V1_1_0(), "2.8": kversion.V2_8_0(), "now": kversion.Tip()} {
		t.Run(name, func(t *testing.T) { r.looksAt(t, r.client(kgo.MaxVersions(versions)), name == "now") })
	}
	if resp := r.beat("app", -1); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	at.AddOffset("in", 0, 50, -1)
	if resp, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil || resp.Error() != nil || r.committed("app") != 50 {
		t.Errorf("offsets of an empty group: %v %v, committed %d", err, resp.Error(), r.committed("app"))
	}
	var topics kadm.TopicsSet
	topics.Add("in", 0)
	if resp, err := r.adm.DeleteOffsets(r.ctx, "app", topics); err != nil || resp.Error() != nil || r.committed("app") != 0 {
		t.Errorf("deletion for an empty group: %v %v, committed %d", err, resp.Error(), r.committed("app"))
	}
	reader.Close()
}

// looksAt is one interface's look at the cluster while app has a member.
func (r *running) looksAt(t *testing.T, cl *kgo.Client, types bool) {
	listed := map[string][]kmsg.ListGroupsResponseGroup{}
	for _, shard := range cl.RequestSharded(r.ctx, kmsg.NewPtrListGroupsRequest()) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		for _, g := range shard.Resp.(*kmsg.ListGroupsResponse).Groups {
			listed[g.Group] = append(listed[g.Group], g)
		}
	}
	if app := listed["app"]; len(listed) != 2 || len(app) != 1 || app[0].ProtocolType != "streams" || types && app[0].GroupType != "streams" {
		t.Errorf("listed %+v", listed)
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	for id := range listed {
		describe.Groups = append(describe.Groups, id)
	}
	for _, shard := range cl.RequestSharded(r.ctx, describe) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		resp := shard.Resp.(*kmsg.DescribeGroupsResponse)
		for _, g := range resp.Groups {
			code := int16(0)
			if resp.Version >= 6 {
				code = kerr.GroupIDNotFound.Code
			}
			switch {
			case g.Group == "readers" && (g.ErrorCode != 0 || g.State != "Stable" || len(g.Members) != 1),
				g.Group == "app" && (g.ErrorCode != code || g.State != "Dead" || len(g.Members) != 0):
				t.Errorf("v%d: %+v", resp.Version, g)
			}
		}
	}
	if types {
		consumer := kmsg.NewPtrConsumerGroupDescribeRequest()
		consumer.Groups = []string{"app"}
		if resp, err := consumer.RequestWith(r.ctx, cl); err != nil || resp.Groups[0].ErrorCode != kerr.GroupIDNotFound.Code || resp.Groups[0].ErrorMessage == nil {
			t.Errorf("%+v %v", resp, err)
		}
	}
	adm := kadm.NewClient(cl)
	if at, err := adm.FetchOffsets(r.ctx, "app"); err != nil || len(at.Offsets()["in"]) != 1 || at.Offsets()["in"][0].At != 5 {
		t.Errorf("%v %v", at, err)
	}
	var reset kadm.Offsets
	reset.AddOffset("in", 0, 0, -1)
	if resp, err := adm.CommitOffsets(r.ctx, "app", reset); err != nil || !errors.Is(resp.Error(), kerr.UnknownMemberID) {
		t.Errorf("a reset while the application runs: %v %v", err, resp.Error())
	}
	if !types { // OffsetDelete came with 2.4
		return
	}
	var topics kadm.TopicsSet
	topics.Add("in", 0)
	if resp, err := adm.DeleteOffsets(r.ctx, "app", topics); err != nil || !errors.Is(resp.Error(), kerr.GroupSubscribedToTopic) {
		t.Errorf("deletion of what is read: %v %v", err, resp.Error())
	}
	if got := r.committed("app"); got != 5 {
		t.Errorf("offset %d", got)
	}
}
