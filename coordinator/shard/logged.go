package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
)

// logsOffsets says whether the group keeps its committed offsets in the log.
func (m *Machine) logsOffsets(group string) bool {
	return m.working.Group(group).Store() == record.StoreRaft
}

// chooseStore decides where a group that is made keeps its offsets. What was committed upstream under its id stays in use, and
// nothing goes to the log that a node would leave out of its state.
func (m *Machine) chooseStore(c *Call, group string, d *streams.Decision) {
	if m.options.Store != record.StoreRaft || len(d.Records) == 0 || d.Reply.Err != nil {
		return
	}
	if c.found.Offsets {
		m.host.Observe(Event{Group: group, Kept: true})
		return
	}
	if why := m.host.OffsetsHindrance(); why != "" {
		m.host.Observe(Event{Group: group, Hindered: why})
		return
	}
	d.Records = append(d.Records, storeRecord(strings.Clone(group), record.OffsetsStore{Store: record.StoreRaft}))
}

// world is what decisions about offsets in the log see beside the group.
func (m *Machine) world() offsets.World {
	asOf := m.host.TopicsAsOf() // before the topics, which are no older then
	return offsets.World{Now: m.now, TopicsAsOf: asOf, TopicsCurrent: m.host.TopicsCurrent(), Topics: m.knownTopics()}
}

// logCommit decides a commit as a heartbeat is decided: by the working copy, which earlier decisions of the batch changed, and
// is answered when its records are committed. The log orders it with what takes the task from its member.
func (m *Machine) logCommit(c *Call, r *offsets.CommitRequest) {
	if m.waits(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c, offsets: true})
		return
	}
	if r.Transactional {
		m.host.Observe(Event{Group: strings.Clone(r.GroupID), Transactional: true}) // logs remember it
		m.answer(c, offsets.CommitFailed(r, coordinator.UnsupportedForMessageFormat), r.GroupID)
		return
	}
	world := m.world()
	if world.Topics == nil { // what exists is not known
		m.refuse(c, loading)
		return
	}
	kept, refused := offsets.AdmitLogged(m.working.Group(r.GroupID), r, world.Topics, m.host.Settings(r.GroupID).OffsetMetadataMaxBytes)
	if kept == nil {
		m.answer(c, &offsets.CommitResponse{Topics: refused}, r.GroupID)
		return
	}
	d := streams.Decision{Records: offsets.CommitRecords(kept, &world)}
	if m.writeOffsets(c, r.GroupID, &d, OffsetCounts{Committed: len(d.Records)}) {
		done := offsets.Committed(kept)
		done.Topics = offsets.Joined(refused, done.Topics)
		c.Response, c.Err = done, nil
	}
}

// writeOffsets takes a decision about offsets, and has its call answered when it is committed. It says whether the decision
// stands.
func (m *Machine) writeOffsets(c *Call, group string, d *streams.Decision, counts OffsetCounts) bool {
	if !m.write(task{group: strings.Clone(group), call: c, offsets: true}, d) {
		return false
	}
	m.open.parked = append(m.open.parked, c)
	m.open.offsets.add(counts)
	return true
}

// answer answers a call that wrote nothing once what it saw of the group is committed.
func (m *Machine) answer(c *Call, response any, group string) {
	c.Response, c.Err = response, nil
	if m.open.touches(group) {
		m.open.park(c, nil, group)
		return
	}
	c.Done.CallDone(c)
}

func (m *Machine) fetchLogged(c *Call, r *offsets.FetchRequest) {
	if m.waits(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c, offsets: true})
		return
	}
	g := m.working.Group(r.GroupID)
	if err := offsets.CheckFetch(g, r); err != nil && !m.untold(g, r) {
		m.answer(c, offsets.FetchFailed(r, err), r.GroupID)
		return
	}
	world := m.world()
	m.answer(c, offsets.Fetch(g, r, &world), r.GroupID)
}

func (m *Machine) deleteLogged(c *Call, r *offsets.DeleteRequest) {
	if m.waits(r.GroupID) {
		m.enqueue(task{group: strings.Clone(r.GroupID), call: c, offsets: true})
		return
	}
	g := m.working.Group(r.GroupID)
	if err := offsets.CheckDeleteGroup(g, r.GroupID); err != nil {
		m.answer(c, offsets.DeleteFailed(err), r.GroupID)
		return
	}
	allowed, refused := offsets.AdmitDelete(g, r, m.knownTopics())
	done := offsets.Deleted(allowed)
	done.Topics = offsets.Joined(refused, done.Topics)
	d := streams.Decision{Records: offsets.DeletionRecords(g, allowed)}
	if len(d.Records) == 0 {
		m.answer(c, done, r.GroupID)
		return
	}
	if m.writeOffsets(c, r.GroupID, &d, OffsetCounts{Deleted: len(d.Records)}) {
		c.Response, c.Err = done, nil
	}
}

// awaitsDeletion has a call wait that would change offsets of a group which is being deleted, or whose offsets are on their
// way upstream.
func (m *Machine) awaitsDeletion(c *Call, group string) bool {
	e := m.groups[group]
	if e == nil || e.deleting == 0 {
		return false
	}
	e.blocked = append(e.blocked, c)
	return true
}
