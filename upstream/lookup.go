package upstream

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

var _ topicctl.LookupSource = (*Client)(nil)

// Lookup implements topicctl.LookupSource. It asks any broker. Topics are not created by asking for them.
func (c *Client) Lookup(ctx context.Context, names []string) (map[string]topology.Lookup, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = make([]kmsg.MetadataRequestTopic, 0, len(names)) // nil would be all
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, fmt.Errorf("metadata of %d topics: %w", len(names), err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("metadata of %d topics: %w", len(names), err)
	}
	found := make(map[string]topology.Lookup, len(names))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil {
			continue
		}
		switch t.ErrorCode {
		case 0:
			found[*t.Topic] = topology.Lookup{ID: t.TopicID}
		case kerr.UnknownTopicOrPartition.Code:
			found[*t.Topic] = topology.Lookup{Missing: true}
		}
	}
	return found, nil
}
