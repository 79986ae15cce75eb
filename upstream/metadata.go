package upstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
)

var _ topicctl.NamedSource = (*Client)(nil)

// metadataWatch asks for all topics, again and again. It has connections of its own, because answers are large and would
// hold up others.
type metadataWatch struct {
	cl    *kgo.Client
	admin *kgo.Client // is told when there are other brokers

	mu sync.Mutex // one question at a time
	// brokers are those of the last answer, the one to be asked first: brokers spread news at different speeds, and one
	// broker does not go back.
	brokers []int32
	reader  metadataReader
	named   metadataReader // of answers about some topics
	// fencedAt is when brokers that are down were asked about last.
	fencedAt time.Time

	connects connects
}

func newMetadataWatch(base []kgo.Opt, admin *kgo.Client) (*metadataWatch, error) {
	w := &metadataWatch{admin: admin}
	w.reader.racks = &racks{}
	w.named.racks = w.reader.racks
	var err error
	w.cl, err = kgo.NewClient(append(base[:len(base):len(base)], kgo.WithHooks(&w.connects),
		kgo.RequestRetries(20), kgo.RetryTimeout(4*time.Second), kgo.RetryBackoffFn(retryBackoff))...)
	return w, err
}

// connects counts the connections to each broker.
type connects struct {
	mu sync.Mutex
	to map[int32]int
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *connects) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to == nil {
		c.to = map[int32]int{}
	}
	c.to[meta.NodeID]++
}

// current names the connection to a broker.
func (c *connects) current(broker int32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("broker %d, connection %d", broker, c.to[broker])
}

// Metadata implements topicctl.Source. It asks one broker for as long as that one answers.
func (c *Client) Metadata(ctx context.Context) (*topicctl.Snapshot, error) {
	return c.metadata.all(ctx, &topicsRequest{kmsg.NewMetadataRequest()}, &c.metadata.reader) // nil topics: all
}

// NamedMetadata implements topicctl.NamedSource. Topics are not created by asking for them.
func (c *Client) NamedMetadata(ctx context.Context, names []string) (*topicctl.Snapshot, error) {
	req := &topicsRequest{kmsg.NewMetadataRequest()}
	req.AllowAutoTopicCreation = false
	req.Topics = make([]kmsg.MetadataRequestTopic, 0, len(names))
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return c.metadata.all(ctx, req, &c.metadata.named)
}

// all tries the brokers, first the one that answered last.
func (w *metadataWatch) all(ctx context.Context, req *topicsRequest, reader *metadataReader) (*topicctl.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	for n := len(w.brokers); n > 0; n-- {
		var s *topicctl.Snapshot
		if s, err = w.ask(ctx, w.brokers[0], n, req, reader); err == nil {
			return s, nil
		}
		w.brokers = append(w.brokers[1:], w.brokers[0])
		if ctx.Err() != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	broker, err := w.discover(ctx)
	if err != nil || broker < 0 {
		return &topicctl.Snapshot{}, err
	}
	s, err := w.ask(ctx, broker, 1, req, reader)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return s, nil
}

// discover finds out which brokers there are, and returns the one of the least id, or -1 for none.
func (w *metadataWatch) discover(ctx context.Context) (int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none
	resp, err := req.RequestWith(ctx, w.cl)
	if err != nil {
		return -1, fmt.Errorf("metadata: %w", err)
	}
	if len(resp.Brokers) == 0 {
		return -1, nil
	}
	return slices.MinFunc(resp.Brokers, func(a, b kmsg.MetadataResponseBroker) int { return int(a.NodeID) - int(b.NodeID) }).NodeID, nil
}

// ask asks one broker. While there are others to try it gets no more than half of the time.
func (w *metadataWatch) ask(ctx context.Context, broker int32, untried int, req *topicsRequest, reader *metadataReader) (*topicctl.Snapshot, error) {
	if deadline, ok := ctx.Deadline(); ok && untried > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	resp, err := w.cl.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	a := resp.(*topicsResponse)
	s, err := reader.read(a.Version, a.raw)
	if err == nil && w.learnFenced(ctx, broker) {
		s, err = reader.read(a.Version, a.raw)
	}
	if err != nil {
		return nil, err
	}
	s.From = w.connects.current(broker)
	w.remember(broker, s.Brokers)
	return s, nil
}

// fencedInterval is the time between two questions about brokers that are down and were never seen.
const fencedInterval = 10 * time.Second

// learnFenced asks for the racks of brokers that have replicas and were never seen alive, and reports whether it learnt
// any. Kafka counts their racks in the metadata hash, and nodes that saw them alive do: without them a change of leaders
// would look like a change of topics. Kafka tells of them since 4.0 (KIP-1073).
func (w *metadataWatch) learnFenced(ctx context.Context, broker int32) bool {
	racks := w.reader.racks
	if len(racks.unknown) == 0 || !w.fencedAt.IsZero() && time.Since(w.fencedAt) < fencedInterval {
		return false
	}
	w.fencedAt = time.Now()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := w.cl.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return false // asked again later
	}
	before := racks.generation
	for _, b := range resp.(*kmsg.DescribeClusterResponse).Brokers {
		if racks.unknown[b.NodeID] {
			rack := ""
			if b.Rack != nil {
				rack = *b.Rack
			}
			racks.set(b.NodeID, rack)
		}
	}
	return racks.generation != before
}

// remember takes over which brokers there are; the one that answered stays the first.
func (w *metadataWatch) remember(answered int32, brokers []topicctl.Broker) {
	ids := make([]int32, 0, len(brokers))
	for _, b := range brokers {
		if b.ID != answered {
			ids = append(ids, b.ID)
		} else {
			ids = append([]int32{answered}, ids...)
		}
	}
	if !slices.Equal(ids, w.brokers) {
		w.brokers = ids
		w.admin.ForceMetadataRefresh()
	}
}

// topicsRequest is a request for topics whose answer is handed over as it came.
type topicsRequest struct{ kmsg.MetadataRequest }

// MaxVersion implements kmsg.Request: what metadataReader can read.
func (*topicsRequest) MaxVersion() int16 { return maxMetadata }

// ResponseKind implements kmsg.Request.
func (r *topicsRequest) ResponseKind() kmsg.Response {
	a := &topicsResponse{}
	a.Version = r.Version
	return a
}

// topicsResponse is an answer that is not read yet.
type topicsResponse struct {
	kmsg.MetadataResponse
	raw []byte
}

// ReadFrom implements kmsg.Response. The slice is the receiver's: the library makes one for each answer.
func (a *topicsResponse) ReadFrom(raw []byte) error {
	a.raw = raw
	if a.Version >= 3 && len(raw) >= 4 {
		a.ThrottleMillis = int32(binary.BigEndian.Uint32(raw))
	}
	return nil
}
