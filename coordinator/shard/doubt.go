package shard

import "github.com/coordd/coordd/coordinator/streams"

// How often it is looked whether the topics have been read again, and for how long a call waits for that, in milliseconds.
// A poll of the upstream that is asked for takes some 50 ms.
const (
	readPollMs     = 20
	readPatienceMs = 500
)

// doubtful says that a decision must not stand yet, for one of three reasons. It comes of a picture of the topics that may be
// older than what the leader before decided by: members would lose their tasks to a change of leaders. Or it goes by a problem
// that ends applications and was not there before: the topics are read again first, since one of the upstream's brokers may
// lag behind, or somebody may be in the middle of a change. Or it sets a topology first, by topics that may not have been
// watched so far.
func (m *Machine) doubtful(id string, d *streams.Decision) bool {
	switch {
	case m.outdated(d):
	case d.Doubt:
		m.sight(id, d)
	default:
		return false
	}
	m.host.RefreshTopics()
	return true
}

func (m *Machine) outdated(d *streams.Decision) bool {
	changes := d.Cause.Kinds&(streams.CauseTopicChange|streams.CauseValidation) != 0 || d.Grace != nil
	return changes && !m.host.TopicsCurrent()
}

// sight keeps when a problem or a topology was first seen, and has the group looked at again when the topics have been read
// again. What was found about a topology that is not the group's is no word on the group's topics.
func (m *Machine) sight(id string, d *streams.Decision) {
	e := m.groupOf(id)
	switch {
	case d.Sighting != nil:
		e.sightings = e.sightings.With(d.Sighting)
	case d.Soft.Topics != nil && e.soft != nil:
		e.soft.Apply(&streams.SoftChange{Topics: d.Soft.Topics})
	}
	m.timers.arm(timerKey{kind: timerTopics, group: e.id}, m.now+readPollMs)
}

// awaitTopics has a call wait until the topics have been read again, where that can be soon. Else it is told to come again.
func (m *Machine) awaitTopics(c *Call, d *streams.Decision) {
	if m.outdated(d) {
		m.comeAgain(c)
		return
	}
	if c.unreadSince == 0 {
		c.unreadSince = m.now
	}
	c.sighted = d.DoubtSince
	e := m.groupOf(GroupID(c.Request))
	e.unread = append(e.unread, c)
}

// comeAgain answers a call that cannot be decided yet.
func (m *Machine) comeAgain(c *Call) {
	c.unreadSince = 0
	if r, ok := c.Request.(*streams.HeartbeatRequest); ok {
		m.withoutTopics(c, r)
		return
	}
	m.refuse(c, loading)
}

// topicsRead looks again at a group that waits for the topics to be read. Calls that have waited for long enough are told to
// come again.
func (m *Machine) topicsRead(key timerKey, e *group) {
	if e == nil {
		return
	}
	asOf := m.host.TopicsAsOf()
	var read, tired, waiting []*Call
	for _, c := range e.unread {
		switch {
		case c.sighted < asOf:
			read = append(read, c)
		case m.now-c.unreadSince >= readPatienceMs:
			tired = append(tired, c)
		default:
			waiting = append(waiting, c)
			if c.sighted == asOf { // asked within the same millisecond: it may have been before
				m.host.RefreshTopics()
			}
		}
	}
	e.unread = waiting
	seen := e.sightedAt()
	unread := seen >= asOf && len(e.held) > 0
	switch {
	case len(waiting) > 0 || unread && m.now-seen < readPatienceMs:
		m.timers.arm(key, m.now+readPollMs)
	case unread:
		m.timers.arm(key, m.now+m.options.RetryMs)
	}
	if seen != 0 && seen < asOf {
		m.recheck(e)
	}
	for _, c := range read {
		m.dispatch(c)
	}
	for _, c := range tired {
		m.comeAgain(c)
	}
	m.forgetUnmade(key, e)
}

// forgetUnmade drops what is known of a group that nobody made, when nobody has come again for long enough.
func (m *Machine) forgetUnmade(key timerKey, e *group) {
	var until int64
	e.sightings, until = e.sightings.Live(m.now)
	m.timers.arm(key, until)
	if until == 0 && e.soft == nil && len(e.unread) == 0 && m.queued[e.id] == 0 && m.working.Group(e.id) == nil && m.idle(e) {
		delete(m.groups, e.id)
	}
}

// sightedAt is when the problem of the group's topics was first seen; 0 when it has none.
func (e *group) sightedAt() int64 {
	if e.soft == nil || e.soft.Topics == nil {
		return 0
	}
	return e.soft.Topics.Sighted
}

// idle says that nothing of the group is under way.
func (m *Machine) idle(e *group) bool {
	return len(e.waiting)+len(e.blocked)+len(e.commits)+e.deleting == 0 && e.claim == claimNone && !m.unsettled(e.id)
}
