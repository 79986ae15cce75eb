//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// asked is a question of an admin client of Go, put to both sides.
type asked struct {
	ctx       context.Context
	bootstrap string
	admin     *kadm.Client
}

// same puts a question to both sides and compares the answers; a question that only reads is put again while they differ.
func (b *both) same(t *testing.T, what string, changes bool, question func(asked) any) {
	t.Helper()
	b.each(func(s *side) { s.beat(t) })
	end := time.Now().Add(sameWithin)
	for {
		var answers []any
		b.each(func(s *side) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			answers = append(answers, question(asked{ctx, s.bootstrap, s.admin}))
		})
		diff := gocmp.Diff(answers[0], answers[1], cmpopts.IgnoreTypes(kmsg.Tags{}), cmpopts.EquateEmpty())
		if diff == "" {
			t.Logf("%s: same: %.200s", what, fmt.Sprintf("%+v", answers[1]))
			return
		}
		if changes || time.Now().After(end) {
			t.Errorf("%s differs (-kafka +coordd):\n%s\nanswer of Kafka: %+v", what, diff, answers[0])
			return
		}
		pause(t.Context(), 300*time.Millisecond)
	}
}

func (b *both) reads(t *testing.T, what string, question func(asked) any) {
	t.Helper()
	b.same(t, what, false, question)
}

func (b *both) changes(t *testing.T, what string, question func(asked) any) {
	t.Helper()
	b.same(t, what, true, question)
}

// text is an error in words; errors are compared by what they say.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// adminReads are questions that change nothing, put while groups have members and again when they have none.
func adminReads(t *testing.T, b *both) {
	for _, filter := range [][]string{nil, {"Stable"}, {"empty"}, {"Stable", "Empty"}, {"Dead"}} {
		b.reads(t, fmt.Sprintf("ListGroups of states %v", filter), func(a asked) any { return listed(a.admin.ListGroups(a.ctx, filter...)) })
	}
	for _, types := range [][]string{{"streams"}, {"STREAMS"}, {"classic"}, {"streams", "classic"}, {"nonsense"}} {
		b.reads(t, fmt.Sprintf("ListGroups of types %v", types), func(a asked) any { return listed(a.admin.ListGroupsByType(a.ctx, types)) })
	}
	b.reads(t, "ListGroups of a type and a state", func(a asked) any {
		return listed(a.admin.ListGroupsByType(a.ctx, []string{"streams"}, "Empty"))
	})
	b.reads(t, "DescribeGroups", func(a asked) any {
		groups, err := a.admin.DescribeGroups(a.ctx, "count", "plain", "waiting", "nobody", "simple", "readers")
		out := map[string]string{"": text(err)}
		for id, g := range groups {
			out[id] = fmt.Sprint(g.State, g.ProtocolType, g.Protocol, len(g.Members), g.AuthorizedOperations, g.Err, g.ErrMessage)
		}
		return out
	})
	b.reads(t, "DescribeConsumerGroups", func(a asked) any {
		groups, err := a.admin.DescribeConsumerGroups(a.ctx, "count", "nobody")
		out := map[string]string{"": text(err)}
		for id, g := range groups {
			out[id] = fmt.Sprint(g.State, len(g.Members), g.Err)
		}
		return out
	})
	for version := range int16(2) {
		b.reads(t, fmt.Sprintf("StreamsGroupDescribe v%d", version), func(a asked) any { return described(a.bootstrap, version) })
	}
	b.reads(t, "FetchOffsets", func(a asked) any {
		out := map[string]string{}
		for _, group := range []string{"count", "plain", "waiting", "nobody", "simple"} {
			offsets, err := a.admin.FetchOffsets(a.ctx, group)
			out[group] = text(err)
			offsets.Each(func(o kadm.OffsetResponse) { out[fmt.Sprint(group, o.Topic, o.Partition)] = offset(o) })
		}
		return out
	})
	b.reads(t, "FetchManyOffsets", func(a asked) any {
		out := map[string]string{}
		a.admin.FetchManyOffsets(a.ctx, "count", "simple", "plain", "nobody").EachError(func(r kadm.FetchOffsetsResponse) { out[r.Group] = text(r.Err) })
		for group, r := range a.admin.FetchManyOffsets(a.ctx, "count", "simple", "plain", "nobody") {
			r.Fetched.Each(func(o kadm.OffsetResponse) { out[fmt.Sprint(group, o.Topic, o.Partition)] = offset(o) })
		}
		return out
	})
	b.reads(t, "FetchOffsetsForTopics", func(a asked) any {
		offsets, err := a.admin.FetchOffsetsForTopics(a.ctx, "count", "orders", "clicks")
		out := map[string]string{"": text(err)}
		offsets.Each(func(o kadm.OffsetResponse) { out[fmt.Sprint(o.Topic, o.Partition)] = offset(o) })
		return out
	})
	b.reads(t, "FindGroupCoordinators", func(a asked) any {
		out := map[string]string{}
		for group, r := range a.admin.FindGroupCoordinators(a.ctx, "count", "nobody", "simple", "") {
			out[group] = fmt.Sprint(r.Err, r.ErrMessage, r.Host)
		}
		return out
	})
}

// adminActive are changes that a group with members refuses.
func adminActive(t *testing.T, b *both) {
	b.changes(t, "CommitOffsets to a group with members", func(a asked) any { return committed(a, "count", 0) })
	b.changes(t, "DeleteOffsets of a group with members", func(a asked) any { return deleted(a, "count") })
	b.changes(t, "DeleteGroups with members", func(a asked) any { return dropped(a, "count", "nobody", "waiting") })
	b.changes(t, "LeaveGroup for a static member", func(a asked) any {
		out, err := a.admin.LeaveGroup(a.ctx, kadm.LeaveGroup("count").InstanceIDs("second"))
		return fmt.Sprint(out, text(err))
	})
}

// adminEmpty are changes to groups without members.
func adminEmpty(t *testing.T, b *both) {
	toldCounts(t, b)
	b.changes(t, "CommitOffsets to an empty group", func(a asked) any { return committed(a, "plain", 0, 7) })
	b.reads(t, "FetchOffsets after it", func(a asked) any {
		offsets, err := a.admin.FetchOffsets(a.ctx, "plain")
		out := map[string]string{"": text(err)}
		offsets.Each(func(o kadm.OffsetResponse) { out[fmt.Sprint(o.Topic, o.Partition)] = offset(o) })
		return out
	})
	b.changes(t, "DeleteOffsets of an empty group", func(a asked) any { return deleted(a, "plain") })
	b.changes(t, "DeleteOffsets of no group", func(a asked) any { return deleted(a, "nobody") })
}

// toldCounts waits until coordd tells no partition count of a changelog topic that was deleted. Kafka goes on to tell what it
// knew when the last member sent a heartbeat.
func toldCounts(t *testing.T, b *both) {
	t.Helper()
	ctx := within(t, sameWithin)
	for {
		groups, _ := described(b.coordd.bootstrap, 1).([]kmsg.StreamsGroupDescribeResponseGroup)
		if len(groups) > 0 && groups[0].Topology != nil && groups[0].Topology.Subtopologies[1].StateChangelogTopics[0].NumPartitions == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the changelog topic is deleted, coordd still tells %+v", groups)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func listed(groups kadm.ListedGroups, err error) any {
	out := map[string]string{"": text(err)}
	for id, g := range groups {
		out[id] = fmt.Sprint(g.GroupType, g.ProtocolType, g.State)
	}
	return out
}

func offset(o kadm.OffsetResponse) string {
	return fmt.Sprint(o.At, o.LeaderEpoch, o.Metadata, text(o.Err))
}

// committed commits offsets of topics of any kind, among them the given partitions of a topic that has one.
func committed(a asked, group string, partitions ...int32) any {
	var offsets kadm.Offsets
	offsets.AddOffset("clicks", 0, 2, -1)
	offsets.AddOffset("nowhere", 0, 1, -1)
	for _, p := range partitions {
		offsets.AddOffset("other", p, 1, 0)
	}
	resp, err := a.admin.CommitOffsets(a.ctx, group, offsets)
	out := map[string]string{"": text(err)}
	resp.Each(func(o kadm.OffsetResponse) { out[fmt.Sprint(o.Topic, o.Partition)] = text(o.Err) })
	return out
}

func deleted(a asked, group string) any {
	topics := kadm.TopicsSet{}
	topics.Add("orders", 0, 1)
	topics.Add("clicks", 0)
	topics.Add("other", 0)
	topics.Add("nowhere", 0)
	resp, err := a.admin.DeleteOffsets(a.ctx, group, topics)
	out := map[string]string{"": text(err)}
	for topic, partitions := range resp {
		for p, err := range partitions {
			out[fmt.Sprint(topic, p)] = text(err)
		}
	}
	return out
}

func dropped(a asked, groups ...string) any {
	resp, err := a.admin.DeleteGroups(a.ctx, groups...)
	out := map[string]string{"": text(err)}
	for id, g := range resp {
		out[id] = text(g.Err)
	}
	return out
}

// described asks the coordinator of each group for all that it tells.
func described(bootstrap string, version int16) any {
	var out []kmsg.StreamsGroupDescribeResponseGroup
	for _, group := range []string{"count", "plain", "waiting", "nobody", "readers"} {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
		_, addr, err := rig.FindCoordinator(bootstrap, group, 5*time.Second)
		if err != nil {
			return text(err)
		}
		conn, err := rig.Dial(addr)
		if err != nil {
			return text(err)
		}
		resp, err := conn.DoVersion(req, version, 10*time.Second)
		conn.Close()
		if err != nil {
			return text(err)
		}
		out = append(out, resp.(*kmsg.StreamsGroupDescribeResponse).Groups...)
	}
	for _, g := range out {
		slices.SortFunc(g.Members, func(a, b kmsg.StreamsGroupDescribeResponseGroupMember) int {
			return cmp.Compare(a.MemberID, b.MemberID)
		})
	}
	return out
}
