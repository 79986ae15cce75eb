package streams

import (
	"fmt"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// Expire decides what a member's timers do at env.Now: it removes the member whose session, rebalance or disconnect
// time-out is over, clears a rebalance timer that no longer matters, or does nothing because a deadline moved in between.
func Expire(g *fsm.Group, soft *Soft, env *Env, memberID string) Decision {
	sm := soft.Members[memberID]
	if sm == nil {
		return Decision{}
	}
	if sm.SessionDeadline != 0 && env.Now >= sm.SessionDeadline {
		return ExpireSession(g, env, memberID)
	}
	if sm.DisconnectDeadline != 0 && env.Now >= sm.DisconnectDeadline {
		return expire(g, env, memberID, CauseDisconnected,
			fmt.Sprintf("its connection ended and it did not come back within %d ms", DisconnectMs(env.Settings)))
	}
	if sm.RebalanceDeadline != 0 && env.Now >= sm.RebalanceDeadline {
		return ExpireRebalance(g, env, memberID, sm.RebalanceEpoch)
	}
	return Decision{}
}

// ExpireSession removes a member that sent no heartbeat for its session time-out.
func ExpireSession(g *fsm.Group, env *Env, memberID string) Decision {
	return expire(g, env, memberID, CauseSessionExpired,
		fmt.Sprintf("no heartbeat for %d ms", env.Settings.SessionTimeoutMs))
}

// ExpireRebalance removes a member that did not give up its tasks within its rebalance time-out; epoch is the member
// epoch at which it was told to.
func ExpireRebalance(g *fsm.Group, env *Env, memberID string, epoch int32) Decision {
	if m := memberOf(g, memberID); m != nil {
		c := currentOf(m)
		if c.State != record.MemberUnrevokedTasks || c.MemberEpoch != epoch {
			return Decision{Soft: SoftChange{Member: m.ID, Rebalance: RebalanceTimerCancelled}}
		}
		return expire(g, env, memberID, CauseRebalanceTimeout,
			fmt.Sprintf("tasks not revoked within %d ms", metaOf(m).RebalanceTimeoutMs))
	}
	return expire(g, env, memberID, CauseRebalanceTimeout, "")
}

func expire(g *fsm.Group, env *Env, memberID string, why CauseKind, detail string) Decision {
	var d Decision
	m := memberOf(g, memberID)
	if m == nil {
		d.Soft.Removed = memberID
		return d
	}
	remove(&d, g, m, why, env.Now)
	d.Soft.missed = missedOf(m, env.Now)
	d.Cause.Detail = detail
	d.putJournal(g, g.ID, env.Now)
	return d
}

func memberOf(g *fsm.Group, id string) *fsm.Member {
	if g == nil {
		return nil
	}
	return g.Member(id)
}
