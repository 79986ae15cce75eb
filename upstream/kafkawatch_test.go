package upstream

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

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
