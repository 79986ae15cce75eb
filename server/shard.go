package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/raftnode"
	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
)

// inputKind names the inputs of a shard's machine.
type inputKind uint8

const (
	inputCall inputKind = iota
	inputElected
	inputLost
	inputCommitted
	inputProposalFailed
	inputVerified
	inputTick
	inputForeign
	inputLookedUp
	inputClaimed
	inputReleased
	inputStoreDone
	inputComputed
	inputLetGo
	inputGone
	inputTopics
	inputSettings
	inputCreation
	inputPause
	inputHandOver
	inputResume
	inputInherit
)

// input is one input of a shard's machine; which fields count depends on the kind.
type input struct {
	kind   inputKind
	ok     bool
	id     uint64 // proposal, store operation, term, or the term that asked for what is answered
	at     int64
	call   *shard.Call
	holder *shard.Holder
	group  string
	err    error
	any    any
	state  fsm.State
}

// drop answers the call of an input that nobody will step.
func (in *input) drop() {
	if in.call != nil {
		in.call.Response = nil
		in.call.Err = &coordinator.Error{Code: coordinator.NotCoordinator, Message: "This node is stopping.", NotStarted: true}
		in.call.Done.CallDone(in.call)
	}
}

// runner makes a shard's machine run on this node. It is the machine's host.
type runner struct {
	owner
	node    *Node
	number  uint32 // of the shard, from 0; its Raft group is number+1
	machine *shard.Machine
	group   *raftnode.Group
	replica *replica
	timer   *time.Timer
	term    atomic.Uint64 // of the last election that this node won
	queued  atomic.Int64  // what waited in the machine after its last run
	held    atomic.Int64  // heartbeats that were held then
	serving atomic.Uint64 // term in which the machine leads, or led last
	// takingOver is shard.Machine.TakingOver, in the term began, in which the machine leads or led last.
	takingOver atomic.Int64
	began      atomic.Uint64
	handed     atomic.Pointer[handover]

	leadMu sync.Mutex
	// leadsFrom is when the last leadership of this node began.
	leadsFrom atomic.Pointer[time.Time]
	leading   atomic.Uint64 // term in which this node leads, 0 when it does not; known to the machine a moment later; stored with leadMu held

	leaderMu sync.Mutex
	leader   int32     // -1: unknown
	ledUntil time.Time // when this node was last known to lead and another one, or none, came
	changed  chan struct{}
}

var _ shard.Host = (*runner)(nil)

func newRunner(n *Node, number uint32) *runner {
	r := &runner{node: n, number: number, leader: -1, changed: make(chan struct{})}
	r.replica = newReplica(nil)
	r.replica.skipped = n.recordsSkipped(fmt.Sprintf("shard %d", number))
	r.leadsFrom.Store(&time.Time{})
	r.machine = shard.New(r, n.shardOptions())
	r.owner = owner{step: r.step, flush: r.flush}
	r.timer = time.AfterFunc(time.Hour, func() { r.post(input{kind: inputTick}) })
	r.timer.Stop()
	return r
}

func (r *runner) step(in input) {
	began, pending := r.node.clock.elapsed(), r.machine.Pending()
	now := r.node.clock.ms(began)
	switch in.kind {
	case inputCall:
		r.machine.Submit(now, in.call)
	case inputElected:
		r.serving.Store(in.id)
		r.machine.Elected(now, in.id, in.state)
		r.takingOver.Store(int64(r.machine.TakingOver()))
		r.began.Store(in.id)
	case inputLost:
		r.machine.Lost(now)
	case inputCommitted:
		r.machine.Committed(now, in.id)
	case inputProposalFailed:
		r.machine.ProposalFailed(now, in.id, in.ok)
	case inputVerified:
		r.machine.Verified(now, in.at, in.ok)
	case inputTick:
		r.machine.Tick(now)
	case inputForeign:
		if in.id == r.serving.Load() { // else it may be older than what the leader between the two acknowledged
			r.machine.ForeignChecked(now, in.group, in.any.(coordinator.ForeignGroup), in.err)
		}
	case inputLookedUp:
		r.machine.TopicsLookedUp(now, in.id, in.any.(map[string]topology.Lookup))
	case inputClaimed:
		if in.id == r.serving.Load() { // else another leader may have claimed the group meanwhile, and this one has asked again
			r.machine.Claimed(now, in.group, in.err)
		}
	case inputReleased:
		if in.id == r.serving.Load() {
			r.machine.Released(now, in.group, in.err)
		}
	case inputStoreDone:
		r.machine.StoreDone(now, in.id, in.any)
	case inputComputed:
		r.machine.Computed(now, in.id, in.any.(*streams.ComputedTarget))
	case inputLetGo:
		r.machine.LetGo(now, in.holder)
	case inputGone:
		r.machine.Gone(now, in.holder, in.ok)
	case inputTopics:
		r.machine.TopicsChanged(now)
	case inputSettings:
		r.machine.SettingsChanged(now, in.group)
	case inputCreation:
		r.machine.CreationChanged(now, in.group)
	case inputPause:
		r.machine.Pause(now)
	case inputHandOver:
		in.any.(chan []byte) <- r.machine.HandOver(now)
	case inputResume:
		r.machine.Resume(now)
	case inputInherit:
		r.inherited(in.at, in.any.([]byte))
	}
	if in.kind != inputCall {
		r.takingOver.Store(int64(r.machine.TakingOver()))
	}
	r.stepped(began, pending)
}

// leadership follows the changes that Raft tells. A leader is made known only after its machine serves.
func (r *runner) leadership(c raftnode.Change) {
	switch c := c.(type) {
	case raftnode.Elected:
		r.term.Store(c.Term)
		r.leads(c.Term)
		r.node.run(func() { r.lead(c) })
	case raftnode.Lost:
		r.leads(0)
		r.post(input{kind: inputLost})
		r.setLeader(-1)
		r.node.log.Log(r.quietly(), "no longer leads shard", "shard", r.number)
	case raftnode.LeaderKnown:
		r.setLeader(c.Node)
		r.node.log.Log(r.quietly(), "follows in shard", "shard", r.number, "leader", c.Node)
	case raftnode.LeaderUnknown:
		r.setLeader(-1)
	}
}

// topicsPatience bounds how long a new leader waits for a fresh image of the upstream's topics.
const topicsPatience = 200 * time.Millisecond

// settingsPatience bounds how long a new leader waits for the settings of groups after the start of its node.
const settingsPatience = 5 * time.Second

// awaitSettings waits until this node has the settings that groups have of their own, as they were when it started: by the
// node's settings in their place delays would end early, and every such group would be told of a change and of its undoing.
func (r *runner) awaitSettings() {
	patience := time.NewTimer(settingsPatience)
	defer patience.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !r.node.system.group.CaughtUp() {
		select {
		case <-look.C:
		case <-patience.C:
			r.node.log.Warn("leads a shard before the settings of groups are known", "shard", r.number)
			return
		case <-r.node.ctx.Done():
			return
		}
	}
}

// lead begins to serve. Groups were decided by the image of the node that led before: with an older one a topic that was just
// created would count as missing, and members would lose their tasks to a change of leaders.
func (r *runner) lead(c raftnode.Elected) {
	now := time.Now()
	r.leadsFrom.Store(&now)
	r.awaitSettings()
	if r.node.watcher.Status().Reachable {
		ctx, cancel := context.WithTimeout(r.node.ctx, topicsPatience)
		r.node.watcher.Renew(ctx)
		cancel()
	}
	r.leadMu.Lock()
	defer r.leadMu.Unlock()
	if r.leading.Load() != c.Term {
		return // lost meanwhile
	}
	r.inherit(c)
	r.post(input{kind: inputElected, id: c.Term, state: r.replica.State()})
	r.setLeader(r.node.config.NodeID)
	r.node.log.Info("leads shard", "shard", r.number, "term", c.Term, "planned", c.Planned)
}

// leads notes in which term this node leads, 0 for none.
func (r *runner) leads(term uint64) {
	r.leadMu.Lock()
	defer r.leadMu.Unlock()
	r.leading.Store(term)
}

// quietly is the level for what a stop brings about anyway.
func (r *runner) quietly() hclog.Level {
	if r.node.draining.Load() {
		return hclog.Debug
	}
	return hclog.Info
}

func (r *runner) setLeader(node int32) {
	r.leaderMu.Lock()
	defer r.leaderMu.Unlock()
	if r.leader == node {
		return
	}
	if r.leader == r.node.config.NodeID {
		r.ledUntil = time.Now()
	}
	r.leader = node
	close(r.changed)
	r.changed = make(chan struct{})
}

// ledSince says whether this node leads the shard, or led it at some moment since.
func (r *runner) ledSince(since time.Time) bool {
	r.leaderMu.Lock()
	defer r.leaderMu.Unlock()
	return r.leader == r.node.config.NodeID || r.ledUntil.After(since)
}

// Propose implements shard.Host.
func (r *runner) Propose(id uint64, entry record.Entry, change *shard.Change) {
	entry.FeatureLevel = record.LevelOf(entry.Records)
	data := record.EncodeEntry(nil, entry)
	r.node.measured.records.Observe(float64(len(entry.Records)))
	r.node.measured.bytes.Observe(float64(len(data)))
	if change != nil {
		r.replica.expect(data, change.From, change.To)
	}
	r.group.Propose(data, func(err error) {
		switch {
		case err == nil:
			r.post(input{kind: inputCommitted, id: id})
		case errors.Is(err, raftnode.ErrRejected):
			r.rejected(id, err)
		default:
			r.post(input{kind: inputProposalFailed, id: id, ok: errors.Is(err, raftnode.ErrNotLeader)})
		}
	})
}

// rejected starts the machine's leadership anew from the replica, whose state the refused entry left as it was.
func (r *runner) rejected(id uint64, err error) {
	r.node.log.Error("a committed entry was refused by the state machine", "shard", r.number, "error", err)
	r.post(input{kind: inputProposalFailed, id: id})
	term := r.term.Load()
	if _, leads := r.group.Proof(term); leads {
		r.post(input{kind: inputElected, id: term, state: r.replica.State()})
	}
}

// Proof implements shard.Host.
func (r *runner) Proof(term uint64) int64 {
	at, ok := r.group.Proof(term)
	if !ok {
		return 0
	}
	return r.node.clock.at(at)
}

// Verify implements shard.Host.
func (r *runner) Verify(startedAt int64) {
	r.group.Verify(func(err error) { r.post(input{kind: inputVerified, at: startedAt, ok: err == nil}) })
}

// Wake implements shard.Host.
func (r *runner) Wake(at int64) { r.timer.Reset(r.node.clock.until(at)) }

// Settings implements shard.Host.
func (r *runner) Settings(group string) *coordinator.GroupSettings {
	return r.node.groupConfigs.of(group)
}

// Topics implements shard.Host.
func (r *runner) Topics() (topology.Metadata, uint64) {
	image := r.node.watcher.Image()
	return image, image.Version
}

// Leaders implements shard.Host.
func (r *runner) Leaders() topology.Leaders { return r.node.leaders() }

// TopicsCurrent implements shard.Host.
func (r *runner) TopicsCurrent() bool { return !r.node.watcher.AsOf().Before(*r.leadsFrom.Load()) }

// TopicsAsOf implements shard.Host.
func (r *runner) TopicsAsOf() int64 {
	asOf := r.node.watcher.AsOf()
	if asOf.IsZero() {
		return 0
	}
	return r.node.clock.at(asOf)
}

// RefreshTopics implements shard.Host.
func (r *runner) RefreshTopics() { r.node.watcher.Refresh() }

// RefreshNeeded implements shard.Host.
func (r *runner) RefreshNeeded() { r.node.watcher.RefreshNamed() }

// lookupPatience bounds how long the upstream may take to say whether topics exist.
const lookupPatience = 5 * time.Second

// LookUpTopics implements shard.Host.
func (r *runner) LookUpTopics(op uint64, topics []string) {
	source, _ := r.node.parts.Topics.(topicctl.LookupSource)
	r.node.run(func() {
		var found map[string]topology.Lookup
		if source != nil {
			ctx, cancel := context.WithTimeout(r.node.ctx, lookupPatience)
			defer cancel()
			var err error
			if found, err = source.Lookup(ctx, topics); err != nil {
				found = nil
				r.node.log.Debug("the upstream does not say whether topics with offsets exist", "shard", r.number, "topics", len(topics), "error", err)
			}
		}
		r.post(input{kind: inputLookedUp, id: op, any: found})
	})
}

// Assignor implements shard.Host.
func (r *runner) Assignor(name string) assignor.Assignor { return r.node.assignors.named(name) }

// Compute implements shard.Host. What a leadership that is over asked for is not computed: others wait for the place.
func (r *runner) Compute(op uint64, job *streams.TargetJob) {
	term := r.leading.Load()
	go func() {
		select {
		case r.node.computing <- struct{}{}:
		case <-r.node.ctx.Done():
			return
		}
		if term == 0 || r.leading.Load() != term { // the machine has been told so, or will be
			<-r.node.computing
			return
		}
		target := job.Run()
		<-r.node.computing
		r.post(input{kind: inputComputed, id: op, any: target})
	}()
}

// Foreign implements shard.Host.
func (r *runner) Foreign(group string) {
	term := r.serving.Load()
	r.node.onceAnnounced(func() {
		r.node.store.Foreign(group, func(found coordinator.ForeignGroup, err error) {
			r.post(input{kind: inputForeign, id: term, group: group, any: found, err: err})
		})
	})
}

// Claim implements shard.Host.
func (r *runner) Claim(group string) {
	term := r.serving.Load()
	r.node.store.Claim(group, func(err error) { r.post(input{kind: inputClaimed, id: term, group: group, err: err}) })
}

// Release implements shard.Host.
func (r *runner) Release(group string) {
	term := r.serving.Load()
	r.node.store.Release(group, func(err error) { r.post(input{kind: inputReleased, id: term, group: group, err: err}) })
}

// Forget implements shard.Host.
func (r *runner) Forget(group string) { r.node.store.Forget(group) }

// Commit implements shard.Host.
func (r *runner) Commit(op uint64, request *offsets.CommitRequest) {
	r.node.store.Commit(request, func(response *offsets.CommitResponse) {
		r.node.measured.committed(response)
		r.post(input{kind: inputStoreDone, id: op, any: response})
	})
}

// Fetch implements shard.Host.
func (r *runner) Fetch(op uint64, request *offsets.FetchRequest) {
	r.node.store.Fetch(request, func(response *offsets.FetchResponse) {
		r.post(input{kind: inputStoreDone, id: op, any: response})
	})
}

// DeleteOffsets implements shard.Host.
func (r *runner) DeleteOffsets(op uint64, request *offsets.DeleteRequest) {
	r.node.store.Delete(request, func(response *offsets.DeleteResponse) {
		r.node.measured.deleted(response)
		r.post(input{kind: inputStoreDone, id: op, any: response})
	})
}

// DropOffsets implements shard.Host.
func (r *runner) DropOffsets(op uint64, group string) {
	r.node.store.DeleteGroup(group, func(err error) { r.post(input{kind: inputStoreDone, id: op, any: err}) })
}

// Observe implements shard.Host.
func (r *runner) Observe(e shard.Event) {
	if e.Offsets != (shard.OffsetCounts{}) {
		r.node.measured.logged(e.Offsets)
		return
	}
	r.node.observer.event(r.number, e)
}
