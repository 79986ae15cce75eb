package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinators remembers which broker coordinates a group. The client library has such a memory too, but repeats
// requests on its own and forgets a coordinator only by the first partition of an answer.
type coordinators struct {
	mu    sync.Mutex
	nodes map[string]int32
}

// maxCoordinators bounds the memory; it is emptied when it is full.
const maxCoordinators = 100_000

func (m *coordinators) get(group string) (int32, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, ok := m.nodes[group]
	return node, ok
}

func (m *coordinators) put(group string, node int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes == nil || len(m.nodes) >= maxCoordinators {
		m.nodes = map[string]int32{}
	}
	m.nodes[group] = node
}

func (m *coordinators) forget(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, group)
}

// notSentError wraps why a request was not sent: the upstream has not seen it.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// sent reports whether the upstream may have seen the request that failed with err.
func sent(err error) bool {
	var notSent *notSentError
	var dial *dialError
	return !errors.As(err, &notSent) && !errors.As(err, &dial)
}

// request sends req once to the coordinator of group over cl. After an error the coordinator is looked up again.
func (c *Client) request(ctx context.Context, cl *kgo.Client, group string, req kmsg.Request) (kmsg.Response, error) {
	node, err := c.coordinator(ctx, group)
	if err != nil {
		return nil, &notSentError{err}
	}
	resp, err := cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		c.coordinators.forget(group)
		if !sent(err) {
			cl.ForceMetadataRefresh() // the broker may have moved
		}
	}
	return resp, err
}

func (c *Client) coordinator(ctx context.Context, group string) (int32, error) {
	if node, ok := c.coordinators.get(group); ok {
		return node, nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return 0, fmt.Errorf("find coordinator: %w", err)
	}
	node, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) > 0 {
		node, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return 0, fmt.Errorf("find coordinator: %w", err)
	}
	c.coordinators.put(group, node)
	return node, nil
}
