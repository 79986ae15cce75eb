package streams

import (
	"slices"

	"github.com/coordd/coordd/fsm"
)

// missedSessions is for how many session time-outs it is known who was removed because nothing was heard: a process that was
// cut off, or a static instance that was away for long, may still come back.
const missedSessions = 4

// maxMissed bounds of how many members that is known; of more, the last ones.
const maxMissed = 1000

// missedMember is a member that was removed because one of its time-outs was over.
type missedMember struct {
	id, process, instance string
	at                    int64
}

func missedOf(m *fsm.Member, now int64) *missedMember {
	meta := metaOf(m)
	missed := missedMember{id: m.ID, process: meta.ProcessID, at: now}
	if meta.InstanceID != nil {
		missed.instance = *meta.InstanceID
	}
	return &missed
}

func (s *Soft) addMissed(m *missedMember) {
	if len(s.missed) >= maxMissed {
		s.missed = slices.Delete(s.missed, 0, 1+len(s.missed)-maxMissed)
	}
	s.missed = append(s.missed, *m)
}

// missedLately says whether who joins may be a member that was removed lately because nothing was heard of it. A new leader
// does not know who was removed before its election, and takes anybody for one until they would be forgotten.
func (s *Soft) missedLately(r *HeartbeatRequest, env *Env) bool {
	if s == nil {
		return false
	}
	since := env.Now - missedSessions*int64(env.Settings.SessionTimeoutMs)
	if s.electedAt != 0 && s.electedAt >= since {
		return true
	}
	return slices.ContainsFunc(s.missed, func(m missedMember) bool {
		return m.at >= since && (m.id == r.MemberID || m.process != "" && r.ProcessID != nil && m.process == *r.ProcessID ||
			m.instance != "" && r.InstanceID != nil && m.instance == *r.InstanceID)
	})
}
