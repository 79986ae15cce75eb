package upstream

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// foreignBatch bounds the groups of one round, foreignRounds the rounds that are under way together.
const (
	foreignBatch  = 500
	foreignRounds = 4
)

// foreign answers whether a group of another kind has an id upstream.
type foreign struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	rounds  int // under way
	waiting []foreignCall
}

type foreignCall struct {
	group string
	done  func(coordinator.ForeignGroup, error)
}

func newForeign(c *Client) *foreign {
	f := &foreign{client: c}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Foreign reports the upstream's group of that id, and whether a streams group may take the id over: see inUse. The
// questions that come while rounds are under way share the next. The error is a *coordinator.Error,
// COORDINATOR_NOT_AVAILABLE, when it cannot be known. done is called exactly once, on some goroutine; it must not block.
func (c *Client) Foreign(group string, done func(coordinator.ForeignGroup, error)) {
	c.foreign.ask(group, done)
}

// Foreign is Client.Foreign.
func (o *Offsets) Foreign(group string, done func(coordinator.ForeignGroup, error)) {
	o.client.Foreign(group, done)
}

func (f *foreign) ask(group string, done func(coordinator.ForeignGroup, error)) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		done(coordinator.ForeignGroup{}, errNotKnown)
		return
	}
	f.waiting = append(f.waiting, foreignCall{group, done})
	if f.rounds < foreignRounds {
		f.rounds++
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
			f.rounds--
			f.mu.Unlock()
			return
		}
		calls := f.waiting[:n:n]
		f.waiting = f.waiting[n:]
		f.mu.Unlock()
		f.round(calls)
	}
}

// round lists the upstream's groups once for all that ask: every broker knows the groups that it coordinates, of every
// type.
func (f *foreign) round(calls []foreignCall) {
	ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second)
	defer cancel()
	found, err := f.list(ctx, calls)
	for _, c := range calls {
		if group, ok := found[c.group]; ok && (err == nil || group.Type != "") {
			c.done(group, nil)
		} else {
			c.done(coordinator.ForeignGroup{}, err)
		}
	}
}

// list finds the groups that are asked about. The error says that some broker did not answer, so that nothing is known of
// a group that was not found. While a coordinator moves two brokers may name a group: in use by either it is in use.
func (f *foreign) list(ctx context.Context, calls []foreignCall) (map[string]coordinator.ForeignGroup, error) {
	asked := make(map[string]bool, len(calls))
	for _, c := range calls {
		asked[c.group] = true
	}
	found := map[string]coordinator.ForeignGroup{}
	var failed error
	for _, shard := range f.client.admin.RequestSharded(ctx, kmsg.NewPtrListGroupsRequest()) {
		resp, ok := shard.Resp.(*kmsg.ListGroupsResponse)
		if !ok || shard.Err != nil || kerr.ErrorForCode(resp.ErrorCode) != nil {
			failed = errNotKnown
			continue
		}
		for i := range resp.Groups {
			g := &resp.Groups[i]
			switch {
			case !asked[g.Group] || g.GroupState == "Dead" || found[g.Group].InUse:
			case g.ProtocolType != protocolType:
				found[g.Group] = coordinator.ForeignGroup{Type: typeOf(g), InUse: inUse(g), Offsets: true}
			case found[g.Group].Type == "":
				found[g.Group] = coordinator.ForeignGroup{Offsets: true}
			}
		}
	}
	return found, failed
}

// inUse says that no streams group may take the id over: consumer and share groups stay what they are even without
// members, others while they have some (Kafka's GroupMetadataManager.getOrMaybeCreateStreamsGroup). coordd's own claims do
// not count.
func inUse(g *kmsg.ListGroupsResponseGroup) bool {
	switch strings.ToLower(g.GroupType) {
	case "consumer", "share":
		return g.GroupState != "Dead"
	}
	return g.GroupState != "Empty" && g.GroupState != "Dead" && g.ProtocolType != protocolType
}

// typeOf names a group's type: that of KIP-848, KIP-932 or KIP-1071, or the protocol type of a classic group.
func typeOf(g *kmsg.ListGroupsResponseGroup) string {
	switch {
	case g.GroupType != "" && !strings.EqualFold(g.GroupType, "classic"):
		return strings.ToLower(g.GroupType)
	case g.ProtocolType != "":
		return g.ProtocolType
	}
	return "classic"
}
