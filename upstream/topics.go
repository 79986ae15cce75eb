package upstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

var _ topicctl.Source = (*Client)(nil)

// metadataMemory is what a metadata answer leaves for the next.
type metadataMemory struct {
	mu sync.Mutex
	// asked is the broker that answers; brokers spread news at different speeds, and one broker does not go back.
	asked int32
	known bool
	// racks remembers the racks of brokers that are down: a dead broker must not change where replicas are.
	racks map[int32]string
}

// Metadata implements topicctl.Source. It asks one broker for as long as that one answers.
func (c *Client) Metadata(ctx context.Context) (*topicctl.Snapshot, error) {
	req := kmsg.NewPtrMetadataRequest() // nil topics: all
	c.metadata.mu.Lock()
	asked, known := c.metadata.asked, c.metadata.known
	c.metadata.mu.Unlock()

	var resp kmsg.Response
	err := error(errClosed)
	if known {
		resp, err = c.admin.Broker(int(asked)).Request(ctx, req)
	}
	if err != nil {
		if resp, err = c.admin.Request(ctx, req); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	m := resp.(*kmsg.MetadataResponse)
	if err := kerr.ErrorForCode(m.ErrorCode); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return c.metadata.snapshot(m), nil
}

func (m *metadataMemory) snapshot(resp *kmsg.MetadataResponse) *topicctl.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &topicctl.Snapshot{ControllerID: resp.ControllerID, Brokers: make([]topicctl.Broker, 0, len(resp.Brokers))}
	if resp.ClusterID != nil {
		s.ClusterID = *resp.ClusterID
	}
	if m.racks == nil {
		m.racks = map[int32]string{}
	}
	m.known = len(resp.Brokers) > 0
	alive := false
	for i, b := range resp.Brokers {
		broker := topicctl.Broker{ID: b.NodeID, Host: b.Host, Port: b.Port}
		if b.Rack != nil {
			broker.Rack = *b.Rack
		}
		m.racks[b.NodeID] = broker.Rack
		s.Brokers = append(s.Brokers, broker)
		alive = alive || b.NodeID == m.asked
		if i == 0 || b.NodeID < s.Brokers[0].ID {
			s.Brokers[0], s.Brokers[i] = s.Brokers[i], s.Brokers[0]
		}
	}
	if !alive && m.known {
		m.asked = s.Brokers[0].ID
	}
	racks := rackLists{of: m.racks, lists: map[string][]string{}}
	s.Topics = make([]topology.Topic, 0, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 || t.Topic == nil || len(t.Partitions) == 0 {
			continue
		}
		s.Topics = append(s.Topics, topology.Topic{
			Name: *t.Topic, ID: t.TopicID, Partitions: int32(len(t.Partitions)), Racks: racks.topic(t.Partitions),
		})
	}
	return s
}

// rackLists shares the lists of racks between partitions with the same replicas.
type rackLists struct {
	of    map[int32]string
	lists map[string][]string
	key   []byte
}

// topic returns the racks of each partition, or nil when no replica has one.
func (r *rackLists) topic(partitions []kmsg.MetadataResponseTopicPartition) [][]string {
	racks := make([][]string, len(partitions))
	some := false
	for _, p := range partitions {
		if p.Partition < 0 || int(p.Partition) >= len(racks) {
			continue
		}
		r.key = r.key[:0]
		for _, replica := range p.Replicas {
			r.key = binary.BigEndian.AppendUint32(r.key, uint32(replica))
		}
		list, ok := r.lists[string(r.key)]
		if !ok {
			for _, replica := range p.Replicas {
				if rack := r.of[replica]; rack != "" {
					list = append(list, rack)
				}
			}
			r.lists[string(r.key)] = list
		}
		racks[p.Partition] = list
		some = some || len(list) > 0
	}
	if !some {
		return nil
	}
	return racks
}
