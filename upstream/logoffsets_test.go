package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// TestLogOffsets asks several brokers, for what there is and for what there is not.
func TestLogOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
		c := w.node().client
		ctx := context.Background()
		producer, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(w.dial), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Close()
		for i := range 5 {
			record := &kgo.Record{Topic: "in", Partition: 1, Timestamp: time.UnixMilli(int64(1000 * i)), Value: []byte("v")}
			if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		asked := map[string][]int32{"in": {0, 1, 7, 8}, "absent": {0}}
		at := func(topic string, partition int32) offsets.TopicPartition {
			return offsets.TopicPartition{Topic: topic, Partition: partition}
		}
		missing := offsets.LogOffset{Offset: -1, Code: coordinator.UnknownTopicOrPartition}
		for time, want := range map[int64][3]int64{offsets.LogStart: {0, 0, 0}, offsets.LogEnd: {0, 5, 0}, 2500: {-1, 3, -1}, 3000: {-1, 3, -1}, 9000: {-1, -1, -1}} {
			got := c.LogOffsets(ctx, time, asked)
			expected := map[offsets.TopicPartition]offsets.LogOffset{
				at("in", 0): {Offset: want[0]}, at("in", 1): {Offset: want[1]}, at("in", 7): {Offset: want[2]}, at("in", 8): missing, at("absent", 0): missing,
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("at %d: %s", time, diff)
			}
		}
		w.cluster.Close()
		synctest.Wait()
		for key, o := range c.LogOffsets(ctx, offsets.LogEnd, map[string][]int32{"in": {0}}) {
			if o != (offsets.LogOffset{Offset: -1, Code: coordinator.CoordinatorNotAvailable}) {
				t.Errorf("without brokers: %v %+v", key, o)
			}
		}
	})
}
