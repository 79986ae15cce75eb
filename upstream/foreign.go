package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// The upstream's group types as Foreign names them; a classic group is named by its protocol type.
const (
	typeConsumer = "consumer"
	typeShare    = "share"
	typeStreams  = "streams"
)

// foreignBatch bounds the groups of one round.
const foreignBatch = 500

// foreign answers whether a non-empty group of another kind has an id upstream.
type foreign struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running bool
	waiting []foreignCall
}

type foreignCall struct {
	group string
	done  func(string, error)
}

func newForeign(c *Client) *foreign {
	f := &foreign{client: c}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Foreign reports the type of the upstream's non-empty group of that id ("consumer", "share", "streams", or the protocol
// type of a classic group), or "" when there is none; coordd's own claims do not count. The questions that come while
// one round is under way share the next. The error is a *coordinator.Error, COORDINATOR_NOT_AVAILABLE, when it cannot
// be known. done is called exactly once, on some goroutine; it must not block.
func (c *Client) Foreign(group string, done func(typ string, err error)) { c.foreign.ask(group, done) }

// Foreign is Client.Foreign.
func (o *Offsets) Foreign(group string, done func(typ string, err error)) {
	o.client.Foreign(group, done)
}

func (f *foreign) ask(group string, done func(typ string, err error)) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		done("", errNotKnown)
		return
	}
	f.waiting = append(f.waiting, foreignCall{group, done})
	if !f.running {
		f.running = true
		f.wg.Add(1)
		go f.run()
	}
	f.mu.Unlock()
}

var errNotKnown = coordinator.Errorf(coordinator.CoordinatorNotAvailable, "the upstream is not available")

// close answers what waits with an error and returns once every done has been called.
func (f *foreign) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
}

func (f *foreign) run() {
	defer f.wg.Done()
	for {
		f.mu.Lock()
		n := min(len(f.waiting), foreignBatch)
		if n == 0 {
			f.running, f.waiting = false, nil
			f.mu.Unlock()
			return
		}
		calls := f.waiting[:n:n]
		f.waiting = f.waiting[n:]
		f.mu.Unlock()
		f.round(calls)
	}
}

// round asks about each group once, with one request of each kind that the upstream has.
func (f *foreign) round(calls []foreignCall) {
	ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second)
	defer cancel()
	var names []string
	seen := map[string]bool{}
	for _, c := range calls {
		if !seen[c.group] {
			seen[c.group] = true
			names = append(names, c.group)
		}
	}
	kinds := []func(context.Context, []string) findings{f.classic}
	apis := f.client.apis.get(ctx, f.client.admin)
	for key, kind := range map[int16]func(context.Context, []string) findings{69: f.consumer, 77: f.share, 89: f.streams} {
		if apis[key] {
			kinds = append(kinds, kind)
		}
	}
	found := make([]findings, len(kinds))
	var wg sync.WaitGroup
	for i, kind := range kinds {
		wg.Go(func() { found[i] = kind(ctx, names) })
	}
	wg.Wait()
	for _, c := range calls {
		typ, err := "", error(nil)
		if apis == nil {
			err = errNotKnown
		}
		for _, kind := range found {
			finding, ok := kind[c.group]
			if finding.typ != "" {
				typ = finding.typ
			}
			if !ok || finding.err != nil {
				err = errNotKnown
			}
		}
		if typ != "" {
			err = nil
		}
		c.done(typ, err)
	}
}

// findings holds, for each group that was answered for, its type when it is non-empty.
type findings map[string]finding

type finding struct {
	typ string
	err error
}

// add notes an answer. GROUP_ID_NOT_FOUND says that there is no group of the kind asked for.
func (f findings) add(group string, code int16, state, typ string) {
	err := kerr.ErrorForCode(code)
	if errors.Is(err, kerr.GroupIDNotFound) {
		err, state = nil, "Dead"
	}
	if err != nil || state == "Empty" || state == "Dead" {
		typ = ""
	}
	f[group] = finding{typ, err}
}

func (f *foreign) classic(ctx context.Context, names []string) findings {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = names
	out := findings{}
	for _, shard := range f.client.admin.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.DescribeGroupsResponse); ok && shard.Err == nil {
			for _, g := range resp.Groups {
				typ := g.ProtocolType
				if typ == protocolType {
					typ = ""
				}
				out.add(g.Group, g.ErrorCode, g.State, typ)
			}
		}
	}
	return out
}

func (f *foreign) consumer(ctx context.Context, names []string) findings {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = names
	out := findings{}
	for _, shard := range f.client.admin.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.ConsumerGroupDescribeResponse); ok && shard.Err == nil {
			for _, g := range resp.Groups {
				out.add(g.Group, g.ErrorCode, g.State, typeConsumer)
			}
		}
	}
	return out
}

func (f *foreign) share(ctx context.Context, names []string) findings {
	req := kmsg.NewPtrShareGroupDescribeRequest()
	req.GroupIDs = names
	out := findings{}
	for _, shard := range f.client.admin.RequestSharded(ctx, req) {
		if resp, ok := shard.Resp.(*kmsg.ShareGroupDescribeResponse); ok && shard.Err == nil {
			for _, g := range resp.Groups {
				out.add(g.GroupID, g.ErrorCode, g.GroupState, typeShare)
			}
		}
	}
	return out
}

// streams asks each coordinator for its groups; the client library does not split this request by itself.
func (f *foreign) streams(ctx context.Context, names []string) findings {
	byNode := map[int32][]string{}
	for _, name := range names {
		if node, err := f.client.coordinator(ctx, name); err == nil {
			byNode[node] = append(byNode[node], name)
		}
	}
	out := findings{}
	for node, groups := range byNode {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = groups
		resp, err := f.client.admin.Broker(int(node)).Request(ctx, req)
		if err != nil {
			for _, g := range groups {
				f.client.coordinators.forget(g)
			}
			continue
		}
		for _, g := range resp.(*kmsg.StreamsGroupDescribeResponse).Groups {
			if isCoordinatorTrouble(g.ErrorCode) {
				f.client.coordinators.forget(g.Group)
			}
			out.add(g.Group, g.ErrorCode, g.State, typeStreams)
		}
	}
	return out
}

// apiMemory remembers for a while which API keys the upstream has.
type apiMemory struct {
	mu    sync.Mutex
	keys  map[int16]bool
	since time.Time
}

// get returns the keys, or nil when the upstream does not answer.
func (m *apiMemory) get(ctx context.Context, cl *kgo.Client) map[int16]bool {
	m.mu.Lock()
	keys, since := m.keys, m.since
	m.mu.Unlock()
	if keys != nil && time.Since(since) < time.Minute {
		return keys
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "coordd", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || kerr.ErrorForCode(resp.ErrorCode) != nil {
		return keys
	}
	keys = make(map[int16]bool, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		keys[k.ApiKey] = true
	}
	m.mu.Lock()
	m.keys, m.since = keys, time.Now()
	m.mu.Unlock()
	return keys
}
