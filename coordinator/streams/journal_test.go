package streams

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// checkJournal holds invariant 7 of docs/architecture.md: no group epoch and no task moves without a reason that the
// journal names, and it says when it was over.
func checkJournal(before *fsm.Group, d *Decision, after *fsm.Group) error {
	if after == nil {
		return nil
	}
	last := after.LastJournal()
	var written *record.JournalEntry
	for i, r := range d.Records {
		if r.Key.Type == record.TypeJournalEntry {
			if r.Value == nil { // an old entry goes for the sake of the journal's size
				continue
			}
			if i != len(d.Records)-1 {
				return errors.New("the journal's record is not the last one")
			}
			written = r.Value.(*record.JournalEntry)
			if err := checkEntry(written); err != nil {
				return err
			}
		}
	}
	if after.Epoch() != before.Epoch() && (written == nil || written.Epoch != after.Epoch()) {
		return fmt.Errorf("epoch %d is not in the journal", after.Epoch())
	}
	if d.Cause.Kinds != 0 && !counts(written, d.Cause.Kinds) {
		return fmt.Errorf("cause %s is not in the journal", d.Cause.Kinds)
	}
	// Of targets that are written in portions nobody is told before the last one, which the journal explains.
	if moved := targetsMoved(before, after); moved > 0 && !d.Soft.Torn {
		// What a leaver had is listed at once, and counted when the next target is made.
		if written == nil || written.TargetAtMs != 0 && int(written.NumMoves) < moved || written.TargetAtMs == 0 && len(written.Moves) == 0 {
			return fmt.Errorf("%d tasks moved without an entry that says so: %+v", moved, written)
		}
	}
	for m := range after.Members() {
		if err := checkGranted(memberOf(before, m.ID), m, after, last); err != nil {
			return err
		}
	}
	if StateOf(after) == StateStable && (last == nil || last.SettledAtMs == 0 || last.Epoch != after.Epoch()) {
		return fmt.Errorf("Stable at epoch %d, but the journal ends with %+v", after.Epoch(), last)
	}
	if written != nil && written.SettledAtMs != 0 && StateOf(after) != StateStable && StateOf(after) != StateEmpty {
		return fmt.Errorf("settled in state %s", StateOf(after))
	}
	return nil
}

func checkEntry(e *record.JournalEntry) error {
	total := int32(0)
	for _, c := range e.Counts {
		total += c.Count
	}
	switch {
	case total == 0 || len(e.Causes) == 0:
		return fmt.Errorf("an entry without a cause: %+v", e)
	case len(e.Causes) > maxCauses || len(e.Moves) > maxMoves:
		return fmt.Errorf("an entry with %d causes and %d moves", len(e.Causes), len(e.Moves))
	case e.FirstEpoch > e.Epoch || e.SettledAtMs != 0 && e.TargetAtMs == 0:
		return fmt.Errorf("an entry that cannot be: %+v", e)
	}
	return nil
}

func counts(e *record.JournalEntry, kinds CauseKind) bool {
	if e == nil {
		return false
	}
	for k := uint(kinds); k != 0; k &= k - 1 {
		found := false
		for _, c := range e.Counts {
			found = found || int(c.Kind) == bits.TrailingZeros(k) && c.Count > 0
		}
		if !found {
			return false
		}
	}
	return true
}

// targetsMoved counts the tasks that have a holder in the targets who had them not before.
func targetsMoved(before, after *fsm.Group) (n int) {
	for m := range after.Members() {
		old := targetOf(memberOf(before, m.ID)).Assignment
		n += minus(targetOf(m).Assignment, old).Len()
	}
	return n
}

// checkGranted: what a member was newly given belongs to a target that the journal knows.
func checkGranted(before, after *fsm.Member, g *fsm.Group, last *record.JournalEntry) error {
	if before == nil && after.Current != nil && after.Current.Assigned.IsEmpty() {
		return nil
	}
	granted := minus(currentOf(after).Assigned, currentOf(before).Assigned)
	if granted.IsEmpty() {
		return nil
	}
	if last == nil {
		return fmt.Errorf("%s was given tasks, but there is no journal", after.ID)
	}
	for e := range g.Journal() {
		if e.FirstEpoch <= g.AssignmentEpoch() && (e.TargetAtMs != 0 || len(e.Moves) > 0) {
			return nil
		}
	}
	return fmt.Errorf("%s was given tasks of a target that the journal does not know", after.ID)
}

// TestJournalIsBounded lets a group of members with the longest ids and a thousand tasks rebalance over and over.
func TestJournalIsBounded(t *testing.T) {
	w := newWorld()
	w.verify = checkJournal
	w.setTopic("in", 1000)
	top := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: strings.Repeat("s", 200), SourceTopics: []string{"in"}}}}
	client := &coordinator.Client{ID: "c", Host: "/" + strings.Repeat("h", 1000)}
	for i := range 150 {
		process := fmt.Sprint("p", i)
		req := &HeartbeatRequest{
			Version: 1, GroupID: testGroup, MemberID: fmt.Sprintf("%d-%s", i, strings.Repeat("ä", 500)), RebalanceTimeoutMs: 1000,
			ProcessID: &process, Topology: top, Active: topology.Tasks{}, Standby: topology.Tasks{}, Warmup: topology.Tasks{},
		}
		if d, err := w.heartbeat(req, client); err != nil || d.Reply.Err != nil {
			t.Fatal(err, d.Reply.Err)
		}
	}
	entries, largest, newest := 0, 0, int64(0)
	for r := range w.state.Records() {
		if r.Key.Type != record.TypeJournalEntry {
			continue
		}
		entries++
		newest = max(newest, r.Value.(*record.JournalEntry).Sequence)
		b, err := record.AppendValue(nil, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(b))
	}
	if entries != record.JournalSlots || newest != 150 || largest > 12<<10 {
		t.Fatalf("%d entries, the newest is %d, the largest has %d bytes", entries, newest, largest)
	}
}

// TestJournalAfterACutOffTarget: a leader that died between the entries of a large decision left a raised epoch without
// a word about it.
func TestJournalAfterACutOffTarget(t *testing.T) {
	w := newWorld()
	w.setTopic("in", 2)
	process := "p"
	top := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0", SourceTopics: []string{"in"}}}}
	d := Heartbeat(HeartbeatInput{Env: w.env(), Client: &coordinator.Client{}, Request: &HeartbeatRequest{
		Version: 1, GroupID: testGroup, MemberID: "a", ProcessID: &process, Topology: top, RebalanceTimeoutMs: 1000,
		Active: topology.Tasks{}, Standby: topology.Tasks{}, Warmup: topology.Tasks{},
	}})
	for i, r := range d.Records { // what came before the target made it into the log
		if r.Key.Type == record.TypeTargetMetadata {
			d.Records = d.Records[:i]
			break
		}
	}
	if err := w.stand(&d); err != nil {
		t.Fatal(err)
	}
	w.failover()
	w.verify = checkJournal
	if err := w.advance(1, func(string, *Decision) {}); err != nil {
		t.Fatal(err)
	}
	last := w.group().LastJournal()
	if last == nil || last.Epoch != 2 || last.TargetAtMs == 0 || last.Causes[0].Kinds != uint16(CauseResumed) {
		t.Fatalf("%+v", last)
	}
}
