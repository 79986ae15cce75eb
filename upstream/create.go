package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// createTimeoutMs is how long the controller may take to create topics.
const createTimeoutMs = 10_000

// CreateTopics implements topicctl.Source. Topics get exactly the configs that are asked for, and the broker's default
// replication factor when none is. Errors are [topicctl.Refusal]s that say what a person can do.
func (c *Client) CreateTopics(ctx context.Context, topics []topology.InternalTopic) (map[string]error, error) {
	if t := c.throttle.Load(); t != nil && time.Until(t.until) > 0 { // sent now, it would wait here without saying why
		return c.notSent(topics, t), nil
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = createTimeoutMs
	for _, t := range topics {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
		if rt.NumPartitions <= 0 {
			rt.NumPartitions = -1
		}
		if rt.ReplicationFactor <= 0 {
			rt.ReplicationFactor = -1
		}
		for _, cfg := range t.Configs {
			rc := kmsg.NewCreateTopicsRequestTopicConfig()
			rc.Name, rc.Value = cfg.Key, kmsg.StringPtr(cfg.Value)
			rt.Configs = append(rt.Configs, rc)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, callRefusal(err)
	}
	wait := min(time.Duration(resp.ThrottleMillis)*time.Millisecond, topicctl.MaxRetryAfter)
	if wait > 0 {
		c.throttle.Store(&createThrottle{
			until: time.Now().Add(wait),
			mutations: slices.ContainsFunc(resp.Topics, func(t kmsg.CreateTopicsResponseTopic) bool {
				return t.ErrorCode == kerr.ThrottlingQuotaExceeded.Code
			}),
		})
	}
	results := make(map[string]error, len(resp.Topics))
	for _, t := range resp.Topics {
		results[t.Topic] = c.refusal(t.Topic, t.ErrorCode, t.ErrorMessage, wait)
	}
	return results, nil
}

// createThrottle is what the last throttle time in an answer to CreateTopics was.
type createThrottle struct {
	until time.Time
	// mutations says that the quota of creations itself was used up; any other quota throttles a success, too.
	mutations bool
}

// notSent are the refusals of topics for which no request may be sent yet.
func (c *Client) notSent(topics []topology.InternalTopic, t *createThrottle) map[string]error {
	r := &topicctl.Refusal{
		Reason: topicctl.Throttled, Message: "the Kafka cluster behind throttles coordd", Advice: throttledAdvice, RetryAfter: time.Until(t.until),
	}
	if t.mutations {
		r = c.mutationRefusal(r.RetryAfter)
	}
	r.NotSent = true
	results := make(map[string]error, len(topics))
	for _, topic := range topics {
		results[topic.Name] = r
	}
	return results
}

const throttledAdvice = "it goes on by itself; raise the quota if it takes too long"

// mutationRefusal is the refusal for a quota of creations that is used up.
func (c *Client) mutationRefusal(wait time.Duration) *topicctl.Refusal {
	return &topicctl.Refusal{
		Reason:     kerr.ThrottlingQuotaExceeded.Message,
		Message:    fmt.Sprintf("the quota controller_mutation_rate of %s (client id %q) is used up", c.principal(), c.opts.ClientID),
		Advice:     throttledAdvice,
		RetryAfter: wait,
	}
}

// callRefusal is the refusal for a call that failed. Its text leaves out addresses and ports, which differ from one
// attempt to the next.
func callRefusal(err error) error {
	r := &topicctl.Refusal{
		Reason: topicctl.Unreachable, Message: "the Kafka cluster behind coordd does not answer", Err: fmt.Errorf("create topics: %w", err),
	}
	if code := new(kerr.Error); errors.As(err, &code) { // NOT_CONTROLLER, for as long as the client tried again
		r.Reason, r.Message = code.Message, code.Description
	}
	return r
}

// advice says for Kafka's errors what a person can do where a topic is not created because of them.
var advice = map[int16]string{
	kerr.PolicyViolation.Code: "change the app's settings of internal topics (topic.*, replication.factor) so that the policy of the " +
		"Kafka cluster behind allows them, or create the topic by hand",
	kerr.InvalidReplicationFactor.Code: "set the app's replication.factor to -1 or to no more than there are brokers, or create the topic by hand",
	kerr.InvalidConfig.Code:            "correct the app's settings of internal topics (topic.*), or create the topic by hand",
	kerr.InvalidTopicException.Code:    "choose another application.id, or other names for the app's stores and repartition topics",
	kerr.InvalidPartitions.Code:        "reduce the partitions that the app asks for, or create the topic by hand",
	kerr.UnsupportedVersion.Code:       "the Kafka cluster behind must be 2.4 or newer",
	kerr.UnknownServerError.Code:       "look into the log of the controller of the Kafka cluster behind",
}

// refusal is the error for a topic that an answer says was not created. throttle is how long the answer wants no other
// request.
func (c *Client) refusal(topic string, code int16, message *string, throttle time.Duration) error {
	switch code {
	case 0:
		return nil
	case kerr.TopicAlreadyExists.Code:
		return fmt.Errorf("%w upstream", topicctl.ErrTopicExists)
	case kerr.ThrottlingQuotaExceeded.Code:
		return c.mutationRefusal(throttle)
	}
	r := &topicctl.Refusal{Reason: fmt.Sprintf("error %d", code), Advice: advice[code]}
	if typed := kerr.TypedErrorForCode(code); typed != nil && typed.Code == code {
		r.Reason = typed.Message
	}
	if message != nil {
		r.Message = *message
	}
	if code == kerr.TopicAuthorizationFailed.Code || code == kerr.ClusterAuthorizationFailed.Code {
		r.Message = fmt.Sprintf("%s lacks the right CREATE on Topic %s and on Cluster kafka-cluster", c.principal(), topic)
		r.Advice = "grant one of them, or create the topic by hand"
	}
	return r
}

// principal names who coordd is upstream, for people.
func (c *Client) principal() string {
	if c.opts.SASL != nil {
		return fmt.Sprintf("coordd's user %q", c.opts.SASL.User)
	}
	return "coordd's own principal"
}
