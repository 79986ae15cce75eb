package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Options are the constants of a machine.
type Options struct {
	// LeaseMs is how long a proof of leadership allows answers from memory; not more than Raft's leader lease.
	LeaseMs int64
	// MaxBatchBytes bounds the records of one log entry.
	MaxBatchBytes int
	// MaxBatchDecisions bounds the decisions of one log entry, and so the work before other groups of the shard are served.
	MaxBatchDecisions int
	// TargetChunk is how many members' targets of an assignment that was computed beside the shard are written at a time.
	TargetChunk int
	// OffloadFrom is the product of members and tasks from which on a target assignment is computed beside the shard.
	OffloadFrom int
	// RetryMs is the wait before something that failed is tried again.
	RetryMs int64
	// RetentionMs is how long a group stays that has no members, and RetentionCheckMs how often that is looked at
	// (offsets.retention.minutes and offsets.retention.check.interval.ms).
	RetentionMs, RetentionCheckMs int64
	// Store is where new groups keep their committed offsets (offsets.store).
	Store record.Store
}

// DefaultOptions fit Raft's default timing.
func DefaultOptions() Options {
	return Options{
		LeaseMs: 150, MaxBatchBytes: maxBatchBytes, MaxBatchDecisions: 128, TargetChunk: 128, OffloadFrom: 20_000, RetryMs: 500,
		RetentionMs: 7 * 24 * 3600 * 1000, RetentionCheckMs: 600 * 1000,
	}
}

// Machine is the step machine of one shard. Its methods are the inputs; exactly one goroutine may be inside at a
// time. After a run of inputs the owner calls Flush. Times are milliseconds of one monotonic clock that started at the
// wall clock.
type Machine struct {
	host    Host
	options Options
	now     int64
	// creationError is host.CreationError, bound once.
	creationError func(topic string) string
	// evolve is [fsm.State.EvolveAll]; tests let it refuse.
	evolve func(s fsm.State, records []record.Record) (fsm.State, error)

	leading  bool
	term     uint64
	proofAt  int64 // when the last proof of leadership was asked for
	proving  bool
	unproven []*Call

	// committed is what the log holds, working what it will hold when everything in flight and in the open batch is
	// committed. Without either they are the same.
	committed, working fsm.State
	groups             map[string]*group

	inflight *batch
	open     *batch
	queue    []task // decided when the entry in flight is committed
	queued   map[string]int
	// queuedOffsets counts those of queued that are only about offsets in the log.
	queuedOffsets map[string]int
	nextID        uint64
	retryAt       int64 // when a refused proposal is tried again; 0: nothing to retry

	// graceUntil is until when nobody is expired, because the process was paused and could not hear anybody.
	graceUntil int64
	claimAt    int64 // when the last claim that no commit asked for is due
	electedAt  int64

	// paused says that leadership is being handed over, and pausedCalls wait for the outcome.
	paused      bool
	pausedCalls []*Call
	// inherited is what the old leader handed over, by group, and inheritedAt when it came; for the next election.
	inherited   map[string]*streams.Handover
	inheritedAt int64
	// takingOver counts the groups that are group.inherited.
	takingOver int

	store  map[uint64]*storeOp
	nextOp uint64
	sweeps []string // groups whose offsets in the log are still to be looked at in this check of the retention
	// suspects are topics with offsets in the log that seem to have been deleted, by name.
	suspects map[string]*suspect
	lookup   lookup
	foreign  map[string]*question // questions to the upstream about group ids that are under way, also of an earlier leadership
	// changed are the last changes of ids, numbered by changes; forgot is the number up to which some may not be known any more.
	changed         map[string]idChange
	changes, forgot uint64

	timers timers
	kept   holds
}

// task is a decision that waits for its turn: a call, or an internal one.
type task struct {
	group string
	// offsets says that the task is only about offsets in the log.
	offsets bool
	// call is what waits for an answer; nil where nobody does.
	call *Call
	// internal decides where the call's own decision is not meant; false says that there is nothing left to decide.
	internal func(m *Machine, g *fsm.Group, soft *streams.Soft) (streams.Decision, bool)
	// after runs when the decision's records are committed, failed when they can never be: the state refuses them. Neither
	// runs where the decision wrote nothing, or when the leadership ends, which ends all that the leader keeps of groups.
	after, failed func(m *Machine)
	// wrote says that records of the decision are in the batch that lists the task.
	wrote bool
}

// New makes a machine that follows until it is Elected.
func New(host Host, options Options) *Machine {
	return &Machine{
		host: host, options: options, creationError: host.CreationError, evolve: fsm.State.EvolveAll,
		groups: map[string]*group{}, queued: map[string]int{}, queuedOffsets: map[string]int{},
		store: map[uint64]*storeOp{}, foreign: map[string]*question{}, changed: map[string]idChange{},
		timers: newTimers(), kept: newHolds(),
	}
}

// Submit takes a call. It is answered now or later, exactly once.
func (m *Machine) Submit(now int64, c *Call) {
	m.now = now
	c.free = false
	c.arrived, c.holdable, c.wasHeld, c.answering = now, false, false, false
	if !m.leading {
		m.refuse(c, notTaken)
		return
	}
	if !m.proven() {
		m.unproven = append(m.unproven, c)
		m.prove()
		return
	}
	if len(m.unproven) > 0 { // a commit has proven the leadership meanwhile: these came before
		calls := m.unproven
		m.unproven = nil
		for _, earlier := range calls {
			m.dispatch(earlier)
		}
	}
	m.dispatch(c)
}

// proven says whether the last proof of leadership is fresh enough to answer from memory.
func (m *Machine) proven() bool {
	if m.now-m.proofAt <= m.options.LeaseMs/2 {
		return true
	}
	m.proofAt = max(m.proofAt, m.host.Proof(m.term))
	return m.now-m.proofAt <= m.options.LeaseMs
}

func (m *Machine) prove() {
	if !m.proving {
		m.proving = true
		m.host.Verify(m.now)
	}
}

// Verified is the outcome of [Host.Verify]. A failed proof while Raft still calls this node the leader is repeated by
// the next call.
func (m *Machine) Verified(now, startedAt int64, ok bool) {
	m.now = now
	m.proving = false
	calls := m.unproven
	m.unproven = nil
	if ok && m.leading {
		m.proofAt = max(m.proofAt, startedAt)
	}
	for _, c := range calls {
		switch {
		case !ok || !m.leading:
			m.refuse(c, notTaken)
		case !m.proven():
			m.unproven = append(m.unproven, c)
		default:
			m.dispatch(c)
		}
	}
	if !ok {
		m.refuseHeld()
	}
	if len(m.unproven) > 0 {
		m.prove()
	}
}

// Flush proposes what the inputs since the last Flush decided, unless an entry is in flight.
func (m *Machine) Flush() {
	if m.leading && m.mayWrite() {
		m.serveHeld(heldBudget)
	}
	if m.inflight == nil && m.open != nil && m.retryAt == 0 {
		m.propose()
	}
	m.wake()
}

// Pending is the number of records that are decided on and not yet handed to the log.
func (m *Machine) Pending() int {
	if m.open == nil {
		return 0
	}
	return len(m.open.records)
}

// Waiting is the number of decisions that wait for their turn.
func (m *Machine) Waiting() int { return len(m.queue) + len(m.unproven) + len(m.pausedCalls) }

var (
	notCoordinator = &coordinator.Error{Code: coordinator.NotCoordinator, Message: "This node does not lead the group's shard."}
	notTaken       = &coordinator.Error{Code: coordinator.NotCoordinator, Message: notCoordinator.Message, NotStarted: true}
	cameLate       = &coordinator.Error{Code: coordinator.CoordinatorNotAvailable, NotStarted: true, Message: "The request came late: its member has said something else since."}
	loading        = &coordinator.Error{Code: coordinator.CoordinatorLoadInProgress, Message: "The topics of the cluster behind are not known yet; try again."}
	notAvailable   = &coordinator.Error{Code: coordinator.CoordinatorNotAvailable, Message: "The cluster behind does not answer; try again."}
	tooSoon        = &coordinator.Error{Code: coordinator.CoordinatorNotAvailable, Message: "Requests of the leader before may still arrive at the cluster behind; try again in some seconds."}
)

func (m *Machine) refuse(c *Call, err *coordinator.Error) {
	c.Response, c.Err = nil, err
	c.Done.CallDone(c)
}

func (m *Machine) reply(c *Call, response any) {
	c.Response, c.Err = response, nil
	c.Done.CallDone(c)
}

// dispatch decides a call now, or queues it behind what its group waits for.
func (m *Machine) dispatch(c *Call) {
	if m.paused {
		m.pausedCalls = append(m.pausedCalls, c)
		return
	}
	switch r := c.Request.(type) {
	case *streams.HeartbeatRequest:
		m.heartbeat(c, r)
	case *DescribeRequest:
		m.describe(c, r)
	case *ProofRequest:
		m.reply(c, nil)
	case *HoldsRequest:
		m.holds(c, r)
	case *VacateRequest:
		m.vacate(c, r)
	case *offsets.CommitRequest:
		m.commitOffsets(c, r)
	case *offsets.FetchRequest:
		m.fetchOffsets(c, r)
	case *offsets.DeleteRequest:
		m.deleteOffsets(c, r)
	case *DeleteGroupRequest:
		m.deleteGroup(c, r)
	case *AbortTopologyRequest:
		m.abortTopology(c, r)
	case *PlanRequest:
		m.plan(c, r)
	case *AdoptRequest:
		m.adopt(c, r)
	case *MoveOffsetsRequest:
		m.moveOffsets(c, r)
	default:
		m.refuse(c, &coordinator.Error{Code: coordinator.InvalidRequest, Message: "The shard does not know this kind of request."})
	}
}

// waits says whether a call of the group must wait for its turn: behind the group's changes in flight, or behind calls
// of the group that wait themselves.
func (m *Machine) waits(group string) bool {
	return m.inflight.touches(group) || len(m.queue) > 0 && m.queued[group] > 0
}

// awaitsChange is waits for heartbeats, to which offsets in the log are nothing.
func (m *Machine) awaitsChange(group string) bool {
	if m.retryAt != 0 { // they would overtake what is queued
		return m.waits(group)
	}
	return m.inflight.changes(group) || len(m.queue) > 0 && m.queued[group] > m.queuedOffsets[group]
}

// unsettled says whether the group has changes that are not committed, or calls that wait for their turn.
func (m *Machine) unsettled(group string) bool { return m.waits(group) || m.open.touches(group) }

// enqueue makes the task wait for the entry in flight.
func (m *Machine) enqueue(t task) {
	m.queue = append(m.queue, t)
	m.queued[t.group]++
	if t.offsets {
		m.queuedOffsets[t.group]++
	}
}

// holds says that a group is ours from the moment it is decided on until its deletion is committed: "not ours" sends
// requests of its members to the upstream, which is fatal to them.
func (m *Machine) holds(c *Call, r *HoldsRequest) {
	g := m.working.Group(r.GroupID)
	if g == nil {
		g = m.committed.Group(r.GroupID)
	}
	m.reply(c, m.holding(g))
}

func (m *Machine) holding(g *fsm.Group) *HoldsResponse {
	return &HoldsResponse{Held: g != nil, Empty: g != nil && g.NumMembers() == 0, Logs: m.options.Store == record.StoreRaft}
}

// describe shows a group as it is committed. Of a group that is not there it says whether the id is another one's.
func (m *Machine) describe(c *Call, r *DescribeRequest) {
	g := m.committed.Group(r.GroupID)
	if g == nil && r.GroupID != "" && !m.foreignChecked(c, r.GroupID) {
		return
	}
	env := m.env(r.GroupID)
	m.reply(c, streams.Describe(g, m.softOf(r.GroupID), &env, r.GroupID))
}

// env is what decisions see of the world for the group.
func (m *Machine) env(group string) streams.Env {
	settings := m.host.Settings(group)
	asOf := m.host.TopicsAsOf() // before the topics, which are no older then
	topics, version := m.host.Topics()
	var sightings streams.Sightings
	if e := m.groups[group]; e != nil {
		sightings = e.sightings
	}
	offloadFrom := 0
	if settings.AssignorOffload {
		offloadFrom = m.options.OffloadFrom
	}
	return streams.Env{
		OffloadFrom: offloadFrom,
		Now:         m.now, Settings: settings, Metadata: topics, MetadataVersion: version, MetadataAsOf: asOf, Sightings: sightings,
		Leaders:  m.host.Leaders(),
		Assignor: m.host.Assignor(settings.AssignorName), CreationErrors: m.creationError,
		HoldGrants: m.holdsGrants(group),
	}
}

// group is what the leader keeps for a group beside its hard state.
type group struct {
	id   string
	soft *streams.Soft
	// held are the heartbeats whose answers are held back, by member id; waits lists them by the tasks that they wait for.
	held  map[string]*held
	waits map[topology.Task][]*held
	// departed are the members that left lately.
	departed departures
	// seen is the view of the group with which those that are held were looked at last.
	seen view
	// stale says that the group is listed to be looked at for new topics or settings.
	stale bool
	// creating says that internal topics of the group are to be created.
	creating bool
	// claim is how far the takeover of the membership upstream is.
	claim claimState
	// claimFailure is why the last claim failed; "" when it did not.
	claimFailure string
	// early says that a claim without a commit is due.
	early bool
	// inherited says that an earlier leader claimed the membership and this one has not taken it over yet.
	inherited bool
	// older says that the group was there when this leadership began: an earlier leader may have something under way for it.
	older bool
	// computing is the number of the target assignment that is computed beside the shard; 0: none is.
	computing uint64
	// waiting are calls that wait until the membership upstream is held, or ended.
	waiting []*Call
	// commits counts the commits under way by member id; blocked are calls that wait for them, or for the end of a
	// deletion.
	commits map[string]int
	blocked []*Call
	// awaited are the members with commits that something of theirs waits for: further commits wait behind that, for who always
	// has one under way would otherwise keep its tasks, and never expire.
	awaited map[string]bool
	// sightings are what was seen of topologies that are to be set first, and unread are calls that wait until the topics
	// have been read again.
	sightings streams.Sightings
	unread    []*Call
	// deleting counts what must be done with the empty group before anybody may join it or commit to it: a deletion, which
	// were refused and the offsets lost when a member came after they were gone, and the way of the offsets upstream.
	deleting int
	// moving says that this is a move of its offsets to another store; moveWaits that one waits until the upstream works on none of
	// them.
	moving, moveWaits bool
}

// await has further commits of a member wait until those under way are done.
func (g *group) await(member string) {
	if g.awaited == nil {
		g.awaited = map[string]bool{}
	}
	g.awaited[strings.Clone(member)] = true
}

func (m *Machine) softOf(id string) *streams.Soft {
	if g := m.groups[id]; g != nil {
		return g.soft
	}
	return nil
}

// groupOf makes the leader's entry for a group on first use.
func (m *Machine) groupOf(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = &group{id: strings.Clone(id)}
		m.groups[g.id] = g
	}
	return g
}
