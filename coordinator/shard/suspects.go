package shard

import (
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/topology"
)

// goneMs is for how long the upstream must say that a topic was deleted before its offsets in the log are, lookupEveryMs how
// often it is asked meanwhile, and lookupGapMs after how long without an answer all starts anew.
const (
	goneMs        = 60_000
	lookupEveryMs = 10_000
	lookupGapMs   = 3 * lookupEveryMs
)

// maxSuspects bounds the topics that the upstream is asked for; others have their turn at a later check.
const maxSuspects = 1000

// suspect is a topic that seems to have been deleted: coordd is not shown it any more, or another one of its name. The picture of
// all topics does not tell a topic that was deleted from one that coordd may not see.
type suspect struct {
	// groups have offsets of it.
	groups map[string]bool
	// said is what the upstream has said each time since it was asked first, at since (0: it has not answered), and last.
	said        topology.Lookup
	since, last int64
	// confirmedAt is when that had been said for long enough; 0: it has not.
	confirmedAt int64
	// op is the question of which the topic is part.
	op uint64
}

// lookup is the question to the upstream that is under way; op is 0 when none is.
type lookup struct {
	op uint64
	at int64
}

// confirmed is what [offsets.FindDue] may delete offsets by.
func (m *Machine) confirmed(topic string) (offsets.Confirmed, bool) {
	s := m.suspects[topic]
	if s == nil || s.confirmedAt == 0 {
		return offsets.Confirmed{}, false
	}
	return offsets.Confirmed{Lookup: s.said, Since: s.since}, true
}

// suspect notes the topics that seem to be gone for a group, and those whose offsets are deleted.
func (m *Machine) suspect(group string, due *offsets.Due) {
	for _, topic := range due.Gone {
		s := m.suspects[topic]
		switch {
		case s == nil && len(m.suspects) >= maxSuspects:
		case s == nil:
			if m.suspects == nil {
				m.suspects = map[string]*suspect{}
			}
			m.suspects[strings.Clone(topic)] = &suspect{groups: map[string]bool{group: true}}
			m.timers.arm(timerKey{kind: timerLookup}, m.now)
		case s.confirmedAt == 0:
			s.groups[group] = true
		case !due.More:
			if delete(s.groups, group); len(s.groups) == 0 {
				delete(m.suspects, topic)
			}
		}
	}
}

// lookUp asks for the suspects.
func (m *Machine) lookUp() {
	for topic, s := range m.suspects {
		if s.confirmedAt != 0 && m.now-s.confirmedAt >= goneMs { // of groups that are not to be touched now, or went
			delete(m.suspects, topic)
		}
	}
	if len(m.suspects) == 0 || m.lookup.op != 0 { // the answer asks again
		return
	}
	m.nextOp++
	m.lookup = lookup{op: m.nextOp, at: m.now}
	for _, s := range m.suspects {
		s.op = m.lookup.op
	}
	m.host.LookUpTopics(m.lookup.op, slices.Sorted(maps.Keys(m.suspects)))
}

// TopicsLookedUp is the outcome of [Host.LookUpTopics]; of topics that are not in it nothing is known.
func (m *Machine) TopicsLookedUp(now int64, op uint64, found map[string]topology.Lookup) {
	m.now = now
	if !m.leading || op != m.lookup.op {
		return
	}
	asked := m.lookup.at
	m.lookup = lookup{}
	var sure []string
	for topic, s := range m.suspects {
		if s.op != op {
			continue
		}
		said, ok := found[topic]
		switch {
		case !ok: // the next check of the retention starts anew
			delete(m.suspects, topic)
			continue
		case s.since == 0 || said != s.said || asked-s.last > lookupGapMs:
			s.said, s.since, s.confirmedAt = said, asked, 0
		case s.confirmedAt == 0 && asked-s.since >= goneMs:
			s.confirmedAt = now
			sure = slices.AppendSeq(sure, maps.Keys(s.groups))
		}
		s.last = asked
	}
	if len(m.suspects) > 0 {
		m.timers.arm(timerKey{kind: timerLookup}, now+lookupEveryMs)
	}
	if len(sure) > 0 {
		slices.Sort(sure)
		m.sweeps = append(m.sweeps, slices.Compact(sure)...)
		m.timers.arm(timerKey{kind: timerSweep}, now)
	}
}
