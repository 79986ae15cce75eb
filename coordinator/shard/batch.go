package shard

import (
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// maxBatchBytes leaves room for the envelope of an entry.
const maxBatchBytes = record.MaxEntrySize - 1024

// batch is what one log entry (or several, where a decision is large) carries, and who waits for it.
type batch struct {
	id      uint64
	records []record.Record
	rest    [][]record.Record // chunks that follow in entries of their own
	bytes   int
	journal map[record.Key]int // where the journal entries are in records
	groups  map[string]touched // what it changes of groups
	order   []string           // the touched groups, in the order of their first change
	parked  []*Call
	effects []groupEffects
	causes  []Event
	tasks   []task // what was decided, to decide it again after a refused proposal
	removed []removed
	due     []due
	offsets OffsetCounts
	// partial says that an entry of the batch is in the log already.
	partial bool
	// proposedAt is when the entry was handed to Raft; its commit proves leadership at that time.
	proposedAt int64
}

// touched is what a batch changes of a group.
type touched struct {
	before streams.GroupState
	// offsetsOnly says that nothing but offsets in the log is changed.
	offsetsOnly bool
}

type groupEffects struct {
	group   string
	effects []streams.Effect
}

// removed is the soft state of a member that a decision of the batch removes, to put it back after a refused proposal:
// without it the member would have no deadlines and never expire.
type removed struct {
	group, member string
	soft          *streams.SoftMember
}

// due is what a group waited for before the batch touched it, to wait for it again after a refused proposal: the timer that
// asked for a target has fired, and nobody else may ask.
type due struct {
	group string
	streams.Due
}

func (b *batch) touches(group string) bool {
	if b == nil {
		return false
	}
	_, ok := b.groups[group]
	return ok
}

// changes says whether the batch touches anything of the group that heartbeats see. Offsets in the log are nothing to them: the members
// of a group that commits all the time need not wait for its entries.
func (b *batch) changes(group string) bool {
	if b == nil {
		return false
	}
	t, ok := b.groups[group]
	return ok && !t.offsetsOnly
}

// park holds an answer back until the batch is committed, since it saw the batch's changes.
func (b *batch) park(c *Call, effects []streams.Effect, group string) {
	b.parked = append(b.parked, c)
	b.tasks = append(b.tasks, task{group: strings.Clone(group), call: c})
	if len(effects) > 0 {
		b.effects = append(b.effects, groupEffects{group, effects})
	}
}

func (m *Machine) openBatch() *batch {
	if m.open == nil {
		m.open = &batch{groups: map[string]touched{}}
	}
	return m.open
}

// write takes a decision with records: onto the working copy and into the open batch, or, while an entry is in flight
// or the batch is full, into the queue to be decided again in its turn. It says whether the decision stands.
func (m *Machine) write(t task, d *streams.Decision) bool {
	size := sizeOf(d.Records)
	if m.inflight != nil || m.full(size) {
		m.enqueue(t)
		return false
	}
	if err := m.append(t.group, d.Records, size); err != nil {
		m.cannotStore(t, d.Records, err)
		return false
	}
	b := m.open
	t.wrote = true
	b.tasks = append(b.tasks, t)
	if len(d.Effects) > 0 {
		b.effects = append(b.effects, groupEffects{t.group, d.Effects})
	}
	if d.Cause.Kinds != 0 {
		b.causes = append(b.causes, Event{Group: t.group, Cause: d.Cause})
	}
	if d.Grace != nil {
		b.causes = append(b.causes, Event{Group: t.group, Grace: d.Grace})
	}
	g := m.groupOf(t.group)
	if g.soft == nil {
		g.soft = streams.NewSoft()
	}
	if d.Soft.Removed != "" {
		g.departed.add(d.Soft.Removed, m.now)
	}
	if sm := g.soft.Members[d.Soft.Removed]; sm != nil {
		b.removed = append(b.removed, removed{t.group, d.Soft.Removed, sm})
		m.forgetConnection(memberKey{t.group, d.Soft.Removed}, sm)
	}
	if d.Sighting != nil {
		g.sightings = g.sightings.Without(d.Sighting)
	}
	m.applySoft(t.group, g.soft, &d.Soft)
	return true
}

// full says whether records of that size no longer fit into the open batch. A batch takes at least one decision.
func (m *Machine) full(size int) bool {
	return m.open != nil && (m.crowded() || m.open.bytes+size > m.options.MaxBatchBytes)
}

// crowded says whether the open batch has as many decisions as one may have.
func (m *Machine) crowded() bool {
	return m.open != nil && len(m.open.tasks) >= m.options.MaxBatchDecisions
}

// append evolves the working copy by the records and puts them into the open batch. When it fails nothing has changed.
func (m *Machine) append(id string, records []record.Record, size int) error {
	working, err := m.evolve(m.working, records)
	if err != nil {
		return err
	}
	b := m.openBatch()
	t, again := b.groups[id]
	if !again {
		t = touched{before: stateOf(m.working.Group(id)), offsetsOnly: true}
		b.order = append(b.order, id)
		if soft := m.softOf(id); soft != nil {
			b.due = append(b.due, due{id, soft.Due()})
		}
	}
	t.offsetsOnly = t.offsetsOnly && !slices.ContainsFunc(records, func(r record.Record) bool { return r.Key.Type != record.TypeOffsetCommit })
	b.groups[id] = t
	m.working = working
	if working.Group(id) == nil {
		m.idChanged(id, true)
	}
	b.add(records)
	return nil
}

// add takes records along. An entry of the journal that the batch writes again replaces the one before, so that a crowd of
// joins costs one; the place of the old one stays empty until the batch is proposed.
func (b *batch) add(records []record.Record) {
	b.bytes += sizeOf(records)
	for i := range records {
		if k := records[i].Key; k.Type == record.TypeJournalEntry {
			if at, ok := b.journal[k]; ok {
				b.bytes -= record.Size(b.records[at])
				b.records[at] = record.Record{}
			} else if b.journal == nil {
				b.journal = map[record.Key]int{}
			}
			b.journal[k] = len(b.records)
		}
		b.records = append(b.records, records[i])
	}
}

// compact drops the empty places.
func (b *batch) compact() {
	if b.journal != nil {
		b.records = slices.DeleteFunc(b.records, func(r record.Record) bool { return r.Key.Type == 0 })
		b.journal = nil
	}
}

func stateOf(g *fsm.Group) streams.GroupState {
	if g == nil {
		return streams.StateDead
	}
	return streams.StateOf(g)
}

// sizeOf is an upper estimate of the encoded size of records.
func sizeOf(records []record.Record) int {
	size := 0
	for i := range records {
		size += record.Size(records[i])
	}
	return size
}

// propose sends the open batch, in several entries where it is larger than one may be.
func (m *Machine) propose() {
	b := m.open
	m.open, m.inflight = nil, b
	b.compact()
	b.rest = [][]record.Record{b.records}
	if b.bytes > m.options.MaxBatchBytes {
		b.rest = split(b.records, m.options.MaxBatchBytes)
	}
	m.proposeNext()
}

// split cuts records into chunks of at most limit bytes, in order.
func split(records []record.Record, limit int) [][]record.Record {
	var chunks [][]record.Record
	start, size := 0, 0
	for i := range records {
		s := record.Size(records[i])
		if i > start && size+s > limit {
			chunks = append(chunks, records[start:i])
			start, size = i, 0
		}
		size += s
	}
	return append(chunks, records[start:])
}

func (m *Machine) proposeNext() {
	b := m.inflight
	chunk := b.rest[0]
	b.rest = b.rest[1:]
	m.nextID++
	b.id, b.proposedAt = m.nextID, m.now
	var change *Change
	if !b.partial && len(b.rest) == 0 { // the entry is the whole batch
		change = &Change{From: m.committed, To: m.working}
	}
	m.host.Propose(b.id, record.Entry{LeaderTimeMs: m.now, Proposal: b.id, Records: chunk}, change)
}

// Committed tells that the entry of that id is applied on this node.
func (m *Machine) Committed(now int64, id uint64) {
	m.now = now
	b := m.inflight
	if b == nil || b.id != id {
		return
	}
	m.proofAt = max(m.proofAt, b.proposedAt)
	if len(b.rest) > 0 {
		b.partial = true
		m.proposeNext()
		return
	}
	m.inflight = nil
	before := m.committed
	m.committed = m.working
	m.heldAfter(before, b)
	m.settle(b)
	m.drain()
}

// settle tells everybody what was committed.
func (m *Machine) settle(b *batch) {
	for _, id := range b.order {
		g := m.committed.Group(id)
		if before, after := b.groups[id].before, stateOf(g); after != before {
			m.host.Observe(Event{Group: id, Before: before, After: after})
		}
		if g == nil {
			m.dropGroup(id)
		} else {
			m.claimEarly(g)
		}
	}
	for _, e := range b.causes {
		m.host.Observe(e)
	}
	if b.offsets != (OffsetCounts{}) {
		m.host.Observe(Event{Offsets: b.offsets})
	}
	for _, c := range b.parked {
		if !c.holdable || !m.hold(c, true) {
			c.Done.CallDone(c)
		}
	}
	for _, e := range b.effects {
		m.runEffects(e.group, e.effects)
	}
	for _, t := range b.tasks {
		if t.after != nil {
			t.after(m)
		}
	}
}

// drain decides what queued up behind the entry in flight, as much as one batch may have. A group's tasks keep their
// order; no group takes more than half of a batch while others wait.
func (m *Machine) drain() {
	tasks := m.queue
	m.queue = nil
	clear(m.queued)
	clear(m.queuedOffsets)
	if len(tasks) > 0 { // else they have their turn at the next Flush
		m.serveHeld(max(2, m.options.MaxBatchDecisions/heldShare))
	}
	share := max(1, m.options.MaxBatchDecisions/2)
	if len(tasks) <= share {
		m.decideAll(tasks, nil)
		return
	}
	taken := map[string]int{}
	var first, later []task
	for _, t := range tasks {
		if taken[t.group]++; taken[t.group] <= share {
			first = append(first, t)
		} else {
			later = append(later, t)
		}
	}
	m.decideAll(first, later)
}

// decideAll decides tasks in order, and then those that may wait, until the batch is full; what is left queues again.
func (m *Machine) decideAll(tasks, later []task) {
	for i, t := range tasks {
		m.decide(t)
		if len(m.queue) > 0 || m.crowded() { // the others keep their order behind the batch
			for _, rest := range [...][]task{tasks[i+1:], later} {
				for _, t := range rest {
					m.enqueue(t)
				}
			}
			return
		}
	}
	if len(later) > 0 {
		m.decideAll(later, nil)
	}
}

func (m *Machine) decide(t task) {
	if t.internal == nil {
		m.dispatch(t.call)
		return
	}
	d, ok := t.internal(m, m.working.Group(t.group), m.softOf(t.group))
	switch {
	case !ok:
	case len(d.Records) > 0:
		m.write(t, &d)
	default:
		if soft := m.softOf(t.group); soft != nil {
			m.applySoft(t.group, soft, &d.Soft)
		}
		m.runEffects(t.group, d.Effects)
	}
}

// submitInternal decides an internal task now, or in its turn.
func (m *Machine) submitInternal(t task) {
	if m.inflight != nil || m.paused || m.queued[t.group] > 0 {
		m.enqueue(t)
		return
	}
	m.decide(t)
}

// ProposalFailed tells that an entry was not taken. When it certainly was not started while this node goes on leading
// (a transfer of leadership is under way), everything is decided again a little later; else the outcome is unknown, and
// what the working copy says is worth nothing.
func (m *Machine) ProposalFailed(now int64, id uint64, notStarted bool) {
	m.now = now
	b := m.inflight
	if b == nil || b.id != id {
		return
	}
	if !notStarted || b.partial {
		m.resign()
		return
	}
	tasks, refused := b.tasks, []*batch{b}
	if m.open != nil {
		tasks, refused = append(tasks, m.open.tasks...), append(refused, m.open)
	}
	tasks = append(tasks, m.queue...)
	m.inflight, m.open, m.queue = nil, nil, nil
	clear(m.queued)
	clear(m.queuedOffsets)
	m.working = m.committed
	for _, b := range slices.Backward(refused) {
		m.undo(b)
	}
	for _, t := range tasks {
		m.enqueue(t)
	}
	m.retryAt = m.now + retryProposalMs
}

// undo brings back what the leader kept of groups before the decisions of a batch, as far as nobody else would.
func (m *Machine) undo(b *batch) {
	for _, gone := range slices.Backward(b.removed) {
		if soft := m.softOf(gone.group); soft != nil {
			soft.Members[gone.member] = gone.soft
			m.armMember(gone.group, gone.member, gone.soft)
		}
	}
	for i := range b.due {
		if soft := m.softOf(b.due[i].group); soft != nil {
			soft.Restore(b.due[i].Due)
			m.timers.arm(timerKey{kind: timerGroup, group: b.due[i].group}, soft.NextDeadline())
		}
	}
}

// retryProposalMs is the wait before a proposal that Raft refused is tried again.
const retryProposalMs = 20
