package shard

import (
	"testing"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// checkHeld: who is held is not to be told anything.
func (w *anyOrder) checkHeld(t *testing.T, seed uint64) {
	for id, e := range w.groups {
		for member, h := range e.held {
			d := w.decisionOn(w.working, h)
			if d.Reply.Err != nil || len(d.Records) > 0 || d.Holding.News || d.Holding.Expects {
				t.Errorf("seed %d: %s of %s is held, but there is news: %+v, %d records, %+v", seed, member, id, d.Holding, len(d.Records), d.Reply)
			}
		}
	}
}

// checkGroups: epochs only grow, over all leaders, and no task is active twice.
func (w *anyOrder) checkGroups(t *testing.T, seed uint64) {
	if !w.leading || w.committed.Digest() == w.digest {
		return
	}
	w.digest = w.committed.Digest()
	for _, entry := range w.proposed {
		for _, r := range entry.Records {
			if r.Key.Type == record.TypeGroupMetadata && r.Value == nil {
				w.deleted[r.Key.Group] = true // another group may have the id now
			}
		}
	}
	w.proposed = w.proposed[:0]
	for g := range w.committed.Groups() {
		if g.Epoch() < w.epochs[g.ID] && w.deleted[g.ID] {
			w.deleted[g.ID], w.epochs[g.ID] = false, 0
		}
		if g.Epoch() < w.epochs[g.ID] || g.AssignmentEpoch() > g.Epoch() {
			t.Fatalf("seed %d: %s has epochs %d and %d after %d", seed, g.ID, g.Epoch(), g.AssignmentEpoch(), w.epochs[g.ID])
		}
		w.epochs[g.ID] = g.Epoch()
		owner := map[topology.Task]string{}
		for m := range g.Members() {
			for _, tasks := range []topology.Tasks{m.Current.Assigned.Active, m.Current.Revoking.Active} {
				for task := range tasks.All() {
					if other, taken := owner[task]; taken {
						t.Fatalf("seed %d: task %v of %s is active on %s and %s", seed, task, g.ID, other, m.ID)
					}
					owner[task] = m.ID
				}
			}
		}
	}
}

// checkCommits: no member goes while a commit of it is under way.
func (w *anyOrder) checkCommits(t *testing.T, seed uint64) {
	for _, op := range w.store {
		if op.member == "" || op.term != w.Machine.term || !w.leading {
			continue
		}
		if g := w.working.Group(op.group); g == nil || g.Member(op.member) == nil {
			t.Fatalf("seed %d: member %s of %s is gone, but its commit is under way", seed, op.member, op.group)
		}
	}
}
