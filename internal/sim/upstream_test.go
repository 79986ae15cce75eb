package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// upstream is the Kafka cluster behind: its topics, and for each group the static member that may commit and the
// offsets. A join under the one instance id takes the place of whoever joined before, whose requests are refused from
// then on.
type upstream struct {
	observer *observer
	ctx      context.Context
	wg       sync.WaitGroup // requests under way

	mu     sync.Mutex
	rand   *rand.Rand
	slow   bool
	topics map[string]topology.Topic
	secret map[string]bool // topics that nodes may not describe
	groups map[string]*upstreamGroup
	// unfenced has it take commits of who is not the member any more and hasty say that it has them when it has not: faults
	// that a checker is to find.
	unfenced, hasty bool
	// refuse, when set, is the error for each topic that is to be created; creations are the requests for it.
	refuse    error
	creations []creation
}

// creation is a request to create topics, when it was sent.
type creation struct {
	at   time.Time
	from *link
}

type upstreamGroup struct {
	generation int  // counts joins
	held       bool // there is a member
	offsets    map[string]int64
}

func newUpstream(ctx context.Context, o *observer, seed uint64) *upstream {
	return &upstream{
		observer: o, ctx: ctx, rand: rand.New(rand.NewPCG(seed, 1)),
		topics: map[string]topology.Topic{}, secret: map[string]bool{}, groups: map[string]*upstreamGroup{},
	}
}

func (u *upstream) addTopic(name string, partitions int32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, exists := u.topics[name]; exists {
		return
	}
	t := topology.Topic{Name: name, Partitions: partitions}
	copy(t.ID[:], fmt.Sprintf("%-16.16s", fmt.Sprint(len(u.topics), name)))
	u.topics[name] = t
}

// growTopic gives a topic more partitions.
func (u *upstream) growTopic(name string, partitions int32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.topics[name]
	t.Partitions = partitions
	u.topics[name] = t
}

func (u *upstream) dropTopic(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.topics, name)
}

func (u *upstream) group(id string) *upstreamGroup {
	g := u.groups[id]
	if g == nil {
		g = &upstreamGroup{offsets: map[string]int64{}}
		u.groups[id] = g
	}
	return g
}

// delay is how long a request takes one way: mostly little, now and then as long as a fault.
func (u *upstream) delay() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch p := u.rand.IntN(100); {
	case u.slow:
		return time.Duration(100+u.rand.IntN(1500)) * time.Millisecond
	case p < 3:
		return time.Duration(500+u.rand.IntN(2500)) * time.Millisecond
	case p < 15:
		return time.Duration(20+u.rand.IntN(400)) * time.Millisecond
	}
	return time.Duration(200+u.rand.IntN(3000)) * time.Microsecond
}

// setSlow makes all later requests and answers take long.
func (u *upstream) setSlow(slow bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slow = slow
}

// link is a node's way to the upstream. While it is cut, requests and answers wait.
type link struct {
	up      *upstream
	mu      sync.Mutex
	cut     bool
	changed chan struct{}
}

func newLink(u *upstream) *link { return &link{up: u, changed: make(chan struct{})} }

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != cut {
		l.cut = cut
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// cross is one way; it fails only when the simulation ends.
func (l *link) cross() error {
	timer := time.NewTimer(l.up.delay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.up.ctx.Done():
		return l.up.ctx.Err()
	}
	for {
		l.mu.Lock()
		cut, changed := l.cut, l.changed
		l.mu.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-changed:
		case <-l.up.ctx.Done():
			return l.up.ctx.Err()
		}
	}
}

// ask sends a request that act carries out when it arrives, and waits for the answer. What is sent arrives whether or not
// anybody still waits.
func (l *link) ask(ctx context.Context, act func()) error {
	done := make(chan error, 1)
	l.up.wg.Go(func() {
		err := l.cross()
		if err == nil {
			act()
			err = l.cross()
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// source is the upstream's topics as a node sees them.
type source struct{ *link }

var (
	_ topicctl.NamedSource  = source{}
	_ topicctl.LookupSource = source{}
)

// Metadata implements topicctl.Source.
func (s source) Metadata(ctx context.Context) (*topicctl.Snapshot, error) {
	return s.metadata(ctx, func(string) bool { return true })
}

// NamedMetadata implements topicctl.NamedSource.
func (s source) NamedMetadata(ctx context.Context, names []string) (*topicctl.Snapshot, error) {
	names = slices.Clone(names)
	return s.metadata(ctx, func(name string) bool { return slices.Contains(names, name) })
}

func (s source) metadata(ctx context.Context, wanted func(string) bool) (*topicctl.Snapshot, error) {
	snapshot := &topicctl.Snapshot{
		ClusterID: "upstream", ControllerID: 1, Brokers: []topicctl.Broker{{ID: 1, Host: brokerHost, Port: brokerPort}},
	}
	err := s.ask(ctx, func() {
		s.up.mu.Lock()
		defer s.up.mu.Unlock()
		for _, t := range s.up.topics {
			if wanted(t.Name) && !s.up.secret[t.Name] {
				snapshot.Topics = append(snapshot.Topics, t)
			}
		}
	})
	if err != nil {
		return nil, err // it may still be written to
	}
	return snapshot, nil
}

// Lookup implements topicctl.LookupSource.
func (s source) Lookup(ctx context.Context, names []string) (map[string]topology.Lookup, error) {
	names = slices.Clone(names)
	found := map[string]topology.Lookup{}
	err := s.ask(ctx, func() {
		s.up.mu.Lock()
		defer s.up.mu.Unlock()
		for _, name := range names {
			if t, exists := s.up.topics[name]; !s.up.secret[name] {
				found[name] = topology.Lookup{Missing: !exists, ID: t.ID}
			}
		}
	})
	if err != nil {
		return nil, err // it may still be written to
	}
	return found, nil
}

// CreateTopics implements topicctl.Source.
func (s source) CreateTopics(ctx context.Context, topics []topology.InternalTopic) (map[string]error, error) {
	results := map[string]error{}
	s.up.mu.Lock()
	s.up.creations = append(s.up.creations, creation{at: time.Now(), from: s.link})
	s.up.mu.Unlock()
	err := s.ask(ctx, func() {
		s.up.mu.Lock()
		refused := s.up.refuse
		s.up.mu.Unlock()
		for _, t := range topics {
			if results[t.Name] = refused; refused == nil {
				s.up.addTopic(t.Name, t.Partitions)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// store keeps a node's offsets upstream as the real one does: what is asked for a group happens in order, as the group's
// static member.
type store struct {
	*link
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	groups map[string]*storeGroup
}

var _ server.Store = (*store)(nil)

// storeGroup is a group as this node knows it, until it forgets it.
type storeGroup struct {
	ctx        context.Context
	forget     context.CancelFunc
	generation int // of the last join; 0: no member
	last       chan struct{}
}

func newStore(l *link) *store {
	s := &store{link: l, groups: map[string]*storeGroup{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

var (
	errForgotten = errors.New("forgotten meanwhile")
	errFenced    = errors.New("another node is the member")
)

// inOrder has f run after everything that was asked for the group before.
func (s *store) inOrder(id string, f func(g *storeGroup)) {
	id = strings.Clone(id)
	s.mu.Lock()
	g := s.groups[id]
	if g == nil {
		g = &storeGroup{last: make(chan struct{})}
		close(g.last)
		g.ctx, g.forget = context.WithCancel(s.ctx)
		s.groups[id] = g
	}
	before, mine := g.last, make(chan struct{})
	g.last = mine
	s.mu.Unlock()
	s.wg.Go(func() {
		defer close(mine)
		select {
		case <-before:
		case <-g.ctx.Done():
		}
		f(g)
	})
}

func (s *store) generation(g *storeGroup) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.generation
}

// Foreign implements server.Store: no other group has the id.
func (s *store) Foreign(_ string, done func(coordinator.ForeignGroup, error)) {
	s.wg.Go(func() { done(coordinator.ForeignGroup{}, s.ask(s.ctx, func() {})) })
}

// Claim implements server.Store.
func (s *store) Claim(id string, done func(error)) {
	id = strings.Clone(id)
	s.inOrder(id, func(g *storeGroup) {
		var generation int
		err := s.ask(g.ctx, func() {
			s.up.mu.Lock()
			defer s.up.mu.Unlock()
			u := s.up.group(id)
			u.generation++
			u.held = true
			generation = u.generation
		})
		if err == nil {
			s.mu.Lock()
			g.generation = generation
			s.mu.Unlock()
		}
		done(err)
	})
}

// Release implements server.Store. Who holds no claim removes whatever member is there.
func (s *store) Release(id string, done func(error)) {
	id = strings.Clone(id)
	s.inOrder(id, func(g *storeGroup) {
		mine := s.generation(g)
		var fenced bool
		err := s.ask(g.ctx, func() {
			s.up.mu.Lock()
			defer s.up.mu.Unlock()
			u := s.up.group(id)
			if mine != 0 && mine != u.generation {
				fenced = true
				return
			}
			u.generation++
			u.held = false
		})
		s.mu.Lock()
		g.generation = 0
		s.mu.Unlock()
		if err == nil && fenced {
			err = errFenced
		}
		done(err)
	})
}

// Forget implements server.Store.
func (s *store) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[id]; g != nil {
		g.forget()
		delete(s.groups, id)
	}
}

// Commit implements server.Store.
func (s *store) Commit(r *offsets.CommitRequest, done func(*offsets.CommitResponse)) {
	id := strings.Clone(r.GroupID)
	type entry struct {
		key, metadata string
		offset        int64
	}
	var entries []entry // what is under way must not alias the request
	response := &offsets.CommitResponse{}
	for _, t := range r.Topics {
		result := offsets.CommitTopicResult{Name: t.Name, ID: t.ID}
		for _, p := range t.Partitions {
			result.Partitions = append(result.Partitions, offsets.PartitionResult{Partition: p.Partition})
			entries = append(entries, entry{fmt.Sprintf("%s/%d", t.Name, p.Partition), strings.Clone(*p.Metadata), p.Offset})
		}
		response.Topics = append(response.Topics, result)
	}
	s.inOrder(id, func(g *storeGroup) {
		mine := s.generation(g)
		refused := false
		if s.up.hasty {
			s.wg.Go(func() { done(response) })
		}
		err := s.ask(g.ctx, func() {
			s.up.mu.Lock()
			u := s.up.group(id)
			if (!u.held || mine != u.generation) && !s.up.unfenced {
				s.up.mu.Unlock()
				refused = true
				return
			}
			for _, e := range entries {
				u.offsets[e.key] = e.offset
			}
			s.up.mu.Unlock()
			for _, e := range entries {
				s.up.observer.landed(e.metadata)
			}
		})
		code := coordinator.None
		if err != nil || refused {
			code = coordinator.NotCoordinator
		}
		for i := range response.Topics {
			for j := range response.Topics[i].Partitions {
				response.Topics[i].Partitions[j].Code = code
			}
		}
		if !s.up.hasty {
			done(response)
		}
	})
}

// Fetch implements server.Store.
func (s *store) Fetch(r *offsets.FetchRequest, done func(*offsets.FetchResponse)) {
	id := strings.Clone(r.GroupID)
	response := &offsets.FetchResponse{}
	for _, t := range r.Topics {
		result := offsets.FetchTopicResult{Name: strings.Clone(t.Name), ID: t.ID}
		for _, p := range t.Partitions {
			result.Partitions = append(result.Partitions, offsets.FetchedOffset{Partition: p, Offset: -1, LeaderEpoch: -1})
		}
		response.Topics = append(response.Topics, result)
	}
	s.inOrder(id, func(g *storeGroup) {
		if err := s.ask(g.ctx, func() {
			s.up.mu.Lock()
			defer s.up.mu.Unlock()
			u := s.up.group(id)
			for _, t := range response.Topics {
				for j := range t.Partitions {
					if offset, ok := u.offsets[fmt.Sprintf("%s/%d", t.Name, t.Partitions[j].Partition)]; ok {
						t.Partitions[j].Offset = offset
					}
				}
			}
		}); err != nil {
			done(&offsets.FetchResponse{Err: coordinator.Errorf(coordinator.NotCoordinator, "%v", errForgotten)})
			return
		}
		done(response)
	})
}

// Delete implements server.Store; no member deletes offsets.
func (s *store) Delete(_ *offsets.DeleteRequest, done func(*offsets.DeleteResponse)) {
	go done(&offsets.DeleteResponse{})
}

// DeleteGroup implements server.Store; nobody deletes groups.
func (s *store) DeleteGroup(_ string, done func(error)) { go done(nil) }

// Close implements server.Store.
func (s *store) Close() {
	s.cancel()
	s.wg.Wait()
}
