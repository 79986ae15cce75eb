package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

func internal(names ...string) (topics []topology.InternalTopic) {
	for _, name := range names {
		topics = append(topics, topology.InternalTopic{Name: name, Partitions: 2, Configs: []topology.Config{{Key: "cleanup.policy", Value: "compact"}}})
	}
	return topics
}

// What the upstream answers is told with what is wrong, on which resource, and what a person can do.
func TestRefusals(t *testing.T) {
	c := &Client{opts: Options{ClientID: "coordd"}}
	user := &Client{opts: Options{ClientID: "coordd", SASL: &SASL{User: "cd"}}}
	for _, test := range []struct {
		client  *Client
		code    int16
		message string
		parts   []string
	}{
		{c, kerr.PolicyViolation.Code, "too many partitions", []string{"POLICY_VIOLATION: too many partitions", "policy"}},
		{c, kerr.InvalidReplicationFactor.Code, "3 > 1", []string{"INVALID_REPLICATION_FACTOR: 3 > 1", "replication.factor to -1"}},
		{c, kerr.InvalidConfig.Code, "Invalid value x", []string{"INVALID_CONFIG: Invalid value x", "topic.*"}},
		{c, kerr.InvalidPartitions.Code, "", []string{"INVALID_PARTITIONS"}},
		{c, kerr.TopicAuthorizationFailed.Code, "Authorization failed.", []string{"TOPIC_AUTHORIZATION_FAILED: coordd's own principal", "CREATE on Topic a", "Cluster kafka-cluster"}},
		{user, kerr.TopicAuthorizationFailed.Code, "", []string{`coordd's user "cd"`, "CREATE on Topic a"}},
		{user, kerr.ThrottlingQuotaExceeded.Code, "", []string{"THROTTLING_QUOTA_EXCEEDED", "controller_mutation_rate", `"cd"`, "by itself"}},
		{c, kerr.RequestTimedOut.Code, "", []string{"REQUEST_TIMED_OUT"}},
		{c, 12345, "odd", []string{"error 12345: odd"}},
	} {
		text := test.client.refusal("a", test.code, &test.message, time.Second).Error()
		for _, part := range test.parts {
			if !strings.Contains(text, part) {
				t.Errorf("code %d: %q lacks %q", test.code, text, part)
			}
		}
	}
	if err := c.refusal("a", kerr.TopicAlreadyExists.Code, nil, 0); !errors.Is(err, topicctl.ErrTopicExists) {
		t.Error(err)
	}
}

// creating runs a watcher and a creator over an upstream in memory.
func creating(t *testing.T, w *world) (*topicctl.Watcher, *topicctl.Creator) {
	client := w.node().client
	watcher := topicctl.NewWatcher(topicctl.WatcherConfig{Source: client})
	creator := topicctl.NewCreator(topicctl.CreatorConfig{Source: client, Watcher: watcher})
	ctx, cancel := context.WithCancel(t.Context())
	go watcher.Run(ctx)
	go creator.Run(ctx)
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	<-watcher.Ready()
	return watcher, creator
}

func shows(w *topicctl.Watcher, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := w.Image().Topic(name)
		return !ok
	})
}

// answerCreates has CreateTopics answered by codes, by topic; topics without one are made by the cluster in a later request.
// It counts requests.
func (w *world) answerCreates(throttle int32, codes map[string]int16) *atomic.Int64 {
	var n atomic.Int64
	w.cluster.ControlKey(19, func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		n.Add(1)
		req := r.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		some := false
		for _, topic := range req.Topics {
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic, rt.ErrorCode = topic.Topic, codes[topic.Topic]
			some = some || rt.ErrorCode != 0
			resp.Topics = append(resp.Topics, rt)
		}
		resp.ThrottleMillis = throttle
		return resp, nil, some
	})
	return &n
}

// Every kind of refusal is told, is tried at a bounded pace, and ends as soon as its cause does.
func TestCreationIsRefused(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidReplicationFactor, kerr.InvalidConfig, kerr.RequestTimedOut,
		kerr.UnknownServerError, kerr.InvalidRequest,
	} {
		t.Run(code.Message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				codes := map[string]int16{"a": code.Code, "b": code.Code}
				attempts := w.answerCreates(0, codes)
				watcher, creator := creating(t, w)
				for range 300 {
					creator.Create("g", internal("a", "b"))
					time.Sleep(200 * time.Millisecond)
				}
				if n := attempts.Load(); n < 7 || n > 15 {
					t.Errorf("%d attempts in a minute", n)
				}
				if text := creator.Error("a"); !strings.HasPrefix(text, code.Message) {
					t.Errorf("told %q", text)
				}
				w.cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) { // on the cluster's goroutine, as the map's reader
					clear(codes)
					return nil, nil, false
				})
				time.Sleep(12 * time.Second)
				if !shows(watcher, "a", "b") || creator.Error("a") != "" {
					t.Errorf("not created after the cause went: %q", creator.Error("a"))
				}
			})
		})
	}
}

// A quota throttles one connection for as long as it says; the watch of the topics goes on meanwhile.
func TestCreationIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attempts := w.answerCreates(30_000, map[string]int16{"a": kerr.ThrottlingQuotaExceeded.Code})
		watcher, creator := creating(t, w)
		creator.Create("g", internal("a"))
		time.Sleep(100 * time.Second)
		if n := attempts.Load(); n < 3 || n > 4 {
			t.Errorf("%d attempts in 100 s with a throttle of 30 s", n)
		}
		if s := watcher.Status(); !s.Reachable || time.Since(watcher.AsOf()) > 2*time.Second {
			t.Errorf("the watch stands still: %+v", s)
		}
	})
}

// While an answer's throttle lasts nothing is sent, and what is told names the quota of creations only where that one was
// used up. It is believed for an hour at most.
func TestThrottledCreationIsNotSent(t *testing.T) {
	for _, test := range []struct {
		name string
		code int16
		text string
	}{
		{"by a success", 0, "THROTTLED: the Kafka cluster behind throttles coordd; it goes on by itself"},
		{"by the quota", kerr.ThrottlingQuotaExceeded.Code, "THROTTLING_QUOTA_EXCEEDED: the quota controller_mutation_rate of "},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sent := 0
				w.cluster.ControlKey(19, func(r kmsg.Request) (kmsg.Response, error, bool) {
					if sent++; sent > 1 {
						return nil, nil, false
					}
					w.cluster.KeepControl()
					resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
					resp.ThrottleMillis = math.MaxInt32
					rt := kmsg.NewCreateTopicsResponseTopic()
					rt.Topic, rt.ErrorCode = "a", test.code
					resp.Topics = append(resp.Topics, rt)
					return resp, nil, true
				})
				c := w.node().client
				if _, err := c.CreateTopics(t.Context(), internal("a")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				results, err := c.CreateTopics(t.Context(), internal("b"))
				var r *topicctl.Refusal
				if err != nil || !errors.As(results["b"], &r) {
					t.Fatal(results, err)
				}
				if !r.NotSent || r.RetryAfter > topicctl.MaxRetryAfter || r.RetryAfter < time.Minute || !strings.HasPrefix(r.Error(), test.text) || sent != 1 {
					t.Errorf("%+v, %d sent", r, sent)
				}
				time.Sleep(r.RetryAfter + time.Second)
				if results, err := c.CreateTopics(t.Context(), internal("b")); err != nil || results["b"] != nil || sent != 2 {
					t.Errorf("after the throttle: %v, %v, %d sent", results, err, sent)
				}
			})
		})
	}
}

// A throttle that comes with success is waited for, and told as what it is.
func TestCreationIsThrottledBySuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cluster.ControlKey(19, func(r kmsg.Request) (kmsg.Response, error, bool) {
			resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
			resp.ThrottleMillis = 25_000
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic = "a"
			resp.Topics = append(resp.Topics, rt)
			return resp, nil, true
		})
		watcher, creator := creating(t, w)
		creator.Create("g", internal("a"))
		time.Sleep(time.Second)
		creator.Create("h", internal("b"))
		time.Sleep(20 * time.Second)
		if text := creator.Error("b"); !strings.HasPrefix(text, "THROTTLED: ") {
			t.Errorf("told %q", text)
		}
		time.Sleep(6 * time.Second)
		if !shows(watcher, "b") {
			t.Errorf("not created: %q", creator.Error("b"))
		}
	})
}

// A controller that moves is found, without anybody being told of trouble.
func TestCreationFindsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
		watcher, creator := creating(t, w)
		creator.Create("g", internal("first"))
		time.Sleep(time.Second)
		for i := range 3 {
			var n atomic.Int64
			w.cluster.ControlKey(19, func(r kmsg.Request) (kmsg.Response, error, bool) {
				if n.Add(1) > 2 {
					return nil, nil, false
				}
				w.cluster.KeepControl()
				resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
				for _, topic := range r.(*kmsg.CreateTopicsRequest).Topics {
					rt := kmsg.NewCreateTopicsResponseTopic()
					rt.Topic, rt.ErrorCode = topic.Topic, kerr.NotController.Code
					resp.Topics = append(resp.Topics, rt)
				}
				return resp, nil, true
			})
			name := fmt.Sprint("t", i)
			creator.Create("g", internal(name))
			time.Sleep(3 * time.Second)
			if !shows(watcher, name) || creator.Error(name) != "" {
				t.Errorf("%s: %q", name, creator.Error(name))
			}
		}
	})
}

// An upstream that is away for 30 s is not stormed, and creates what was asked for as soon as it is back.
func TestCreationOutlivesTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watcher, creator := creating(t, w)
		w.cluster.Close()
		for range 150 {
			creator.Create("g", internal("a"))
			time.Sleep(200 * time.Millisecond)
		}
		if text := creator.Error("a"); !strings.HasPrefix(text, "UNREACHABLE: ") {
			t.Errorf("told %q", text)
		}
		w.up()
		attempts := w.answerCreates(0, nil)
		time.Sleep(4 * time.Second)
		if !shows(watcher, "a") || attempts.Load() != 1 {
			t.Errorf("shown: %v after %d attempts", shows(watcher, "a"), attempts.Load())
		}
	})
}

// Topics get exactly the replication factor and the configs that are asked for.
func TestTopicsAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var sent []kmsg.CreateTopicsRequestTopic
		w.cluster.ControlKey(19, func(r kmsg.Request) (kmsg.Response, error, bool) {
			sent = append(sent, r.(*kmsg.CreateTopicsRequest).Topics...)
			return nil, nil, false
		})
		c := w.node().client
		topics := []topology.InternalTopic{
			{Name: "zero", Partitions: 3},
			{Name: "negative", Partitions: 1, ReplicationFactor: -1, Configs: []topology.Config{{Key: "retention.ms", Value: "-1"}, {Key: "cleanup.policy", Value: "compact,delete"}}},
			{Name: "one", Partitions: 4, ReplicationFactor: 1},
		}
		results, err := c.CreateTopics(t.Context(), topics)
		if err != nil || results["zero"] != nil || results["negative"] != nil || results["one"] != nil {
			t.Fatal(results, err)
		}
		if len(sent) != 3 {
			t.Fatal(sent)
		}
		for i, want := range []struct {
			partitions int32
			rf         int16
			configs    string
		}{{3, -1, ""}, {1, -1, "retention.ms=-1 cleanup.policy=compact,delete"}, {4, 1, ""}} {
			var configs []string
			for _, cfg := range sent[i].Configs {
				configs = append(configs, cfg.Name+"="+*cfg.Value)
			}
			if got := sent[i]; got.NumPartitions != want.partitions || got.ReplicationFactor != want.rf || strings.Join(configs, " ") != want.configs {
				t.Errorf("%s: %+v", got.Topic, got)
			}
		}
		found, err := c.TopicSettings(t.Context(), map[string][]string{"negative": {"cleanup.policy", "retention.ms"}, "gone": {"retention.ms"}})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if s := found["negative"]; s.Err != nil || s.ReplicationFactor < 1 || s.Configs["cleanup.policy"] != "compact,delete" || s.Configs["retention.ms"] != "-1" || len(s.Configs) != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A right that is missing is told apart from what may be over at the next call.
func TestTopicSettingsThatAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		codes := map[string]int16{
			"secret": kerr.TopicAuthorizationFailed.Code, "busy": kerr.UnknownServerError.Code, "gone": kerr.UnknownTopicOrPartition.Code,
		}
		w.cluster.ControlKey(32, func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
			for _, resource := range r.(*kmsg.DescribeConfigsRequest).Resources {
				rr := kmsg.NewDescribeConfigsResponseResource()
				rr.ResourceType, rr.ResourceName, rr.ErrorCode = resource.ResourceType, resource.ResourceName, codes[resource.ResourceName]
				resp.Resources = append(resp.Resources, rr)
			}
			return resp, nil, true
		})
		found, err := w.node().client.TopicSettings(t.Context(), map[string][]string{"secret": nil, "busy": nil, "gone": nil})
		if err != nil || len(found) != 2 {
			t.Fatal(found, err)
		}
		if err := found["secret"].Err; !errors.Is(err, topicctl.ErrNotAllowed) || !strings.Contains(err.Error(), "DESCRIBE_CONFIGS on Topic secret") {
			t.Error(err)
		}
		if err := found["busy"].Err; err == nil || errors.Is(err, topicctl.ErrNotAllowed) {
			t.Error(err)
		}
	})
}
