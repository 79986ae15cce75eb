package devcluster

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// withLogs changes a join: the subtopology has changelogs with these settings.
func withLogs(rf int16, config string, names ...string) func(*kmsg.StreamsGroupHeartbeatRequest) {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) {
		if r.Topology == nil {
			return
		}
		for _, name := range names {
			log := kmsg.NewTopicInfo()
			log.Topic, log.ReplicationFactor = name, rf
			cfg := kmsg.NewTopicInfoConfig()
			cfg.Key, cfg.Value, _ = strings.Cut(config, "=")
			log.Configs = append(log.Configs, cfg)
			r.Topology.Subtopologies[0].StateChangelogTopics = append(r.Topology.Subtopologies[0].StateChangelogTopics, log)
		}
	}
}

// TestInternalTopics has an upstream refuse a topic and allow it again, and shows it topics that exist: what members are
// told, what is counted and what is logged.
func TestInternalTopics(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	log := &lines{}
	port, admin := ports(t)
	c, err := Start(ctx, Options{
		Port: port, AdminPort: admin, Set: []string{"group.streams.initial.rebalance.delay.ms=0"},
		Logger: hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Info}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	r := &running{Cluster: c, t: t, ctx: ctx}
	r.cl = r.client()
	r.adm = kadm.NewClient(r.cl)
	made, err := r.adm.CreateTopics(ctx, 2, 1, nil, "in")
	if err != nil || made.Error() != nil {
		t.Fatal(err, made.Error())
	}
	refusal := r.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "app-denied", Err: kerr.TopicAuthorizationFailed, Count: -1})

	status := func(resp *kmsg.StreamsGroupHeartbeatResponse) string {
		if resp.ErrorCode != 0 {
			t.Fatalf("code %d: %v", resp.ErrorCode, resp.ErrorMessage)
		}
		for _, s := range resp.Status {
			return s.StatusDetail
		}
		return ""
	}
	topology := withLogs(1, "cleanup.policy=compact", "app-denied", "app-fine")
	epoch := int32(0)
	next := func() *kmsg.StreamsGroupHeartbeatResponse {
		resp := r.beatWith("app", epoch, topology)
		epoch = resp.MemberEpoch
		return resp
	}
	eventually(t, "the member is told which right is missing where", func() bool {
		text := status(next())
		return strings.Contains(text, "; creation failed: app-denied (TOPIC_AUTHORIZATION_FAILED") &&
			strings.Contains(text, "CREATE on Topic app-denied and on Cluster kafka-cluster") && !strings.Contains(text, "app-fine,")
	})
	eventually(t, "the other topic is made", func() bool {
		found, err := r.adm.ListTopics(ctx, "app-fine")
		return err == nil && found["app-fine"].Err == nil && len(found["app-fine"].Partitions) == 2
	})
	attempts := refusal.Hits()
	for _, want := range []string{
		`coordd_internal_topic_creation_failures_total{reason="TOPIC_AUTHORIZATION_FAILED"}`, "coordd_internal_topics_wanted 1\n", "coordd_internal_topics_created_total 1\n",
	} {
		eventually(t, "there is the metric "+want, func() bool { // the watch sees the topic a moment later than the client
			var text []byte
			for node := range nodes {
				text = append(text, r.scrape(node)...)
			}
			return bytes.Contains(text, []byte(want))
		})
	}
	if n := log.count("cannot create internal topics"); n != 1 {
		t.Errorf("%d lines about what failed, after %d attempts", n, attempts)
	}
	refusal.Remove()
	eventually(t, "the member gets its tasks", func() bool {
		resp := next()
		return status(resp) == "" && len(resp.ActiveTasks) > 0
	})

	// A topic of another size, and one with other settings.
	for name, partitions := range map[string]int32{"big-log": 3, "other-log": 2} {
		if _, err := r.adm.CreateTopic(ctx, partitions, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("delete")}, name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a wrong size is told", func() bool {
		return strings.Contains(status(r.beatWith("big", 0, withLogs(1, "cleanup.policy=compact", "big-log"))), "expected 2, found 3")
	})
	other := withLogs(2, "cleanup.policy=compact", "other-log")
	eventually(t, "other settings hinder nobody", func() bool {
		resp := r.beatWith("other", 0, other)
		return status(resp) == "" && len(resp.ActiveTasks) > 0
	})
	eventually(t, "other settings are logged", func() bool {
		return log.count("internal topic has other settings than the app asks for") == 1 &&
			log.count("cleanup.policy=delete instead of compact, replication factor 1 instead of 2") == 1
	})
}
