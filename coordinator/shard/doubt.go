package shard

import "github.com/coordd/coordd/coordinator/streams"

// How often it is looked whether the topics have been read again, and for how long a call waits for that, in milliseconds.
// A poll of the upstream that is asked for takes some 50 ms.
const (
	readPollMs     = 20
	readPatienceMs = 500
)

// doubtful says that a decision must not stand yet, for one of two reasons. It comes of a picture of the topics that may be
// older than what the leader before decided by: members would lose their tasks to a change of leaders. Or it goes by a problem
// that ends applications and was not there before: the topics are read again first, since one of the upstream's brokers may
// lag behind, or somebody may be in the middle of a change.
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

// sight keeps when a problem was first seen, and has the group looked at again when the topics have been read again.
func (m *Machine) sight(id string, d *streams.Decision) {
	e := m.groupOf(id)
	switch {
	case d.Soft.Topics == nil:
	case e.soft != nil:
		e.soft.Apply(&streams.SoftChange{Topics: d.Soft.Topics})
	default:
		e.sighted = d.Soft.Topics
	}
	m.timers.arm(timerKey{kind: timerTopics, group: e.id}, m.now+readPollMs)
}

// awaitTopics has a call wait until the topics have been read again, where that can be soon. Else it is told to come again.
func (m *Machine) awaitTopics(c *Call, r *streams.HeartbeatRequest, d *streams.Decision) {
	if m.outdated(d) {
		m.withoutTopics(c, r)
		return
	}
	e := m.groupOf(r.GroupID)
	if len(e.unread) == 0 {
		e.unreadSince = m.now
	}
	e.unread = append(e.unread, c)
}

// topicsRead looks again at a group that waits for the topics to be read. Calls that have waited for long enough are told to
// come again.
func (m *Machine) topicsRead(key timerKey, e *group) {
	if e == nil {
		return
	}
	seen := e.sightedAt()
	read := seen < m.host.TopicsAsOf()
	if !read && (len(e.unread) > 0 || len(e.held) > 0) {
		again := int64(readPollMs)
		if m.now-seen >= readPatienceMs {
			again = m.options.RetryMs
		}
		m.timers.arm(key, m.now+again)
	}
	if !read && m.now-e.unreadSince < readPatienceMs {
		return
	}
	calls := e.unread
	e.unread = nil
	if read {
		m.recheck(e)
	}
	for _, c := range calls {
		if read {
			m.dispatch(c)
		} else {
			m.withoutTopics(c, c.Request.(*streams.HeartbeatRequest))
		}
	}
	if e.soft == nil && len(e.unread) == 0 && m.queued[e.id] == 0 && m.working.Group(e.id) == nil && m.idle(e) {
		delete(m.groups, e.id) // nobody made the group
	}
}

// sightedAt is when the problem of the group's topics was first seen; 0 when it has none.
func (e *group) sightedAt() int64 {
	topics := e.sighted
	if e.soft != nil {
		topics = e.soft.Topics
	}
	if topics == nil {
		return 0
	}
	return topics.Sighted
}

// idle says that nothing of the group is under way.
func (m *Machine) idle(e *group) bool {
	return len(e.waiting)+len(e.blocked)+len(e.commits)+e.deleting == 0 && e.claim == claimNone && !m.unsettled(e.id)
}
