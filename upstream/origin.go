package upstream

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// Origin tells what the upstream has under a group id. An id without a group is no error. What a broker is too old for
// (streams groups) it does not have. The error says what could not be learnt, for people.
func (c *Client) Origin(ctx context.Context, group string) (*coordinator.Origin, error) {
	o := &coordinator.Origin{}
	if err := c.listOrigin(ctx, group, o); err != nil {
		return nil, err
	}
	var err error
	switch {
	case o.Type == "streams":
		if err = c.describeStreams(ctx, group, o); err == nil {
			o.Settings, err = c.groupSettings(ctx, group)
		}
	case o.Type == "classic" && !o.Empty():
		err = c.describeClassic(ctx, group, o)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// listOrigin finds the group in the list of its coordinator, which names groups of every type.
func (c *Client) listOrigin(ctx context.Context, group string, o *coordinator.Origin) error {
	resp, err := askCoordinator(ctx, c, group, kmsg.NewPtrListGroupsRequest(), func(r *kmsg.ListGroupsResponse) int16 { return r.ErrorCode })
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	for i := range resp.Groups {
		g := &resp.Groups[i]
		if g.Group != group || g.GroupState == "Dead" {
			continue
		}
		o.Type, o.Protocol, o.State = strings.ToLower(g.GroupType), g.ProtocolType, g.GroupState
		if o.Type == "" { // before Kafka 3.8
			o.Type = "classic"
		}
	}
	return nil
}

func (c *Client) describeClassic(ctx context.Context, group string, o *coordinator.Origin) error {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := askCoordinator(ctx, c, group, req, func(r *kmsg.DescribeGroupsResponse) int16 {
		if len(r.Groups) != 1 {
			return kerr.UnknownServerError.Code
		}
		return r.Groups[0].ErrorCode
	})
	if err != nil {
		return fmt.Errorf("describe the classic group: %w", err)
	}
	o.State = resp.Groups[0].State
	for _, m := range resp.Groups[0].Members {
		o.Members = append(o.Members, coordinator.OriginMember{ID: m.MemberID, InstanceID: text(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost})
	}
	return nil
}

func (c *Client) describeStreams(ctx context.Context, group string, o *coordinator.Origin) error {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := askCoordinator(ctx, c, group, req, func(r *kmsg.StreamsGroupDescribeResponse) int16 {
		if len(r.Groups) != 1 {
			return kerr.UnknownServerError.Code
		}
		return r.Groups[0].ErrorCode
	})
	if err != nil {
		return fmt.Errorf("describe the streams group: %w", err)
	}
	describeOrigin(&resp.Groups[0], o)
	return nil
}

func describeOrigin(g *kmsg.StreamsGroupDescribeResponseGroup, o *coordinator.Origin) {
	o.State, o.Epoch = g.State, g.Epoch
	for i := range g.Members {
		m := &g.Members[i]
		o.Members = append(o.Members, coordinator.OriginMember{ID: m.MemberID, InstanceID: text(m.InstanceID), ClientID: m.ClientID, Host: m.ClientHost})
	}
	if t := g.Topology; t != nil && len(t.Subtopologies) > 0 {
		o.Topology = &topology.Topology{Epoch: t.Epoch}
		for i := range t.Subtopologies {
			s := &t.Subtopologies[i]
			o.Topology.Subtopologies = append(o.Topology.Subtopologies, topology.Subtopology{
				ID: s.SubtopologyID, SourceTopics: s.SourceTopics, RepartitionSinkTopics: s.RepartitionSinkTopics,
				StateChangelogTopics: originTopics(s.StateChangelogTopics, false), RepartitionSourceTopics: originTopics(s.RepartitionSourceTopics, true),
			})
		}
	}
}

// originTopics are internal topics as a description tells them. That of a changelog is never part of a topology.
func originTopics(list []kmsg.TopicInfo, counts bool) (topics []topology.InternalTopic) {
	for i := range list {
		t := topology.InternalTopic{Name: list[i].Topic, ReplicationFactor: list[i].ReplicationFactor}
		if counts {
			t.Partitions = list[i].NumPartitions
		}
		for _, c := range list[i].Configs {
			t.Configs = append(t.Configs, topology.Config{Key: c.Key, Value: c.Value})
		}
		topics = append(topics, t)
	}
	return topics
}

// groupSettings are the streams.* that the upstream has for the group itself (KIP-1071, "Group Configurations").
func (c *Client) groupSettings(ctx context.Context, group string) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, fmt.Errorf("describe the settings of the group: %w", err)
	}
	settings := map[string]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, fmt.Errorf("describe the settings of the group: %w", err)
		}
		for _, s := range r.Configs {
			if s.Source == kmsg.ConfigSourceGroupConfig && strings.HasPrefix(s.Name, "streams.") && s.Value != nil {
				settings[s.Name] = *s.Value
			}
		}
	}
	return settings, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// askCoordinator sends a request to the group's coordinator, again while that is not there or not ready, and returns the answer
// unless its code says that there is none.
func askCoordinator[R kmsg.Response](ctx context.Context, c *Client, group string, req kmsg.Request, code func(R) int16) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout)
	defer cancel()
	var none R
	for try := 1; ; try++ {
		resp, err := c.request(ctx, c.admin, group, req)
		if err == nil {
			answer := resp.(R)
			switch n := code(answer); {
			case n == 0:
				return answer, nil
			case isCoordinatorTrouble(n):
				c.coordinators.forget(group)
				err = kerr.ErrorForCode(n)
			default:
				return none, kerr.ErrorForCode(n)
			}
		}
		timer := time.NewTimer(retryBackoff(try))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return none, fmt.Errorf("the Kafka behind does not answer: %w", err)
		}
	}
}
