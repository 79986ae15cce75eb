package shard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// TestEveryCallIsAnsweredOnce lets everything happen in any order, then lets the world answer all that it was asked.
func TestEveryCallIsAnsweredOnce(t *testing.T) {
	for seed := range uint64(1000) {
		w := &anyOrder{rig: newRig(t), random: rand.New(rand.NewPCG(seed, 7)), term: 1, log: fsm.NewState(), epochs: map[string]int32{}, deleted: map[string]bool{}, lines: map[string]*line{}}
		w.settings.HeartbeatHoldMs = -int32(seed % 2)
		if seed%2 == 1 { // targets of more than one member are computed beside the shard
			w.settings.AssignorOffload, w.options.OffloadFrom, w.options.TargetChunk = true, 8, 1
			w.options.MaxBatchDecisions = 3
		}
		w.useWarmups(seed%5 == 2)
		if seed%4 >= 2 {
			w.options.Store = record.StoreRaft
			w.options.RetentionMs, w.options.RetentionCheckMs = 100_000, 30_000
		}
		w.evolve = func(s fsm.State, records []record.Record) (fsm.State, error) {
			if w.refuses && w.random.IntN(10) == 0 {
				return s, errNoRoom
			}
			return s.EvolveAll(records)
		}
		w.refuses = seed%3 == 0
		for range 300 {
			w.step()
			if w.leading {
				w.log = w.committed
			}
			if w.random.IntN(3) > 0 {
				w.Flush()
			}
			w.checkCommits(t, seed)
			w.checkGroups(t, seed)
		}
		w.comeToRest()
		w.checkHeld(t, seed)
		for range 5 { // members are held, and one thing happens
			w.acknowledge()
			w.acknowledge()
			w.step()
			w.Flush()
			w.comeToRest()
			w.checkHeld(t, seed)
		}
		for _, l := range w.connections {
			l.letGo()
		}
		w.settleAll()
		if w.finish(t, seed); t.Failed() {
			return
		}
	}
}

type anyOrder struct {
	*rig
	random  *rand.Rand
	term    uint64
	log     fsm.State // what a next leader finds
	calls   []*Call
	answers []*answer
	refuses bool             // some decisions cannot be stored
	digest  uint64           // of the state that was checked last
	epochs  map[string]int32 // the highest that was committed of each group
	deleted map[string]bool  // groups whose deletion was proposed
	lines   map[string]*line // connections by group and member
	// connections are all that there were.
	connections []*line
	handover    []byte // of the last pause
	// what the host was asked for and has not answered
	askedForeign, askedClaims, askedReleases, askedOps, askedDrops, askedJobs int
}

func (w *anyOrder) step() {
	group := fmt.Sprintf("g%d", w.random.IntN(3))
	member := fmt.Sprintf("m%d", w.random.IntN(3))
	instance := fmt.Sprintf("i%d", w.random.IntN(2))
	epoch := int32(w.random.IntN(12))
	if g := w.working.Group(group); g != nil && g.Member(member) != nil && w.random.IntN(8) > 0 {
		epoch = g.Member(member).Current.MemberEpoch
	}
	w.proofAt = w.now
	switch w.random.IntN(22) {
	case 0, 1:
		h := w.join(group, member)
		if w.random.IntN(2) == 0 {
			h.InstanceID = &instance
		}
		w.submit(h)
	case 2:
		leave := beat(group, member, streams.LeaveEpoch)
		if w.random.IntN(2) == 0 {
			leave.MemberEpoch, leave.InstanceID = streams.StaticLeaveEpoch, &instance
		}
		w.submit(leave)
	case 3, 4:
		r := report(group, member, epoch, nil)
		if g := w.working.Group(group); g != nil && g.Member(member) != nil {
			r.Active = g.Member(member).Current.Assigned.Active.WithoutEpochs().NonNil()
		}
		w.reportOffsets(r)
		w.submit(r)
	case 5, 6:
		w.submit(commit(group, member, max(epoch, 0))) // no client commits with the epoch of a static member that is away
	case 7:
		w.submit(commit(group, "", -1))
	case 8:
		w.submit(&offsets.FetchRequest{Version: 9, GroupID: group, MemberID: &member, MemberEpoch: epoch})
	case 9:
		w.submit(&DeleteGroupRequest{GroupID: group})
	case 10:
		w.submit(&offsets.DeleteRequest{GroupID: group, Topics: []offsets.FetchTopic{{Name: "other", Partitions: []int32{0}}}})
	case 11:
		w.now += []int64{1, 20, 500, 1000, 20_000, 46_000}[w.random.IntN(6)]
		w.timers.wakeAt = w.now
		w.Tick(w.now)
	case 12:
		if w.inflight != nil {
			if w.random.IntN(3) == 0 {
				if w.random.IntN(2) == 0 {
					w.log = w.working // an unknown outcome may be that it was taken
				}
				w.ProposalFailed(w.now, w.inflight.id, w.random.IntN(4) > 0)
				if !w.leading && w.random.IntN(2) == 0 { // every replica refused the entry: it leads on in the same term
					w.Elected(w.now, w.term, w.log)
				}
			} else {
				w.Committed(w.now, w.inflight.id)
			}
		}
	case 13:
		if w.random.IntN(10) == 0 || !w.leading {
			w.lead()
		}
	case 14:
		w.change()
	case 15:
		w.submit(&VacateRequest{GroupID: group})
	case 16:
		w.submit(&DescribeRequest{GroupID: group})
	case 17:
		w.hangUp(group + member)
	case 18:
		if w.paused && w.random.IntN(3) == 0 {
			w.lead() // leadership went where it should, and came back
		} else if w.paused {
			w.Resume(w.now)
		}
	case 19:
		if w.random.IntN(4) == 0 {
			w.Pause(w.now)
			for w.Flush(); w.inflight != nil; w.Flush() {
				w.Committed(w.now, w.inflight.id)
			}
			w.handover = w.HandOver(w.now)
		}
	default:
		w.world(w.random.IntN(4) > 0)
	}
}

// lead begins another leadership, which takes over from the last one where that has handed over.
func (w *anyOrder) lead() {
	if w.paused {
		if err := w.Inherit(w.now, w.handover); err != nil {
			w.t.Error(err)
		}
	}
	w.Lost(w.now)
	w.term++
	w.Elected(w.now, w.term, w.log)
}

// change changes what decisions look at beside the group.
func (w *anyOrder) change() {
	switch w.random.IntN(4) {
	case 0:
		w.topics["in"] = int32(1 + w.random.IntN(4))
		w.useWarmups(w.topics["cl"] > 0)
		w.changes++
		w.TopicsChanged(w.now)
		return
	case 1:
		w.settings.NumStandbyReplicas = int32(w.random.IntN(2))
	case 2:
		w.settings.AssignmentIntervalMs = int32(1000 * w.random.IntN(2))
	case 3:
		w.settings.InitialRebalanceDelayMs = int32(3000 * w.random.IntN(2))
	}
	w.SettingsChanged(w.now, "")
}

func (w *anyOrder) submit(request any) {
	c := w.call(request)
	h, heartbeat := request.(*streams.HeartbeatRequest)
	if heartbeat && w.random.IntN(8) > 0 {
		l := w.lines[h.GroupID+h.MemberID]
		if l == nil {
			l = w.line()
			w.lines[h.GroupID+h.MemberID] = l
			w.connections = append(w.connections, l)
		}
		l.letGo()
		l.n++
		c.Hold, c.HoldNumber = l.holder, l.n
	}
	w.Submit(w.now, c)
	if heartbeat && w.random.IntN(10) == 0 { // the same once more, over another connection
		again := *h
		w.Submit(w.now, w.call(&again))
	}
}

func (w *anyOrder) call(request any) *Call {
	a := &watched{w: w}
	c := &Call{Client: client, Request: request, Done: a}
	w.calls, w.answers = append(w.calls, c), append(w.answers, &a.answer)
	return c
}

// hangUp ends a connection.
func (w *anyOrder) hangUp(member string) {
	if l := w.lines[member]; l != nil {
		delete(w.lines, member)
		w.Gone(w.now, l.holder, w.random.IntN(2) == 0)
	}
}

// acknowledge has every member acknowledge what it was told, over its connection, so that its answer is held where that
// may be.
func (w *anyOrder) acknowledge() {
	for g := range w.committed.Groups() {
		for m := range g.Members() {
			if m.Current.MemberEpoch <= 0 || w.lines[g.ID+m.ID] == nil {
				continue
			}
			r := report(g.ID, m.ID, m.Current.MemberEpoch, nil)
			r.InstanceID = m.Meta.InstanceID
			a := &m.Current.Assigned
			r.Active, r.Standby, r.Warmup = a.Active.WithoutEpochs().NonNil(), a.Standby.NonNil(), a.Warmup.NonNil()
			if e := w.groups[g.ID]; e != nil {
				r.EndpointEpoch = e.soft.EndpointEpoch
			}
			w.submit(r)
			w.settleAll()
		}
	}
}

// watched looks at a call at the moment of its answer.
type watched struct {
	answer
	w *anyOrder
}

// CallDone checks that the answer tells nothing that is not committed.
func (a *watched) CallDone(c *Call) {
	a.answer.CallDone(c)
	if c.Err != nil {
		return
	}
	g := a.w.committed.Group(GroupID(c.Request))
	if r, ok := c.Response.(*HoldsResponse); ok && g != nil && !r.Held {
		a.w.t.Errorf("group %s is committed, and said to be gone", g.ID)
	}
	if r, ok := c.Response.(*streams.HeartbeatResponse); ok && g != nil && r.Err == nil && r.MemberEpoch > g.Epoch() {
		a.w.t.Errorf("member %s is told epoch %d, committed is %d", r.MemberID, r.MemberEpoch, g.Epoch())
	}
}

// world answers the oldest question of each kind, and says whether there was any.
func (w *anyOrder) world(well bool) (any bool) {
	var err error
	if !well {
		err = errors.New("away")
	}
	if w.proving {
		w.Verified(w.now, w.now, well)
		any = true
	}
	if n := w.askedForeign; n < len(w.foreign) {
		w.askedForeign++
		foreign := noForeign
		if w.random.IntN(4) == 0 {
			foreign = simple
		}
		if !well && w.random.IntN(2) == 0 {
			foreign, err = consumers, nil
		}
		w.ForeignChecked(w.now, w.foreign[n], foreign, err)
		if !well {
			err = errors.New("away")
		}
		any = true
	}
	if n := w.askedClaims; n < len(w.claims) {
		w.askedClaims++
		w.Claimed(w.now, w.claims[n], err)
		any = true
	}
	if n := w.askedReleases; n < len(w.releases) {
		w.askedReleases++
		w.Released(w.now, w.releases[n], err)
		any = true
	}
	if n := w.askedJobs; n < len(w.jobs) {
		w.askedJobs++
		w.Computed(w.now, w.jobs[n].op, w.jobs[n].run.Run())
		any = true
	}
	if n := w.askedDrops; n < len(w.drops) {
		w.askedDrops++
		w.StoreDone(w.now, w.drops[n], err)
		any = true
	}
	if n := w.askedOps; n < len(w.ops) {
		w.askedOps++
		switch w.storeRequest(w.ops[n]).(type) {
		case *VacateRequest:
			done := &offsets.CommitResponse{}
			if !well {
				done = offsets.CommitFailed(commit("", "", -1), coordinator.CoordinatorNotAvailable)
			}
			w.StoreDone(w.now, w.ops[n], done)
		case *offsets.CommitRequest:
			w.StoreDone(w.now, w.ops[n], &offsets.CommitResponse{})
		case *offsets.FetchRequest:
			w.StoreDone(w.now, w.ops[n], &offsets.FetchResponse{})
		default:
			w.StoreDone(w.now, w.ops[n], &offsets.DeleteResponse{})
		}
		any = true
	}
	return any
}

func (w *anyOrder) storeRequest(op uint64) any {
	if o := w.store[op]; o != nil {
		return o.call.Request
	}
	return nil
}

// comeToRest lets the world answer well until nothing is left to do but to wait for members.
func (w *anyOrder) comeToRest() {
	if refuses := w.refuses; refuses {
		w.refuses = false
		defer func() { w.refuses = refuses }()
	}
	if !w.leading {
		w.lead()
	}
	w.Resume(w.now)
	for range 80 { // less than a hold
		w.settleAll()
		w.now += 50
		w.timers.wakeAt = w.now
		w.Tick(w.now)
	}
	w.settleAll()
}

func (w *anyOrder) settleAll() {
	for more := true; more; {
		w.proofAt = w.now
		more = w.world(true)
		w.Flush()
		if w.inflight != nil {
			more = true
			w.Committed(w.now, w.inflight.id)
			w.Flush()
		}
	}
}

func (w *anyOrder) finish(t *testing.T, seed uint64) {
	for i, a := range w.answers {
		if a.n != 1 {
			t.Errorf("seed %d: call %d, a %T of %s, was answered %d times", seed, i, w.calls[i].Request, GroupID(w.calls[i].Request), a.n)
		}
	}
	if len(w.queue) > 0 || w.open != nil || w.inflight != nil || len(w.store) > 0 {
		t.Errorf("seed %d: not at rest: %d queued, open %v, in flight %v, %d at the store", seed, len(w.queue), w.open != nil, w.inflight != nil, len(w.store))
	}
	for _, what := range w.stuck() {
		t.Errorf("seed %d: %s", seed, what)
	}
	for g := range w.committed.Groups() {
		for m := range g.Members() {
			if sm := w.groups[g.ID].soft.Members[m.ID]; sm == nil || sm.SessionDeadline == 0 {
				t.Errorf("seed %d: member %s of %s has no deadline", seed, m.ID, g.ID)
			} else if _, ok := w.timers.scheduled[timerKey{kind: timerMember, group: g.ID, member: m.ID}]; !ok {
				t.Errorf("seed %d: member %s of %s has no timer", seed, m.ID, g.ID)
			}
		}
		if g.NumMembers() == 0 && g.OffsetsClaimed {
			t.Errorf("seed %d: empty group %s is still claimed", seed, g.ID)
		}
	}
}

// stuck names what the machine takes for under way, with the world at rest.
func (w *anyOrder) stuck() (list []string) {
	say := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	m := w.Machine
	k := &m.kept
	say(m.proving || len(m.unproven) > 0, "a proof of leadership is waited for by %d calls", len(m.unproven))
	say(len(m.foreign) > 0, "the upstream's word on %d groups is waited for", len(m.foreign))
	say(m.retryAt != 0 || len(m.queued) > 0, "a proposal is to be tried again at %d, %d groups queue", m.retryAt, len(m.queued))
	say(m.paused || len(m.pausedCalls) > 0, "a transfer is waited for by %d calls", len(m.pausedCalls))
	say(len(k.over)+len(k.due)+len(k.stale) > 0, "%d, %d and %d held are to be looked at", len(k.over), len(k.due), len(k.stale))
	armed := func(kind timerKind, group string) bool {
		_, ok := m.timers.scheduled[timerKey{kind: kind, group: group}]
		return ok
	}
	say(len(m.sweeps) > 0 && !armed(timerSweep, ""), "%d groups are to be swept", len(m.sweeps))
	say(!armed(timerRetention, ""), "the retention is not looked at any more")
	for id, e := range m.groups {
		say(e.computing != 0, "the target of %s is being computed", id)
		say(e.stale, "%s is to be looked at", id)
		say(e.deleting != 0 || len(e.commits) > 0, "%d deletions and %d commits of %s", e.deleting, len(e.commits), id)
		say(len(e.waiting)+len(e.blocked) > 0, "%d calls of %s wait for its claim, %d for others", len(e.waiting), id, len(e.blocked))
		say(e.claim != claimNone && e.claim != claimHeld, "the claim of %s is at %d", id, e.claim)
		say(e.early && !armed(timerClaim, id), "an early claim of %s is never made", id)
		say(e.inherited && !armed(timerClaim, id), "the claim of %s is never taken over", id)
		if e.soft == nil || m.committed.Group(id) == nil { // what made it was refused
			continue
		}
		at := e.soft.NextDeadline()
		say(at != 0 && !armed(timerGroup, id), "nobody looks at the timers of %s", id)
		for member, h := range e.held {
			say(h.listed || h.over || h.cut || h.call == nil, "%s of %s is to be answered", member, id)
		}
	}
	return list
}
