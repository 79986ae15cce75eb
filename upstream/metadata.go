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

var _ topicctl.Source = (*Client)(nil)

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

	connects connects
}

func newMetadataWatch(base []kgo.Opt, admin *kgo.Client) (*metadataWatch, error) {
	w := &metadataWatch{admin: admin}
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
	w := c.metadata
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	for n := len(w.brokers); n > 0; n-- {
		var s *topicctl.Snapshot
		if s, err = w.ask(ctx, w.brokers[0], n); err == nil {
			return s, nil
		}
		w.brokers = append(w.brokers[1:], w.brokers[0])
		if ctx.Err() != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	return w.discover(ctx)
}

// discover finds out which brokers there are, and asks the one of the least id.
func (w *metadataWatch) discover(ctx context.Context) (*topicctl.Snapshot, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none
	resp, err := req.RequestWith(ctx, w.cl)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if len(resp.Brokers) == 0 {
		return &topicctl.Snapshot{}, nil
	}
	first := slices.MinFunc(resp.Brokers, func(a, b kmsg.MetadataResponseBroker) int { return int(a.NodeID) - int(b.NodeID) })
	s, err := w.ask(ctx, first.NodeID, 1)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return s, nil
}

// ask asks one broker. While there are others to try it gets no more than half of the time.
func (w *metadataWatch) ask(ctx context.Context, broker int32, untried int) (*topicctl.Snapshot, error) {
	if deadline, ok := ctx.Deadline(); ok && untried > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	resp, err := w.cl.Broker(int(broker)).Request(ctx, &allTopicsRequest{kmsg.NewMetadataRequest()})
	if err != nil {
		return nil, err
	}
	a := resp.(*allTopicsResponse)
	s, err := w.reader.read(a.Version, a.raw)
	if err != nil {
		return nil, err
	}
	s.From = w.connects.current(broker)
	w.remember(broker, s.Brokers)
	return s, nil
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

// allTopicsRequest is a request for all topics whose answer is handed over as it came.
type allTopicsRequest struct{ kmsg.MetadataRequest }

// MaxVersion implements kmsg.Request: what metadataReader can read.
func (*allTopicsRequest) MaxVersion() int16 { return maxMetadata }

// ResponseKind implements kmsg.Request.
func (r *allTopicsRequest) ResponseKind() kmsg.Response {
	a := &allTopicsResponse{}
	a.Version = r.Version
	return a
}

// allTopicsResponse is an answer that is not read yet.
type allTopicsResponse struct {
	kmsg.MetadataResponse
	raw []byte
}

// ReadFrom implements kmsg.Response. The slice is the receiver's: the library makes one for each answer.
func (a *allTopicsResponse) ReadFrom(raw []byte) error {
	a.raw = raw
	if a.Version >= 3 && len(raw) >= 4 {
		a.ThrottleMillis = int32(binary.BigEndian.Uint32(raw))
	}
	return nil
}
