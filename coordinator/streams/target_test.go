package streams

import (
	"errors"
	"strings"
	"testing"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// hostile is an assignor that answers what it is told to.
type hostile func(assignor.Spec) (assignor.Assignment, error)

func (hostile) Name() string                                          { return "hostile" }
func (f hostile) Assign(s assignor.Spec) (assignor.Assignment, error) { return f(s) }

// TestBadAssignmentsReachNobody: an assignor that fails or breaks its rules leaves the old target in place and is
// tried again later, and its members go on.
func TestBadAssignmentsReachNobody(t *testing.T) {
	set := func(text string) topology.Tasks { return parseTasks(text) }
	all := topology.Assignment{Active: set("0_0,0_1")}
	for name, answer := range map[string]hostile{
		"error": func(assignor.Spec) (assignor.Assignment, error) { return nil, errors.New("broken") },
		"unknown task": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": {Active: set("0_0,0_1,0_2")}}, nil
		},
		"unknown sub": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": all, "B": {Standby: set("9_0")}}, nil
		},
		"unknown member": func(assignor.Spec) (assignor.Assignment, error) { return assignor.Assignment{"A": all, "X": {}}, nil },
		"active twice":   func(assignor.Spec) (assignor.Assignment, error) { return assignor.Assignment{"A": all, "B": all}, nil },
		"twice in a process": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": all, "B": {Standby: set("0_0")}}, nil
		},
		"partition below 0": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": all, "B": {Warmup: topology.NewTasks(topology.Task{Subtopology: "0", Partition: -1})}}, nil
		},
		"two roles": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": {Active: all.Active, Standby: set("0_0")}}, nil
		},
		"two kinds of copies": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": all, "B": {Standby: set("0_0"), Warmup: set("0_0")}}, nil
		},
		"warm-up beside its owner in a process": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": all, "B": {Warmup: set("0_1")}}, nil
		},
		"task lost": func(assignor.Spec) (assignor.Assignment, error) {
			return assignor.Assignment{"A": {Active: set("0_0")}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.setTopic("in", 2)
			mustReply(t, w, goodJoin())
			w.assign = answer
			join := goodJoin()
			join.MemberID = "B"
			if process := "Q"; !strings.HasSuffix(name, "in a process") {
				join.ProcessID = &process
			}
			d := mustReply(t, w, join)
			if len(d.Effects) != 1 || d.Reply.Err != nil || d.Reply.MemberEpoch != 2 || len(d.Reply.Status) != 1 {
				t.Fatalf("%+v", d)
			}
			if d := mustReply(t, w, goodHeartbeat(2)); len(d.Effects)+len(d.Records)+len(d.Reply.Status) != 0 {
				t.Fatalf("a member with tasks is disturbed: %+v", d)
			}
			w.assign = assignor.Sticky()
			if err := w.advance(minFailureDelayMs, func(string, *Decision) {}); err != nil {
				t.Fatal(err)
			}
			if g := w.group(); g.AssignmentEpoch() != 3 {
				t.Fatalf("not tried again: %d", g.AssignmentEpoch())
			}
		})
	}
}

func mustReply(t *testing.T, w *world, req *HeartbeatRequest) Decision {
	t.Helper()
	d, err := w.heartbeat(req, &coordinator.Client{ID: "c", Host: "/h"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestStaleAssignmentsReachNobody: an assignor that gives a member of an earlier topology more than it has is not followed.
func TestStaleAssignmentsReachNobody(t *testing.T) {
	w := newWorld()
	w.setTopic("in", 2)
	mustReply(t, w, goodJoin())
	w.assign = hostile(func(assignor.Spec) (assignor.Assignment, error) {
		return assignor.Assignment{"A": {Active: parseTasks("0_0,0_1,1_0")}, "B": {Active: parseTasks("1_1")}}, nil
	})
	join, process := goodJoin(), "Q"
	join.MemberID, join.ProcessID = "B", &process
	next := topology.Topology{Epoch: join.Topology.Epoch + 1}
	next.Subtopologies = append(next.Subtopologies, join.Topology.Subtopologies...)
	next.Subtopologies = append(next.Subtopologies, topology.Subtopology{ID: "1", SourceTopics: []string{"in"}})
	join.Topology = &next
	d := mustReply(t, w, join)
	if len(d.Effects) != 1 || d.Reply.Err != nil || d.Reply.MemberEpoch != 2 || len(d.Reply.Status) != 1 {
		t.Fatalf("%+v", d)
	}
}
