package server

import (
	"context"
	"fmt"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/web"
)

// Journal implements web.Cluster: the shard's leader knows the newest entry, whoever is asked.
func (n *Node) Journal(ctx context.Context, id string) (web.GroupJournal, error) {
	number := shardOf(id, len(n.shards))
	leader, ok := (coordinators{n}).Leader(number)
	switch {
	case !ok:
		return web.GroupJournal{}, fmt.Errorf("shard %d, which holds the group, has no leader; a quorum of nodes must be up", number)
	case leader == n.config.NodeID:
		return n.LocalJournal(id)
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	return n.peer(leader).Journal(ctx, id)
}

// LocalJournal implements web.Cluster.
func (n *Node) LocalJournal(id string) (web.GroupJournal, error) {
	number := shardOf(id, len(n.shards))
	g := n.shards[number].replica.State().Group(id)
	if g == nil {
		return web.GroupJournal{}, web.ErrNoGroup
	}
	return web.GroupJournal{GroupSummary: n.summary(int(number), g), Entries: journalView(g)}, nil
}

func journalView(g *fsm.Group) []web.JournalEntry {
	list := []web.JournalEntry{}
	for e := range g.Journal() {
		v := web.JournalEntry{
			Sequence: e.Sequence, FirstEpoch: e.FirstEpoch, Epoch: e.Epoch, Outcome: outcome(e, len(list) == 0),
			StartedAtMs: e.StartedAtMs, TargetAtMs: e.TargetAtMs, SettledAtMs: e.SettledAtMs, SettledAfterMs: -1, Slowest: e.Slowest,
			Counts: []web.JournalCount{}, Causes: []web.JournalCause{}, Moved: e.NumMoves, Moves: []web.JournalMove{},
		}
		if e.SettledAtMs != 0 {
			v.SettledAfterMs = max(0, e.SettledAtMs-e.StartedAtMs) // clocks of two leaders may differ
		}
		for _, c := range e.Counts {
			v.Counts = append(v.Counts, web.JournalCount{Cause: streams.CauseKind(1 << uint8(c.Kind)).String(), Count: c.Count})
		}
		for i := range e.Causes {
			v.Causes = append(v.Causes, causeView(&e.Causes[i]))
		}
		for i := range e.Moves {
			m := &e.Moves[i]
			v.Moves = append(v.Moves, web.JournalMove{
				Task: fmt.Sprintf("%s_%d", m.Task.Subtopology, m.Task.Partition), Role: roleText(m.Role), From: m.From, To: m.To,
			})
		}
		list = append(list, v)
	}
	return list
}

func outcome(e *record.JournalEntry, newest bool) string {
	switch {
	case e.SettledAtMs != 0:
		return "settled"
	case !newest:
		return "superseded"
	case e.TargetAtMs != 0:
		return "reconciling"
	}
	return "waiting"
}

func causeView(c *record.JournalCause) web.JournalCause {
	return web.JournalCause{
		Causes: streams.CauseKind(c.Kinds).Names(), Epoch: c.Epoch, AtMs: c.AtMs,
		Member: c.Member, InstanceID: c.Instance, Host: c.Host, Detail: c.Detail,
	}
}

func roleText(r record.TaskRole) string {
	switch r {
	case record.RoleActive:
		return "active"
	case record.RoleStandby:
		return "standby"
	case record.RoleWarmup:
		return "warm-up"
	}
	return "unknown"
}
