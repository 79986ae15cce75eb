//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// TestOffsetFaults does to committed offsets what others lost them by, with both stores: leaders that are cut off with commits
// under way, members whose epoch moves, retention, topics made anew, ids that change their type, and nodes that are all killed.
func TestOffsetFaults(t *testing.T) {
	for _, store := range []string{"upstream", "raft"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			f := startFaults(t, store)
			t.Run("in peace", func(t *testing.T) {
				t.Run("retention", func(t *testing.T) {
					t.Parallel()
					f.retention(t)
				})
				t.Run("epochs", func(t *testing.T) {
					t.Parallel()
					f.epochs(t)
				})
				t.Run("topic made anew", func(t *testing.T) {
					t.Parallel()
					f.topicMadeAnew(t)
				})
			})
			t.Run("acknowledged", f.acknowledged)
			t.Run("types", f.types)
		})
	}
}

// offsetFaults is a cluster whose new groups have one store.
type offsetFaults struct {
	store   string
	cluster *rig.Cluster
	boot    string
}

// retained is for how long offsets are kept, the shortest that there is.
const retained = time.Minute

func startFaults(t *testing.T, store string) *offsetFaults {
	t.Helper()
	dir := place(t)
	k, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: dir, Nodes: 1, Heap: "512m",
		Lines: []string{"offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1000"}})
	if k != nil {
		t.Cleanup(k.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	more := map[string]any{"offsets.store": store, "offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000}
	maps.Copy(more, scripted)
	f := &offsetFaults{store: store, cluster: startClusterWith(t, 3, k.Bootstrap(), dir, more)}
	f.boot = f.cluster.Bootstrap()
	return f
}

// joined is a member that has its tasks.
func (f *offsetFaults) joined(t *testing.T, group, topic string) *rig.Probe {
	t.Helper()
	p := rig.NewProbe(f.boot, group, topic)
	if err := p.Settle(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	return p
}

// commit commits as a member or, with epoch -1 and no member, as a tool, until it is told something.
func (f *offsetFaults) commit(t *testing.T, group, member string, epoch int32, topic string, offsets map[int32]int64) rig.Code {
	t.Helper()
	return atCoordinator(t, f.boot, group, func(c *rig.Conn) rig.Code {
		r := asked1[*kmsg.OffsetCommitResponse](t, c, commitRequest(group, member, epoch, topic, offsets), 9)
		for _, p := range r.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return rig.Code(p.ErrorCode)
			}
		}
		return 0
	})
}

func commitRequest(group, member string, epoch int32, topic string, offsets map[int32]int64) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation = group, member, epoch
	in := kmsg.NewOffsetCommitRequestTopic()
	in.Topic = topic
	for n, offset := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = n, offset, kmsg.StringPtr("")
		in.Partitions = append(in.Partitions, p)
	}
	r.Topics = append(r.Topics, in)
	return r
}

func (f *offsetFaults) mustCommit(t *testing.T, p *rig.Probe, topic string, offsets map[int32]int64) {
	t.Helper()
	if code := f.commit(t, p.Group, p.Member, p.Epoch, topic, offsets); code != 0 {
		t.Fatalf("commit to %s: %v", p.Group, code)
	}
}

// is checks the committed offset of partition 0; "" for none.
func (f *offsetFaults) is(t *testing.T, when, group, topic, want string) {
	t.Helper()
	if got := fetched(t, f.boot, group, topic, true, 0)[0]; got != want {
		t.Errorf("%s: %s of %s is at %q, not %q", when, topic, group, got, want)
	}
}

func left(t *testing.T, p *rig.Probe) {
	t.Helper()
	if err := p.Leave(); err != nil {
		t.Fatal(err)
	}
}

// retention keeps the offsets of an app that runs and commits nothing, and lets those of one that has left go, but not early.
func (f *offsetFaults) retention(t *testing.T) {
	createSized(t, f.boot, 1, "kept.in", "kept.other")
	runs, gone := f.joined(t, "kept-runs", "kept.in"), f.joined(t, "kept-left", "kept.in")
	f.mustCommit(t, runs, "kept.in", map[int32]int64{0: 5})
	f.mustCommit(t, runs, "kept.other", map[int32]int64{0: 6})
	f.mustCommit(t, gone, "kept.in", map[int32]int64{0: 7})
	left(t, gone)
	begin := time.Now()
	expired := map[string]time.Duration{}
	ctx := within(t, 3*time.Minute)
	for ctx.Err() == nil {
		if err := runs.Beat(10 * time.Second); err != nil && !retriable(err) {
			t.Fatalf("the member that stays: %v", err)
		}
		for _, what := range []struct{ group, topic string }{{"kept-left", "kept.in"}, {"kept-runs", "kept.other"}} {
			if _, known := expired[what.topic]; !known && len(fetched(t, f.boot, what.group, what.topic, false, 0)) == 0 {
				expired[what.topic] = time.Since(begin)
			}
		}
		// Kafka keeps all offsets of a group upstream that has a member, and knows no topics of coordd's.
		if len(expired) == 2 || len(expired) == 1 && f.store == "upstream" && time.Since(begin) > retained+20*time.Second {
			break
		}
		pause(ctx, time.Second)
	}
	t.Logf("FIGURE store %s: with a retention of %v offsets went after %v", f.store, retained, expired)
	for what, after := range expired {
		if after < retained-5*time.Second {
			t.Errorf("%s went after %v", what, after)
		}
	}
	if _, ok := expired["kept.in"]; !ok {
		t.Error("the offsets of a group without members do not go")
	}
	if _, ok := expired["kept.other"]; ok != (f.store == "raft") {
		t.Errorf("the offset of a topic that a running app does not read went: %v", ok)
	}
	f.is(t, "while its app runs", "kept-runs", "kept.in", "5")
	if _, err := describeStreams(f.boot, "kept-left"); !errors.Is(err, rig.Code(69)) { // GROUP_ID_NOT_FOUND
		t.Errorf("the group that was left for the retention: %v", err)
	}
	left(t, runs)
}

func describeStreams(boot, group string) (*rig.Group, error) {
	var g *rig.Group
	var err error
	for range 50 {
		if g, err = rig.DescribeGroup(boot, group, 0); err == nil || errors.Is(err, rig.Code(69)) {
			return g, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return g, err
}

// topicMadeAnew deletes a topic with offsets and creates it again: its offsets do not come back under any id or name, whichever
// node is asked, and ids that are no topic's are refused one by one.
func (f *offsetFaults) topicMadeAnew(t *testing.T) {
	const group, topic, other = "anew", "anew.in", "anew.other"
	adm := kadm.NewClient(client(t, f.boot))
	createSized(t, f.boot, 1, topic, other)
	ids := f.ids(t, adm, topic, other)
	member := f.joined(t, group, topic)
	f.mustCommit(t, member, topic, map[int32]int64{0: 5})
	f.mustCommit(t, member, other, map[int32]int64{0: 6})
	left(t, member)
	ctx := within(t, time.Minute)
	if r, err := adm.DeleteTopics(ctx, topic); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}
	for { // until it is gone for all
		if listed, err := adm.ListTopics(ctx, topic); err == nil && errors.Is(listed[topic].Err, kerr.UnknownTopicOrPartition) {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the topic is not deleted")
		}
		pause(ctx, 50*time.Millisecond)
	}
	createSized(t, f.boot, 1, topic)
	now := f.ids(t, adm, topic)
	want := map[kadm.TopicID]string{ids[topic]: "error code 100", now[topic]: "-1", ids[other]: "6"} // UNKNOWN_TOPIC_ID
	var admins []string
	for _, n := range f.cluster.Nodes {
		admins = append(admins, n.Admin)
	}
	mover := rig.NewMover(admins, shards)
	for range f.cluster.Nodes {
		if err := mover.Move([]string{group}); err != nil {
			t.Fatal(err)
		}
		var got map[kadm.TopicID]string
		for got == nil || !maps.Equal(got, want) && ctx.Err() == nil { // the new topic comes to be known
			got = f.byID(t, group, ids[topic], now[topic], ids[other])
			pause(ctx, 50*time.Millisecond)
		}
		if !maps.Equal(got, want) {
			t.Errorf("by id, the former %v, the new %v, another %v: %v", ids[topic], now[topic], ids[other], got)
		}
		f.is(t, "by name", group, topic, "")
	}
	member = f.joined(t, group, topic)
	f.mustCommit(t, member, topic, map[int32]int64{0: 1})
	f.is(t, "committed anew", group, topic, "1")
	left(t, member)
}

func (f *offsetFaults) ids(t *testing.T, adm *kadm.Client, topics ...string) map[string]kadm.TopicID {
	t.Helper()
	ctx := within(t, 20*time.Second)
	listed, err := adm.ListTopics(ctx, topics...)
	for err = errors.Join(err, listed.Error()); err != nil; err = errors.Join(err, listed.Error()) { // another broker may be behind
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		pause(ctx, 50*time.Millisecond)
		listed, err = adm.ListTopics(ctx, topics...)
	}
	ids := map[string]kadm.TopicID{}
	for _, topic := range topics {
		ids[topic] = listed[topic].ID
	}
	return ids
}

// byID reads the offsets of partition 0 of topics by their ids, with what is said of each.
func (f *offsetFaults) byID(t *testing.T, group string, ids ...kadm.TopicID) map[kadm.TopicID]string {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for _, id := range ids {
		in := kmsg.NewOffsetFetchRequestGroupTopic()
		in.TopicID, in.Partitions = id, []int32{0}
		g.Topics = append(g.Topics, in)
	}
	req.Groups = append(req.Groups, g)
	got := map[kadm.TopicID]string{}
	code := atCoordinator(t, f.boot, group, func(c *rig.Conn) rig.Code {
		r := asked1[*kmsg.OffsetFetchResponse](t, c, req, 10).Groups[0]
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				if got[topic.TopicID] = fmt.Sprint(p.Offset); p.ErrorCode != 0 {
					got[topic.TopicID] = rig.Code(p.ErrorCode).Error()
				}
			}
		}
		return rig.Code(r.ErrorCode)
	})
	if code != 0 {
		t.Fatal(code)
	}
	return got
}

// types lets group ids change between the types, with all nodes killed and started again in between: the offsets go along, from
// where they were committed first and last.
func (f *offsetFaults) types(t *testing.T) {
	const topic = "typed.in"
	createSized(t, f.boot, 1, topic)
	cl := client(t, f.boot)
	for range 10 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	groups := []string{"typed-simple-first", "typed-streams-first"}
	if code := f.commit(t, groups[0], "", -1, topic, map[int32]int64{0: 3}); code != 0 {
		t.Fatal(code)
	}
	for _, group := range groups {
		member := f.joined(t, group, topic)
		if group == groups[0] {
			f.is(t, "from a tool", group, topic, "3")
		}
		f.mustCommit(t, member, topic, map[int32]int64{0: 5})
		left(t, member)
	}
	f.killAll(t)
	for _, group := range groups {
		f.is(t, "after all nodes were killed", group, topic, "5")
		f.classic(t, group, topic, 5)
	}
	f.killAll(t)
	for _, group := range groups {
		member := f.joined(t, group, topic)
		f.is(t, "from a classic group, after all nodes were killed", group, topic, "6")
		f.mustCommit(t, member, topic, map[int32]int64{0: 7})
		left(t, member)
		f.is(t, "in the end", group, topic, "7")
	}
}

// classic lets a classic consumer have the group, which begins where it was and commits one record more.
func (f *offsetFaults) classic(t *testing.T, group, topic string, from int64) {
	t.Helper()
	ctx := within(t, time.Minute)
	consumer := client(t, f.boot, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	var first *kgo.Record
	for first == nil && ctx.Err() == nil {
		if records := consumer.PollFetches(ctx).Records(); len(records) > 0 {
			first = records[0]
		}
	}
	if first == nil || first.Offset != from {
		t.Fatalf("the classic group %s does not begin at %d: %+v", group, from, first)
	}
	if err := consumer.CommitRecords(ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := consumer.LeaveGroupContext(ctx); err != nil {
		t.Fatal(err)
	}
	consumer.Close()
}

func (f *offsetFaults) killAll(t *testing.T) {
	t.Helper()
	var gone sync.WaitGroup
	for _, n := range f.cluster.Nodes {
		gone.Go(n.Kill)
	}
	gone.Wait()
	for _, n := range f.cluster.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.cluster.WaitReady(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
}
