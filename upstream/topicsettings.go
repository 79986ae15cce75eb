package upstream

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
)

var _ topicctl.SettingsSource = (*Client)(nil)

// TopicSettings implements topicctl.SettingsSource by DescribeConfigs, and Metadata for the replication factor.
func (c *Client) TopicSettings(ctx context.Context, topics map[string][]string) (map[string]topicctl.TopicSettings, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	meta := kmsg.NewPtrMetadataRequest()
	for name, keys := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, name, append([]string{}, keys...)
		req.Resources = append(req.Resources, r)
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		meta.Topics = append(meta.Topics, t)
	}
	described, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, fmt.Errorf("describe topic configs: %w", err)
	}
	shown, err := meta.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	factors := make(map[string]int16, len(topics))
	for _, t := range shown.Topics {
		if t.Topic != nil && t.ErrorCode == 0 && len(t.Partitions) > 0 {
			factors[*t.Topic] = int16(len(t.Partitions[0].Replicas))
		}
	}
	found := make(map[string]topicctl.TopicSettings, len(topics))
	for _, r := range described.Resources {
		switch r.ErrorCode {
		case 0:
		case kerr.UnknownTopicOrPartition.Code:
			continue
		case kerr.TopicAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code:
			found[r.ResourceName] = topicctl.TopicSettings{Err: fmt.Errorf("%w: %s lacks the right DESCRIBE_CONFIGS on Topic %s", topicctl.ErrNotAllowed, c.principal(), r.ResourceName)}
			continue
		default:
			found[r.ResourceName] = topicctl.TopicSettings{Err: fmt.Errorf("describe topic configs: %w", kerr.ErrorForCode(r.ErrorCode))}
			continue
		}
		s := topicctl.TopicSettings{Configs: make(map[string]string, len(r.Configs)), ReplicationFactor: factors[r.ResourceName]}
		for _, cfg := range r.Configs {
			if cfg.Value != nil && !cfg.IsSensitive {
				s.Configs[cfg.Name] = *cfg.Value
			}
		}
		found[r.ResourceName] = s
	}
	return found, nil
}
