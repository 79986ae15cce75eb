//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/test/e2e/content"
)

const partitions = 3

func client(t *testing.T, bootstrap string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	base := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.AlwaysRetryEOF(), // a node that is killed ends connections that were just made: no sign of missing credentials
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// createTopics creates the topics of an application.
func createTopics(t *testing.T, bootstrap, app, topology string) {
	t.Helper()
	var names []string
	for _, suffix := range content.Topics(topology) {
		names = append(names, app+suffix)
	}
	createSized(t, bootstrap, partitions, names...)
}

// createSized creates topics with a number of partitions.
func createSized(t *testing.T, bootstrap string, n int32, names ...string) {
	t.Helper()
	admin := kadm.NewClient(client(t, bootstrap))
	ctx := within(t, 30*time.Second)
	resp, err := admin.CreateTopics(ctx, n, -1, nil, names...)
	if err = errors.Join(err, resp.Error()); err != nil {
		t.Fatalf("create topics: %v", err)
	}
	for { // a topic is of use once every partition has a leader
		details, err := admin.ListTopics(ctx, names...)
		if err == nil && details.Error() == nil && len(details) == len(names) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("topics %v: %v", names, err)
		}
	}
}

// feeder produces the input of an application from its own goroutine.
type feeder struct {
	steps  atomic.Int64 // produced so far
	width  atomic.Int32 // partitions of each topic that are written, in turn; 0: by the hash of the key
	held   atomic.Bool  // while it is set nothing is produced
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan error
}

// feed produces rate steps a second, until n steps are produced (n < 0: until stop).
func feed(t *testing.T, bootstrap, app, topology string, rate, n int) *feeder {
	t.Helper()
	f := &feeder{}
	f.start(t, client(t, bootstrap, kgo.ProducerLinger(5*time.Millisecond)), app, topology, rate, n)
	return f
}

// feedFirst produces rate steps a second until stop, to the first partitions of each topic only.
func feedFirst(t *testing.T, width int32, bootstrap, app, topology string, rate int) *feeder {
	t.Helper()
	f := &feeder{}
	f.width.Store(width)
	f.start(t, client(t, bootstrap, kgo.ProducerLinger(5*time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner())),
		app, topology, rate, -1)
	return f
}

func (f *feeder) start(t *testing.T, cl *kgo.Client, app, topology string, rate, n int) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cl, f.cancel, f.done = cl, cancel, make(chan error, 1)
	t.Cleanup(cancel)
	go func() { f.done <- f.run(ctx, cl, app, topology, rate, n) }()
}

// widen makes a feeder that writes the first partitions write more of them, once it knows those.
func (f *feeder) widen(t *testing.T, app, topology string, width int32) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for _, r := range content.Input(topology, 0) {
		for {
			if leader, _, err := f.cl.PartitionLeader(app+r.Topic, width-1); err == nil && leader >= 0 {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("the producer does not know of partition %d of %s", width-1, app+r.Topic)
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
	f.width.Store(width)
}

func (f *feeder) run(ctx context.Context, cl *kgo.Client, app, topology string, rate, n int) error {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var failed atomic.Pointer[error]
	for i := 0; n < 0 || i < n; i++ {
		select {
		case <-ctx.Done():
			n = i
			continue
		case <-tick.C:
		}
		if f.held.Load() {
			i--
			continue
		}
		width := max(f.width.Load(), 1)
		for _, r := range content.Input(topology, i) {
			record := &kgo.Record{Topic: app + r.Topic, Key: []byte(r.Key), Value: []byte(r.Value), Partition: int32(i) % width}
			cl.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
		}
		f.steps.Add(1)
	}
	flush, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.Flush(flush); err != nil {
		return fmt.Errorf("flush the input: %w", err)
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("produce: %w", *err)
	}
	return nil
}

// wait returns the number of steps once all are produced.
func (f *feeder) wait(t *testing.T) int {
	t.Helper()
	if err := <-f.done; err != nil {
		t.Fatal(err)
	}
	return int(f.steps.Load())
}

// stop ends the input and returns the number of steps produced.
func (f *feeder) stop(t *testing.T) int {
	t.Helper()
	f.cancel()
	return f.wait(t)
}

// quiet is how long no further output may come after the output is complete: several commit intervals.
const quiet = 1500 * time.Millisecond

// verify reads the committed output and compares it with what the steps must give.
func verify(t *testing.T, bootstrap, app, topology string, steps int, limit time.Duration) {
	t.Helper()
	verifyTopic(t, bootstrap, app+".out", content.NewCheck(topology, steps), steps, limit)
}

// verifyTopic does the same with any output topic and its check.
func verifyTopic(t *testing.T, bootstrap, topic string, check content.Check, steps int, limit time.Duration) {
	t.Helper()
	cl := client(t, bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(250*time.Millisecond))
	defer cl.Close()
	begin := time.Now()
	ctx := within(t, limit)
	for !check.Complete() && ctx.Err() == nil {
		addFetched(ctx, cl, check)
	}
	complete := time.Since(begin)
	if check.Complete() {
		after, cancel := context.WithTimeout(t.Context(), quiet)
		defer cancel()
		for after.Err() == nil {
			addFetched(after, cl, check)
		}
	}
	if err := check.Err(); err != nil {
		t.Errorf("output %s is wrong: %v", topic, err)
		return
	}
	t.Logf("%s: %d steps of input gave %d output records, exact, complete %.1f s after the reader started", topic, steps, check.Outputs(), complete.Seconds())
}

func addFetched(ctx context.Context, cl *kgo.Client, check content.Check) {
	cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { check.Add(string(r.Key), r.Value) })
}
