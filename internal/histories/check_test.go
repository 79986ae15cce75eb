package histories

import (
	"strings"
	"testing"
	"time"
)

// at is an operation of partition "p" between two seconds.
func at(call, back int, o Op) Op {
	o.Partition, o.Call, o.Return = "p", time.Duration(call)*time.Second, time.Duration(back)*time.Second
	return o
}

var (
	first  = Tenure{1, "a"}
	second = Tenure{2, "b"}
	third  = Tenure{3, "a"}
)

func grant(t Tenure, epoch int32) Op { return Op{Kind: Grant, Tenure: t, Epoch: epoch} }
func release(t Tenure) Op            { return Op{Kind: Release, Tenure: t} }
func read(value int64) Op            { return Op{Kind: Read, Value: value} }
func commit(t Tenure, epoch int32, value int64, how Outcome) Op {
	return Op{Kind: Commit, Tenure: t, Epoch: epoch, Value: value, Outcome: how, Request: int(value)}
}

// TestHandMadeHistories: what is told of each history, "" for nothing.
func TestHandMadeHistories(t *testing.T) {
	t.Parallel()
	const noOrder = "no order"
	for _, c := range []struct {
		name string
		ops  []Op
		want string
	}{
		{"nothing", nil, ""},
		{"nothing is committed", []Op{at(0, 1, read(None))}, ""},
		{"what is acknowledged is read", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, read(10)), at(6, 7, read(10)),
		}, ""},
		{"an acknowledged commit is lost", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, read(None)),
		}, noOrder},
		{"an acknowledged commit is lost for one that is older", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, commit(first, 5, 11, Acknowledged)), at(6, 7, read(10)),
		}, noOrder},
		{"who reads while it is committed may see either", []Op{
			at(0, 1, grant(first, 5)), at(2, 6, commit(first, 5, 10, Acknowledged)), at(3, 4, read(None)), at(4, 5, read(10)),
		}, ""},
		{"but not the new offset, then none", []Op{
			at(0, 1, grant(first, 5)), at(2, 8, commit(first, 5, 10, Acknowledged)), at(3, 4, read(10)), at(5, 6, read(None)),
		}, noOrder},
		{"one without an answer may never count", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Unknown)), at(9, 9, read(None)),
		}, ""},
		{"or late", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Unknown)), at(4, 5, read(None)), at(8, 9, read(10)),
		}, ""},
		{"but once only", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Unknown)), at(4, 5, read(10)),
			at(6, 7, commit(first, 5, 11, Acknowledged)), at(8, 9, read(10)),
		}, noOrder},
		{"it is read before it is sent", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, read(10)), at(4, 5, commit(first, 5, 10, Unknown)),
		}, noOrder},
		{"nobody committed it", []Op{at(0, 1, read(7))}, "nobody committed what was read"},
		{"a refused commit counts", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Refused)), at(4, 5, read(10)),
		}, "that was refused"},
		{"a task moves with its offset", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, release(first)), at(6, 7, grant(second, 6)),
			at(8, 9, read(10)), at(10, 11, commit(second, 6, 11, Acknowledged)), at(12, 13, read(11)),
		}, ""},
		{"a commit from before the move is acknowledged after it", []Op{
			at(0, 1, grant(first, 5)), at(2, 9, commit(first, 5, 10, Acknowledged)), at(4, 5, release(first)), at(6, 7, grant(second, 6)), at(8, 9, read(10)),
		}, ""},
		{"a commit from before the move counts after it", []Op{
			at(0, 1, grant(first, 5)), at(2, 20, commit(first, 5, 10, Unknown)), at(4, 5, release(first)), at(6, 7, grant(second, 6)),
			at(8, 9, read(None)), at(10, 11, read(10)),
		}, noOrder},
		{"it overwrites what the next owner committed", []Op{
			at(0, 1, grant(first, 5)), at(2, 20, commit(first, 5, 10, Acknowledged)), at(4, 5, grant(second, 6)),
			at(6, 7, commit(second, 6, 11, Acknowledged)), at(21, 22, read(10)),
		}, noOrder},
		{"a zombie commits after another has the task", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, grant(second, 6)), at(4, 5, commit(first, 5, 10, Acknowledged)),
		}, noOrder},
		{"a zombie commits after it was removed, though nobody has the task", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, release(first)), at(4, 5, commit(first, 5, 10, Acknowledged)),
		}, noOrder},
		{"a member commits with the epoch of an earlier time as owner", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, release(first)), at(4, 5, grant(second, 6)), at(6, 7, release(second)), at(8, 9, grant(third, 7)),
			at(10, 11, commit(first, 5, 10, Acknowledged)),
		}, noOrder},
		{"a silent member commits until another has the task", []Op{
			at(0, 1, grant(first, 5)), at(20, 21, commit(first, 5, 10, Acknowledged)), at(20, 30, grant(second, 6)),
		}, ""},
		{"a commit before the task is given", []Op{
			at(0, 1, commit(first, 5, 10, Acknowledged)), at(2, 3, grant(first, 5)),
		}, noOrder},
		{"a task is given to another with the same epoch", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, release(first)), at(4, 5, grant(second, 5)),
		}, noOrder},
		{"a task has two owners", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, grant(second, 6)), at(4, 5, release(first)),
		}, noOrder},
		{"the same value twice", []Op{
			at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, commit(first, 5, 10, Acknowledged)),
		}, "which tells nothing"},
	} {
		got := Check(History{Ops: c.ops})
		switch {
		case c.want == "" && got != nil:
			t.Errorf("%s: %v", c.name, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].What, c.want)):
			t.Errorf("%s: %v, want one that says %q", c.name, got, c.want)
		}
	}
}

// TestRefusalsOfOwners: who has all tasks of a commit before, then and afterwards is not refused.
func TestRefusalsOfOwners(t *testing.T) {
	t.Parallel()
	other := func(o Op) Op { o.Partition, o.Request = "q", 10; return o }
	proof := func(t Tenure, from, till int) Proof {
		return Proof{t, time.Duration(from) * time.Second, time.Duration(till) * time.Second}
	}
	refused := at(4, 5, commit(first, 5, 10, Refused))
	for _, c := range []struct {
		name   string
		proofs []Proof
		ops    []Op
		wrong  bool
	}{
		{"an owner", []Proof{proof(first, 1, 9)}, []Op{refused}, true},
		{"an owner that is then not heard of any more", []Proof{proof(first, 1, 3)}, []Op{refused}, false},
		{"an owner that is not heard of while it is answered", []Proof{proof(first, 1, 5)}, []Op{refused}, false},
		{"before it was told", []Proof{proof(first, 4, 9)}, []Op{refused}, false},
		{"nobody knows", nil, []Op{refused}, false},
		{"another task of the request was on its way", []Proof{proof(first, 1, 9), proof(second, 1, 4)},
			[]Op{refused, other(at(4, 5, commit(second, 5, 11, Refused)))}, false},
		{"both tasks were its own", []Proof{proof(first, 1, 9), proof(second, 1, 9)},
			[]Op{refused, other(at(4, 5, commit(second, 5, 11, Refused)))}, true},
	} {
		got := Check(History{Ops: c.ops, Proofs: c.proofs})
		if (len(got) > 0) != c.wrong {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestPartitionsAreApart: what is committed for one partition says nothing of another.
func TestPartitionsAreApart(t *testing.T) {
	t.Parallel()
	q := at(4, 5, read(10))
	q.Partition = "q"
	ops := []Op{at(0, 1, grant(first, 5)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, read(10)), q}
	if got := Check(History{Ops: ops}); len(got) != 1 || got[0].Partition != "q" {
		t.Errorf("%v", got)
	}
}

// TestAnExplanationShowsWhereItEnds: the last operations that can be put in order, and those that cannot be next.
func TestAnExplanationShowsWhereItEnds(t *testing.T) {
	t.Parallel()
	ops := []Op{
		at(0, 1, grant(first, 5)), at(1, 1, commit(first, 5, 9, Acknowledged)), at(2, 3, commit(first, 5, 10, Acknowledged)), at(4, 5, read(9)),
	}
	got := Check(History{Ops: ops})
	if len(got) != 1 {
		t.Fatal(got)
	}
	before, after, _ := strings.Cut(got[0].String(), "none of these can be next")
	for _, part := range []string{"p: ", "[0s, 1s] grant of p by a, tenure 1, epoch 5", "[2s, 3s] commit of p by a, tenure 1, epoch 5: 10 acknowledged"} {
		if !strings.Contains(before, part) {
			t.Errorf("%q lacks %q", before, part)
		}
	}
	after, about, _ := strings.Cut(after, "all about offset 9:")
	if !strings.Contains(after, "[4s, 5s] read of p: 9") || !strings.Contains(about, "[1s, 1s] commit of p by a, tenure 1, epoch 5: 9 acknowledged") {
		t.Errorf("%q, %q", after, about)
	}
}
