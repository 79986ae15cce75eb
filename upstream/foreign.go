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

// foreignBatch bounds the groups of one round, foreignRounds the rounds that are under way together.
const (
	foreignBatch  = 500
	foreignRounds = 4
)

// foreign answers whether a non-empty group of another kind has an id upstream.
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
	done  func(string, error)
}

func newForeign(c *Client) *foreign {
	f := &foreign{client: c}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Foreign reports the type of the upstream's non-empty group of that id ("consumer", "share", "streams", or the protocol
// type of a classic group), or "" when there is none; coordd's own claims do not count. The questions that come while
// rounds are under way share the next. The error is a *coordinator.Error, COORDINATOR_NOT_AVAILABLE, when it cannot
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

// round asks about each group once: its coordinator, with one request of each kind that the upstream has.
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
	kinds := []foreignKind{classicKind}
	apis := f.client.apis.get(ctx, f.client.admin)
	for _, k := range []foreignKind{consumerKind, shareKind, streamsKind} {
		if apis[k.key] {
			kinds = append(kinds, k)
		}
	}
	var questions []question
	for node, groups := range f.client.coordinatorsOf(ctx, names) {
		for _, k := range kinds {
			questions = append(questions, question{node: node, kind: k, groups: groups})
		}
	}
	var wg sync.WaitGroup
	for i := range questions {
		wg.Go(func() { questions[i].found = f.describe(ctx, &questions[i]) })
	}
	wg.Wait()
	found := findings{}
	answers := map[string]int{}
	for _, q := range questions {
		for group, finding := range q.found {
			answers[group]++
			found.merge(group, finding)
		}
	}
	for _, c := range calls {
		finding := found[c.group]
		if finding.typ == "" && (apis == nil || answers[c.group] < len(kinds)) {
			finding.err = errNotKnown
		}
		if finding.typ != "" {
			finding.err = nil
		}
		c.done(finding.typ, finding.err)
	}
}

// question is one request of a round.
type question struct {
	node   int32
	kind   foreignKind
	groups []string
	found  findings
}

// describe asks a broker about groups that it coordinates; groups without an answer are not known.
func (f *foreign) describe(ctx context.Context, q *question) findings {
	out := findings{}
	resp, err := f.client.admin.Broker(int(q.node)).Request(ctx, q.kind.request(q.groups))
	if err != nil {
		for _, g := range q.groups {
			f.client.coordinators.forget(g)
		}
		return out
	}
	q.kind.each(resp, func(group string, code int16, state, typ string) {
		if isCoordinatorTrouble(code) {
			f.client.coordinators.forget(group)
		}
		out.add(group, code, state, typ)
	})
	return out
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
	if err != nil {
		err = errNotKnown
	}
	f[group] = finding{typ, err}
}

// merge keeps the type that one of the kinds found, else an error that one of them met.
func (f findings) merge(group string, other finding) {
	own := f[group]
	if own.typ == "" {
		own.typ = other.typ
	}
	if own.err == nil {
		own.err = other.err
	}
	f[group] = own
}

// foreignKind is one way to ask for groups of a type.
type foreignKind struct {
	key     int16
	request func(groups []string) kmsg.Request
	each    func(resp kmsg.Response, found func(group string, code int16, state, typ string))
}

var classicKind = foreignKind{
	key: int16(kmsg.DescribeGroups),
	request: func(groups []string) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = groups
		return req
	},
	each: func(resp kmsg.Response, found func(string, int16, string, string)) {
		for _, g := range resp.(*kmsg.DescribeGroupsResponse).Groups {
			typ := g.ProtocolType
			if typ == protocolType {
				typ = ""
			}
			found(g.Group, g.ErrorCode, g.State, typ)
		}
	},
}

var consumerKind = foreignKind{
	key: int16(kmsg.ConsumerGroupDescribe),
	request: func(groups []string) kmsg.Request {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = groups
		return req
	},
	each: func(resp kmsg.Response, found func(string, int16, string, string)) {
		for _, g := range resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
			found(g.Group, g.ErrorCode, g.State, typeConsumer)
		}
	},
}

var shareKind = foreignKind{
	key: int16(kmsg.ShareGroupDescribe),
	request: func(groups []string) kmsg.Request {
		req := kmsg.NewPtrShareGroupDescribeRequest()
		req.GroupIDs = groups
		return req
	},
	each: func(resp kmsg.Response, found func(string, int16, string, string)) {
		for _, g := range resp.(*kmsg.ShareGroupDescribeResponse).Groups {
			found(g.GroupID, g.ErrorCode, g.GroupState, typeShare)
		}
	},
}

var streamsKind = foreignKind{
	key: int16(kmsg.StreamsGroupDescribe),
	request: func(groups []string) kmsg.Request {
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = groups
		return req
	},
	each: func(resp kmsg.Response, found func(string, int16, string, string)) {
		for _, g := range resp.(*kmsg.StreamsGroupDescribeResponse).Groups {
			found(g.Group, g.ErrorCode, g.State, typeStreams)
		}
	},
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
