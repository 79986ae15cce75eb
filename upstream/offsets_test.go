package upstream

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

func TestClaimCommitFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		if !o.Claimed("g") || o.NumClaimed() != 1 {
			t.Error("not claimed")
		}
		if code := w.commit(o, commitReq("g", 4, 42)); code != coordinator.None {
			t.Fatalf("commit: %d", code)
		}
		got := w.fetch(o, "g", true)
		if got.Offset != 42 || got.LeaderEpoch != 3 || got.Metadata == nil || *got.Metadata != "meta" || got.Code != 0 {
			t.Errorf("fetched %+v", got)
		}
		all := wait(t, func(done func(*offsets.FetchResponse)) { o.Fetch(&offsets.FetchRequest{GroupID: "g"}, done) })
		if len(all.Topics) != 1 || all.Topics[0].Name != "in" || len(all.Topics[0].Partitions) != 1 || all.Topics[0].Partitions[0].Offset != 42 {
			t.Errorf("all: %+v", all)
		}
		if none := w.fetch(o, "unknown", false); none.Offset != -1 || none.Code != 0 {
			t.Errorf("unknown group: %+v", none)
		}
		req := commitReq("g", 4, 1)
		req.Topics[0].Name = "no such topic"
		if code := w.commit(o, req); code != coordinator.UnknownTopicOrPartition {
			t.Errorf("unknown topic: %d", code)
		}
	})
}

// A second claim fences the first holder, whatever that has in flight.
func TestSecondClaimFencesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, next := w.node(), w.node()
		w.mustClaim(old, "g")
		if code := w.commit(old, commitReq("g", 1, 10)); code != 0 {
			t.Fatalf("first holder: %d", code)
		}
		w.mustClaim(next, "g")
		if code := w.commit(old, commitReq("g", 1, 5)); code != coordinator.NotCoordinator {
			t.Errorf("fenced holder: %d", code)
		}
		if code := w.commit(old, commitReq("g", 1, 5)); code != coordinator.NotCoordinator {
			t.Errorf("fenced holder again: %d", code)
		}
		if code := w.commit(next, commitReq("g", 1, 11)); code != 0 {
			t.Errorf("new holder: %d", code)
		}
		old.Release("g", func(error) {}) // must not take the new holder's membership away
		synctest.Wait()
		time.Sleep(time.Minute)
		if got := w.fetch(next, "g", false); got.Offset != 11 || !next.Claimed("g") || old.Claimed("g") {
			t.Errorf("offset %d, claimed %v %v", got.Offset, next.Claimed("g"), old.Claimed("g"))
		}
	})
}

// With Verify, whoever still leads takes a group back, and a paused predecessor does not.
func TestVerifyDecidesWhoRejoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leads := func(err error) func(*OffsetsConfig) {
			return func(c *OffsetsConfig) { c.Verify = func(_ string, done func(error)) { go done(err) } }
		}
		right, paused := w.node(leads(nil)), w.node(leads(errors.New("not the leader")))
		w.mustClaim(right, "g")
		w.mustClaim(paused, "g") // a join that was under way for long
		if code := w.commit(right, commitReq("g", 1, 7)); code != 0 {
			t.Errorf("the leader: %d", code)
		}
		if code := w.commit(paused, commitReq("g", 1, 3)); code != coordinator.NotCoordinator {
			t.Errorf("the paused one: %d", code)
		}
		if got := w.fetch(right, "g", false).Offset; got != 7 {
			t.Errorf("offset %d", got)
		}
	})
}

func TestHeartbeatsKeepClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		memberID := o.groups["g"].claim.memberID
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if got := o.groups["g"].claim; got.state != held || got.memberID != memberID {
			t.Errorf("claim after half an hour: %+v", got)
		}
		if code := w.commit(o, commitReq("g", 1, 1)); code != 0 {
			t.Errorf("commit: %d", code)
		}
	})
}

func TestReleaseLeavesGroupEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o, tool := w.node(), w.node()
		w.mustClaim(o, "g")
		w.commit(o, commitReq("g", 1, 10))
		if code := w.commit(o, commitReq("other", 1, 1)); code != coordinator.CoordinatorLoadInProgress {
			t.Errorf("a member's commit without a claim: %d", code)
		}
		o.Release("g", func(error) {})
		if code := w.commit(o, commitReq("g", -1, 3)); code != 0 {
			t.Errorf("memberless commit by the node: %d", code)
		}
		if code := w.commit(tool, commitReq("g", -1, 4)); code != 0 {
			t.Errorf("memberless commit by another: %d", code)
		}
		if got := w.fetch(o, "g", false).Offset; got != 4 {
			t.Errorf("offset %d", got)
		}
		if len(o.groups) != 0 {
			t.Errorf("%d groups remembered", len(o.groups))
		}
	})
}

// A member that a dead leader left behind does not stop memberless commits of the next one.
func TestLeftoverMemberIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dead, next := w.node(), w.node()
		w.mustClaim(dead, "g")
		dead.Forget("g")
		if code := w.commit(next, commitReq("g", -1, 3)); code != 0 {
			t.Errorf("commit: %d", code)
		}
	})
}

func TestLostMembershipIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o, admin := w.node(), w.node()
		w.mustClaim(o, "g")
		first := o.groups["g"].claim.memberID
		admin.Release("g", func(error) {}) // as if an operator removed the member
		synctest.Wait()
		if code := w.commit(o, commitReq("g", 1, 8)); code != 0 {
			t.Errorf("commit after the loss: %d", code)
		}
		if now := o.groups["g"].claim.memberID; now == first {
			t.Error("not rejoined")
		}
		admin.Release("g", func(error) {})
		synctest.Wait()
		second := o.groups["g"].claim.memberID
		eventually(t, "heartbeat finds the loss", func() bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			c := o.groups["g"].claim
			return c.state == held && c.memberID != second
		})
	})
}

func TestForgetAnswersWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.cluster.Close()
		claimed := make(chan error, 1)
		o.Claim("g", func(err error) { claimed <- err })
		committed := make(chan coordinator.Code, 1)
		o.Commit(commitReq("g", 1, 1), func(r *offsets.CommitResponse) { committed <- r.Topics[0].Partitions[0].Code })
		time.Sleep(time.Second)
		o.Forget("g")
		if err := <-claimed; !errors.Is(err, ErrDropped) {
			t.Errorf("claim: %v", err)
		}
		if code := <-committed; code != coordinator.NotCoordinator {
			t.Errorf("commit: %d", code)
		}
	})
}

// While the upstream is away commits are answered in time with what clients retry; afterwards all goes on.
func TestUpstreamRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dataDir(dir))
		o := w.node()
		w.mustClaim(o, "g")
		w.mustClaim(o, "h")
		if code := w.commit(o, commitReq("g", 1, 1)); code != 0 {
			t.Fatalf("before: %d", code)
		}
		w.cluster.Close()
		start := time.Now()
		code := w.commit(o, commitReq("g", 1, 2))
		if code != coordinator.CoordinatorNotAvailable && code != coordinator.CoordinatorLoadInProgress {
			t.Errorf("while away: %d", code)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("answered after %v", took)
		}
		time.Sleep(20 * time.Second)
		w.up()
		eventually(t, "commits work again", func() bool { return w.commit(o, commitReq("g", 1, 3)) == 0 })
		eventually(t, "both claims stand", func() bool { return o.NumClaimed() == 2 })
		if got := w.fetch(o, "g", false).Offset; got != 3 {
			t.Errorf("offset %d", got)
		}
	})
}

// Commits of one group reach the upstream in order, merged or not; each is answered once.
func TestCommitsKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		const groups, commits = 20, 200
		answers := make(chan coordinator.Code, groups*commits)
		for g := range groups {
			o.Claim(fmt.Sprint(g), func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		for n := range commits {
			for g := range groups {
				req := commitReq(fmt.Sprint(g), 1, int64(n))
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, offsets.CommitPartition{Partition: int32(n % 8), Offset: int64(n)})
				o.Commit(req, func(r *offsets.CommitResponse) { answers <- r.Topics[0].Partitions[1].Code })
			}
		}
		for range groups * commits {
			if code := <-answers; code != 0 {
				t.Fatalf("commit: %d", code)
			}
		}
		for g := range groups {
			req := &offsets.FetchRequest{GroupID: fmt.Sprint(g), Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{1, 7}}}}
			resp := wait(t, func(done func(*offsets.FetchResponse)) { o.Fetch(req, done) })
			if p := resp.Topics[0].Partitions; p[0].Offset != 193 || p[1].Offset != 199 {
				t.Fatalf("group %d: %+v", g, p)
			}
		}
	})
}

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		w.commit(o, commitReq("g", 1, 10))
		del := func() *offsets.DeleteResponse {
			return wait(t, func(done func(*offsets.DeleteResponse)) {
				o.Delete(&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0, 1}}}}, done)
			})
		}
		if resp := del(); resp.Err != nil || resp.Topics[0].Partitions[0].Code != 0 || resp.Topics[0].Partitions[1].Code != 0 {
			t.Errorf("delete: %+v %v", resp, resp.Err)
		}
		if got := w.fetch(o, "g", false).Offset; got != -1 {
			t.Errorf("offset %d after its deletion", got)
		}
		if code := w.commit(o, commitReq("g", 1, 12)); code != 0 || !o.Claimed("g") {
			t.Errorf("commit after delete: %d", code)
		}
		deleteGroup := func() error { return wait(t, func(done func(error)) { o.DeleteGroup("g", done) }) }
		if err := deleteGroup(); err != nil {
			t.Errorf("delete group: %v", err)
		}
		if got := w.fetch(o, "g", false).Offset; got != -1 || o.Claimed("g") {
			t.Errorf("offset %d after the group's deletion", got)
		}
		if err := deleteGroup(); err != nil {
			t.Errorf("delete of a group that is not there: %v", err)
		}
	})
}

// Two thousand groups are claimed at once and kept for an hour with the heartbeats they need and few goroutines.
func TestManyClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		const n = 2000
		done := make(chan error, n)
		for i := range n {
			o.Claim(fmt.Sprint("group-", i), func(err error) { done <- err })
		}
		for range n {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		beats := w.count(12)
		joins := w.count(11)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		got, want := beats(), n*40 // every 15 s
		if got < want*9/10 || got > want*12/10 {
			t.Errorf("%d heartbeats in ten minutes, want about %d", got, want)
		}
		if o.NumClaimed() != n || joins() != 0 {
			t.Errorf("%d claims stand, %d joins", o.NumClaimed(), joins())
		}
	})
}

func TestReleaseIsDoneOnlyWhenTheUpstreamWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		if err := wait(t, func(done func(error)) { o.Release("g", done) }); err != nil || o.Claimed("g") {
			t.Fatalf("release: %v", err)
		}
		w.mustClaim(o, "h")
		w.cluster.Close()
		if err := wait(t, func(done func(error)) { o.Release("h", done) }); err == nil {
			t.Error("the upstream was away, but the release is said to be done")
		}
	})
}

// A leader of before that was paused deletes offsets, or the whole group: the claim of the one that leads now keeps them, also where
// the former one believes to lead.
func TestAFormerLeaderDeletesNothing(t *testing.T) {
	for name, verify := range map[string]func(string, func(error)){
		"believes to lead": nil,
		"asks who leads":   func(_ string, done func(error)) { go done(errors.New("not the leader")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				before, now := w.node(func(c *OffsetsConfig) { c.Verify = verify }), w.node()
				want := map[bool]coordinator.Code{true: coordinator.NonEmptyGroup, false: coordinator.NotCoordinator}[verify == nil]
				w.mustClaim(before, "g")
				w.mustClaim(now, "g")
				if code := w.commit(now, commitReq("g", 1, 5)); code != 0 {
					t.Fatal(code)
				}
				before.Forget("g")
				err := wait(t, func(done func(error)) { before.DeleteGroup("g", done) })
				var why *coordinator.Error
				if !errors.As(err, &why) || why.Code != want {
					t.Errorf("the group: %v", err)
				}
				r := wait(t, func(done func(*offsets.DeleteResponse)) {
					before.Delete(&offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{0}}}}, done)
				})
				if r.Err == nil || r.Err.Code != want {
					t.Errorf("an offset: %+v", r)
				}
				if verify != nil { // nor does it make room for what it was asked to commit without a member
					if code := w.commit(before, commitReq("g", -1, 3)); code != coordinator.NotCoordinator {
						t.Errorf("a commit: %d", code)
					}
				}
				if got := w.fetch(now, "g", false); got.Offset != 5 {
					t.Errorf("offset %d", got.Offset)
				}
				if code := w.commit(now, commitReq("g", 1, 6)); code != 0 || !now.Claimed("g") {
					t.Errorf("the leader: %d", code)
				}
			})
		})
	}
}

// Where nobody has a claim any more, only the proof of leadership keeps the offsets.
func TestOnlyTheLeaderDeletesAGroupWithoutAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leads := false
		o := w.node(func(c *OffsetsConfig) {
			c.Verify = func(_ string, done func(error)) {
				if leads {
					done(nil)
				} else {
					done(errors.New("not the leader"))
				}
			}
		})
		if code := w.commit(o, commitReq("g", -1, 5)); code != 0 {
			t.Fatal(code)
		}
		var why *coordinator.Error
		if err := wait(t, func(done func(error)) { o.DeleteGroup("g", done) }); !errors.As(err, &why) || why.Code != coordinator.NotCoordinator || w.fetch(o, "g", false).Offset != 5 {
			t.Errorf("deleted: %v", err)
		}
		leads = true
		if err := wait(t, func(done func(error)) { o.DeleteGroup("g", done) }); err != nil || w.fetch(o, "g", false).Offset != -1 {
			t.Errorf("the leader: %v", err)
		}
	})
}
