package upstream

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// TestRealKafkaRepeatsItself checks against the broker at COORDD_TEST_KAFKA that answers say the same byte for byte, outside
// of their head, while nothing changes: that is what makes a poll cheap. COORDD_TEST_TOPICS is how many topics there are
// to be, 100 by default; the time of a poll is logged.
func TestRealKafkaRepeatsItself(t *testing.T) {
	address := os.Getenv("COORDD_TEST_KAFKA")
	if address == "" {
		t.Skip("COORDD_TEST_KAFKA names no broker")
	}
	topics := 100
	if n, err := strconv.Atoi(os.Getenv("COORDD_TEST_TOPICS")); err == nil {
		topics = n
	}
	c, err := Open(Options{Bootstrap: []string{address}, RequestTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var batch []topology.InternalTopic
	for n := range topics {
		batch = append(batch, topology.InternalTopic{Name: fmt.Sprintf("repeated-%05d", n), Partitions: 3})
		if len(batch) == 200 || n == topics-1 {
			if _, err := c.CreateTopics(context.Background(), batch); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	deadline := time.Now().Add(time.Minute)
	for s := poll(t, c); len(s.Topics) < topics; s = poll(t, c) {
		if time.Now().After(deadline) {
			t.Fatalf("%d topics of %d", len(s.Topics), topics)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	first := poll(t, c)
	hash := c.metadata.reader.hash
	const polls = 20
	began := time.Now()
	for range polls {
		s := poll(t, c)
		if &s.Topics[0] != &first.Topics[0] || c.metadata.reader.hash != hash || s.From != first.From {
			t.Fatalf("another answer although nothing changed: %d topics from %q", len(s.Topics), s.From)
		}
	}
	t.Logf("%d topics: %v a poll", len(first.Topics), time.Since(began)/polls)
}

// TestRealKafkaHashesTheSame has the broker at COORDD_TEST_KAFKA make a streams group, and compares the metadata hash in the
// group's record with the one of the topics as the watch sees them. Start the broker with broker.rack to have racks count.
func TestRealKafkaHashesTheSame(t *testing.T) {
	address := os.Getenv("COORDD_TEST_KAFKA")
	if address == "" {
		t.Skip("COORDD_TEST_KAFKA names no broker")
	}
	c, err := Open(Options{Bootstrap: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	suffix := strconv.FormatInt(time.Now().UnixNano(), 36)
	group, names := "hashed-"+suffix, []string{"b-" + suffix, "a-" + suffix, "c-" + suffix}
	for n, name := range names {
		create(t, c, name, int32(n+1))
	}
	for !known(poll(t, c), names) {
		time.Sleep(50 * time.Millisecond)
	}
	image := topicctl.NewImage(poll(t, c), nil)
	joinStreams(ctx, t, address, int(image.Brokers[0].ID), group, names)
	want := recordedHash(ctx, t, address, group)
	top := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: names}}}
	if got := topology.MetadataHash(top, image); got != want {
		t.Errorf("hash %d, Kafka's %d; topics %+v", got, want, image.Names())
	}
	topic, _ := image.Topic(names[2])
	t.Logf("hash %d, racks %v", want, topic.Racks)
}

func known(s *topicctl.Snapshot, names []string) bool {
	image := topicctl.NewImage(s, nil)
	for _, name := range names {
		if _, ok := image.Topic(name); !ok {
			return false
		}
	}
	return true
}

// joinStreams has one member join a streams group. The cluster has one broker, which coordinates it.
func joinStreams(ctx context.Context, t *testing.T, address string, broker int, group string, sources []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.MaxVersions(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "m", 60_000
	req.ProcessID, req.ClientTags = kmsg.StringPtr("p"), []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	top := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	sub.SubtopologyID, sub.SourceTopics = "0", sources
	top.Subtopologies = append(top.Subtopologies, sub)
	req.Topology = &top
	for ctx.Err() == nil {
		find := kmsg.NewPtrFindCoordinatorRequest() // the first one creates __consumer_offsets
		find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
		_, _ = cl.Request(ctx, find)
		resp, err := cl.Broker(broker).Request(ctx, req)
		if err == nil && resp.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode == 0 {
			return
		}
		t.Log("heartbeat:", resp, err)
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatal("the broker takes no member")
}

// recordedHash reads the metadata hash of a group from the broker's log.
func recordedHash(ctx context.Context, t *testing.T, address, group string) int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("__consumer_offsets"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for ctx.Err() == nil {
		for _, r := range cl.PollFetches(ctx).Records() {
			key, err := record.DecodeKey(r.Key)
			if err != nil || key.Type != record.TypeGroupMetadata || key.Group != group || r.Value == nil {
				continue
			}
			value, err := record.DecodeValue(key.Type, r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if hash := value.(*record.GroupMetadata).MetadataHash; hash != 0 {
				return hash
			}
		}
	}
	t.Fatal("no record of the group")
	return 0
}
