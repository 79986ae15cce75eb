package upstream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// OffsetsConfig configures the offsets kept upstream. Client is required; zero values mean the defaults.
type OffsetsConfig struct {
	Client *Client
	// Logger gets one line when a claim is lost, taken over or cannot be made; nil means none.
	Logger hclog.Logger
	// Rand returns numbers in [0, 1) for jitter; it may be called from any goroutine. Nil means no jitter.
	Rand func() float64
	// Verify proves that this process still leads the group's shard: done gets nil once that is proven, by a proof begun
	// after the call, and must be called exactly once. It is asked before a claim that was lost or taken over is made
	// anew, so that a process that was paused does not take the group back from its successor, while the rightful holder
	// recovers from a late join of a predecessor; and before anything is deleted, or a membership removed that this process
	// does not know. Nil means: a claim that another took is dropped, any other is made anew.
	Verify func(group string, done func(error))
	// Session is the session time-out of the claims; 60 s by default, halved down to 6 s while the upstream refuses it.
	Session time.Duration
	// Deadline is how long a commit, fetch or delete may take before it is answered with COORDINATOR_NOT_AVAILABLE (or
	// COORDINATOR_LOAD_IN_PROGRESS while the group is being claimed); 5 s by default.
	Deadline time.Duration
	// MaxQueue bounds the requests that wait for one group; those beyond get COORDINATOR_LOAD_IN_PROGRESS. 10,000 by
	// default.
	MaxQueue int
}

// Reasons why a claim was not made.
var (
	// ErrDropped says that the group was released, forgotten or deleted meanwhile, or that the store was closed.
	ErrDropped = errors.New("claim dropped")
	// ErrFenced says that another process holds the group's claim now.
	ErrFenced = errors.New("claim taken over by another process")
)

// Offsets keeps the offsets of streams groups in the upstream's group of the same id (docs/architecture.md, "Offsets").
// For a group with members the leader of its shard claims it: it becomes the one static member of the upstream's group,
// which fences whoever claimed it before, keeps the upstream from dropping the offsets, and keeps others from
// committing.
//
// What is asked for one group through Claim, Release, Commit, Delete and DeleteGroup reaches the upstream in the order of
// the calls, except that transactional commits of different producers overtake each other. Every done is called exactly
// once, on some goroutine, without locks; it must not block. Arguments must stay unchanged until done.
type Offsets struct {
	cfg    OffsetsConfig
	client *Client
	log    hclog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	wake   chan struct{} // for the clock goroutine

	mu      sync.Mutex
	closed  bool
	groups  map[string]*group
	busy    map[*group]struct{}
	beats   beatHeap
	beating int
	session time.Duration
	held    int
}

// group is what is known about one group; it lives while there is a claim or work. Guarded by Offsets.mu.
type group struct {
	id    string
	lane  int
	queue []*op
	// term counts Forgets: what was under way for an earlier term changes nothing.
	term   uint64
	cancel context.CancelFunc // ends what is under way
	claim  claim
	// joining says that a claim is being made.
	joining bool
	// retries counts commits that failed in a row, for the back-off.
	retries int
	// takenAt is when another process was last seen to hold the claim.
	takenAt time.Time
	// refusal is the last code that was logged because the upstream refuses what it should not.
	refusal int16
}

// claimState says how a group stands upstream.
type claimState int

const (
	unclaimed claimState = iota // no member: commits are memberless
	lost                        // was held; must be made anew before the next commit
	held
	fenced // another process holds it
)

type claim struct {
	state      claimState
	memberID   string // of the last claim, also when it was lost
	generation int32
	taken      bool // lost to another process
}

type opKind int

const (
	opClaim opKind = iota
	opReclaim
	opRelease
	opCommit
	opDelete
	opDeleteGroup
)

// op is one piece of work of a group.
type op struct {
	kind     opKind
	deadline time.Time // zero: none
	evicted  int       // how often a former holder was removed for this commit

	done     func(error) // claim, release, deleteGroup
	commit   *offsets.CommitRequest
	commited func(*offsets.CommitResponse)
	delete   *offsets.DeleteRequest
	deleted  func(*offsets.DeleteResponse)
}

// NewOffsets makes the store; Close ends it.
func NewOffsets(cfg OffsetsConfig) *Offsets {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Rand == nil {
		cfg.Rand = func() float64 { return 0.5 }
	}
	cfg.Session = orDefault(cfg.Session, time.Minute)
	cfg.Deadline = orDefault(cfg.Deadline, 5*time.Second)
	cfg.MaxQueue = orDefault(cfg.MaxQueue, 10_000)
	o := &Offsets{
		cfg: cfg, client: cfg.Client, log: cfg.Logger, wake: make(chan struct{}, 1),
		groups: map[string]*group{}, busy: map[*group]struct{}{}, session: cfg.Session,
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	o.wg.Add(1)
	go o.clock()
	return o
}

// Claim makes this process the member of the upstream's group, anew even when it is so already, and keeps it so until
// Release, Forget or Close. done gets nil once the claim stands: from then on nothing that an earlier holder has in
// flight is accepted. Claim keeps trying while the upstream is away. It gives up with ErrDropped, ErrFenced, or a
// *coordinator.Error when the upstream refuses for good: INCONSISTENT_GROUP_PROTOCOL when the id is in use there by a
// group of another type.
func (o *Offsets) Claim(group string, done func(error)) {
	o.enqueue(group, &op{kind: opClaim, done: done})
}

// Release leaves the upstream's group, after the commits that were asked for before. The group's offsets stay, and
// commits are memberless from then on. Releasing a group that is not claimed removes what a former holder left behind.
// done gets nil once no earlier commit can arrive any more, else ErrDropped or why the upstream could not be told.
func (o *Offsets) Release(group string, done func(error)) {
	o.enqueue(group, &op{kind: opRelease, done: done})
}

// Forget drops the claim without leaving, because the shard is led elsewhere now. Commits that wait are answered with
// NOT_COORDINATOR, claims that wait with ErrDropped.
func (o *Offsets) Forget(group string) {
	o.mu.Lock()
	g := o.groups[group]
	if g == nil {
		o.mu.Unlock()
		return
	}
	ops := o.reset(g)
	o.mu.Unlock()
	for _, p := range ops {
		p.fail(coordinator.NotCoordinator, ErrDropped)
	}
}

// reset drops a group's claim and work and returns the work. The lock is held.
func (o *Offsets) reset(g *group) []*op {
	ops := g.queue
	g.queue = nil
	g.term++
	o.setClaim(g, claim{})
	if g.cancel != nil {
		g.cancel()
	}
	if _, busy := o.busy[g]; !busy {
		delete(o.groups, g.id)
	}
	return ops
}

// setClaim changes the claim and keeps count. The lock is held.
func (o *Offsets) setClaim(g *group, c claim) {
	if g.claim.state == held {
		o.held--
	}
	if c.state == held {
		o.held++
	}
	g.claim = c
}

// Claimed reports whether the claim of a group stands, as far as is known here.
func (o *Offsets) Claimed(group string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[group]
	return g != nil && g.claim.state == held
}

// NumClaimed is the number of claims that stand.
func (o *Offsets) NumClaimed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// Commit stores offsets. With a claim, they are committed as its member; while it is being made, they wait for it.
// Without one, a commit that names a member (MemberEpoch of 0 or more) is answered with COORDINATOR_LOAD_IN_PROGRESS,
// any other is committed without a member.
func (o *Offsets) Commit(req *offsets.CommitRequest, done func(*offsets.CommitResponse)) {
	o.enqueue(req.GroupID, &op{kind: opCommit, commit: req, commited: done})
}

// Delete deletes offsets. The upstream does this only for groups without members: the claim is given up for that time.
func (o *Offsets) Delete(req *offsets.DeleteRequest, done func(*offsets.DeleteResponse)) {
	o.enqueue(req.GroupID, &op{kind: opDelete, delete: req, deleted: done})
}

// DeleteGroup gives the claim up and deletes the upstream's group with its offsets. A group that does not exist is no
// error. The error is a *coordinator.Error: NON_EMPTY_GROUP when members of another kind, or another process's claim, are in it;
// NOT_COORDINATOR when this process cannot prove that it leads.
func (o *Offsets) DeleteGroup(group string, done func(error)) {
	o.enqueue(group, &op{kind: opDeleteGroup, done: done})
}

// request reports whether a client waits for the op.
func (p *op) request() bool {
	return p.kind == opCommit || p.kind == opDelete || p.kind == opDeleteGroup
}

// fail answers an op that is given up.
func (p *op) fail(code coordinator.Code, err error) {
	switch p.kind {
	case opCommit:
		p.commited(commitAnswer(p.commit, code))
	case opDelete:
		p.deleted(&offsets.DeleteResponse{Err: coordinator.Errorf(code, "the upstream is not available")})
	case opDeleteGroup:
		p.done(coordinator.Errorf(code, "the upstream is not available"))
	case opClaim, opRelease:
		p.done(err)
	}
}

// commitAnswer answers every partition with code.
func commitAnswer(req *offsets.CommitRequest, code coordinator.Code) *offsets.CommitResponse {
	resp := &offsets.CommitResponse{Topics: make([]offsets.CommitTopicResult, len(req.Topics))}
	for i, t := range req.Topics {
		partitions := make([]offsets.PartitionResult, len(t.Partitions))
		for j, p := range t.Partitions {
			partitions[j] = offsets.PartitionResult{Partition: p.Partition, Code: code}
		}
		resp.Topics[i] = offsets.CommitTopicResult{Name: t.Name, ID: t.ID, Partitions: partitions}
	}
	return resp
}

// enqueue adds work for a group and sees to it that somebody does it.
func (o *Offsets) enqueue(id string, p *op) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		p.fail(coordinator.CoordinatorNotAvailable, ErrDropped)
		return
	}
	g := o.groups[id]
	if g == nil {
		id = strings.Clone(id)
		g = &group{id: id, lane: int(fnv32(id) % uint32(len(o.client.lanes)))}
		o.groups[id] = g
	}
	if len(g.queue) >= o.cfg.MaxQueue && p.request() {
		o.mu.Unlock()
		p.fail(coordinator.CoordinatorLoadInProgress, ErrDropped)
		return
	}
	if p.request() {
		p.deadline = time.Now().Add(o.cfg.Deadline)
	}
	g.queue = append(g.queue, p)
	started := o.start(g)
	o.mu.Unlock()
	if started {
		o.kick()
	}
}

// start makes a goroutine work on the group's queue unless one does. The lock is held.
func (o *Offsets) start(g *group) bool {
	if _, ok := o.busy[g]; ok || o.closed {
		return false
	}
	o.busy[g] = struct{}{}
	o.wg.Add(1)
	go o.work(g)
	return len(o.busy) == 1
}

func fnv32(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// Close ends everything and answers what waits with COORDINATOR_NOT_AVAILABLE or ErrDropped. It does not leave the
// groups: another leader takes them over. It returns once every done has been called.
func (o *Offsets) Close() {
	o.mu.Lock()
	o.closed = true
	var ops []*op
	for _, g := range o.groups {
		ops = append(ops, o.reset(g)...)
	}
	o.mu.Unlock()
	o.cancel()
	for _, p := range ops {
		p.fail(coordinator.CoordinatorNotAvailable, ErrDropped)
	}
	o.wg.Wait()
}
