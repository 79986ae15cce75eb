//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

const (
	cutCommits = 50
	cutRounds  = 4
)

// acknowledged cuts a leader off with commits under way, lets another one write over its log, and lets it come back: what it
// acknowledged is there.
func (f *offsetFaults) acknowledged(t *testing.T) {
	const group, topic = "cut", "cut.in"
	createSized(t, f.boot, cutCommits+10, topic)
	member := f.joined(t, group, topic)
	newest := map[int32]int64{} // what was acknowledged, by partition
	counts := map[string]int{}
	for round := range cutRounds {
		if err := f.cluster.WaitReady(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		for n, sent := range f.cut(t, member, topic, int64(1000*(round+1)), round%2 == 0) {
			counts[sent.what()]++
			if sent.err == nil && sent.code == 0 {
				newest[n] = sent.offset
			}
		}
		all := make([]int32, 0, len(newest))
		for n := range newest {
			all = append(all, n)
		}
		got := fetched(t, f.boot, group, topic, true, all...)
		for n, want := range newest {
			// More than was acknowledged may be there: an answer that was lost, or said that the leader does not know.
			if at, err := strconv.ParseInt(got[n], 10, 64); err != nil || at < want {
				t.Errorf("round %d: partition %d is at %q, acknowledged was %d", round, n, got[n], want)
			}
		}
		if err := member.Settle(30 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FIGURE store %s: of commits under way at %d leaders that were cut off %v, none of the acknowledged is lost", f.store, cutRounds, counts)
	if len(newest) == 0 {
		t.Error("nothing was acknowledged")
	}
	left(t, member)
}

// outcome is what became of a commit.
type outcome struct {
	offset int64
	at     time.Time
	code   rig.Code
	err    error
}

func (o outcome) what() string {
	switch {
	case o.err != nil:
		return "without an answer"
	case o.code != 0:
		return "refused with " + o.code.Error()
	}
	return acknowledged
}

const acknowledged = "acknowledged"

// cut stops the leader's followers, sends it commits, and lets the followers go on, the leader standing still meanwhile or not.
// The followers' new leader takes commits of its own before the former leader comes back.
func (f *offsetFaults) cut(t *testing.T, member *rig.Probe, topic string, offset int64, freeze bool) map[int32]outcome {
	t.Helper()
	_, addr, err := rig.FindCoordinator(f.boot, member.Group, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	leader := f.cluster.ByClient(addr)
	if leader == nil {
		t.Fatalf("no node is at %s", addr)
	}
	var conns []*rig.Conn
	for range cutCommits {
		c := dialed(t, addr)
		defer c.Close()
		conns = append(conns, c)
	}
	f.signal(t, syscall.SIGSTOP, leader, false)
	outcomes, done := map[int32]outcome{}, make(chan func(), cutCommits)
	for i, c := range conns {
		go func() {
			o := outcome{offset: offset + int64(i)}
			o.code, o.err = commitOnce(c, commitRequest(member.Group, member.Member, member.Epoch, topic, map[int32]int64{int32(i): o.offset}))
			o.at = time.Now()
			done <- func() { outcomes[int32(i)] = o }
		}()
	}
	pause(t.Context(), 300*time.Millisecond)
	if freeze {
		f.signal(t, syscall.SIGSTOP, leader, true)
	}
	cut := time.Now()
	f.signal(t, syscall.SIGCONT, leader, false)
	for n := range int32(10) { // the log goes on past what the former leader has
		if freeze {
			f.commitBeside(t, leader, member, topic, cutCommits+n, offset)
		}
	}
	f.signal(t, syscall.SIGCONT, leader, true)
	for range conns {
		(<-done)()
	}
	for n, o := range outcomes {
		if f.store == "raft" && runtime.GOOS == "linux" && o.at.Before(cut) && o.what() == acknowledged {
			t.Errorf("the commit to partition %d was acknowledged by a leader alone", n)
		}
	}
	for n := range int32(10) {
		if code := f.commit(t, member.Group, member.Member, member.Epoch, topic, map[int32]int64{cutCommits + n: offset + 1}); code != 0 {
			t.Fatalf("commit after the cut: %v", code)
		}
		outcomes[cutCommits+n] = outcome{offset: offset + 1}
	}
	return outcomes
}

// signal signals the leader, or all others.
func (f *offsetFaults) signal(t *testing.T, s syscall.Signal, leader *rig.Node, it bool) {
	t.Helper()
	for _, n := range f.cluster.Nodes {
		if (n == leader) == it {
			if err := n.Signal(s); err != nil {
				t.Fatal(err)
			}
			if s == syscall.SIGSTOP {
				t.Cleanup(func() { _ = n.Signal(syscall.SIGCONT) })
				waitStopped(t, n.Pid())
			}
		}
	}
}

// waitStopped waits until every thread of a process stands still, where /proc tells: some may go on for a while after SIGSTOP.
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	for ctx.Err() == nil {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if !slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			_, state, _ := strings.Cut(string(stat), ") ")
			return err == nil && !strings.HasPrefix(state, "T")
		}) {
			return
		}
		pause(ctx, time.Millisecond)
	}
	t.Fatalf("process %d does not stop", pid)
}

func commitOnce(c *rig.Conn, req *kmsg.OffsetCommitRequest) (rig.Code, error) {
	resp, err := c.DoVersion(req, 9, 30*time.Second)
	if err != nil {
		return 0, err
	}
	return rig.Code(resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode), nil
}

// commitBeside commits at the leader that the others have chosen.
func (f *offsetFaults) commitBeside(t *testing.T, former *rig.Node, member *rig.Probe, topic string, partition int32, offset int64) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for {
		for _, n := range f.cluster.Nodes {
			if n == former {
				continue
			}
			code, err := commitAt(n.Client, member, topic, partition, offset)
			if err == nil && code == 0 {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("no commit without node %d: %v %v", former.ID, code, err)
			}
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func commitAt(addr string, member *rig.Probe, topic string, partition int32, offset int64) (rig.Code, error) {
	c, err := rig.Dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return commitOnce(c, commitRequest(member.Group, member.Member, member.Epoch, topic, map[int32]int64{partition: offset}))
}
