package shard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// storeRig is a rig whose upstream keeps offsets. Operations wait until the test lets them happen, entries until it lets them be
// committed.
type storeRig struct {
	*rig
	up       offsets.Copy // of the group "g"
	unstable map[offsets.TopicPartition]bool
	unknown  map[offsets.TopicPartition]bool // what the upstream says does not exist
	most     int                             // partitions of a topic in a commit; 0: no bound
	waiting  []upstreamOp
	durable  fsm.State
	term     uint64
}

// upstreamOp is an operation of the upstream: what it does, and what it answers where it fails.
type upstreamOp struct {
	id     uint64
	what   string
	do     func() any
	failed any
}

func newStoreRig(t testing.TB, store record.Store) *storeRig {
	s := &storeRig{rig: &rig{t: t, now: 1_000_000, topics: topics{"in": 4}}, up: offsets.Copy{}, unstable: map[offsets.TopicPartition]bool{}, durable: fsm.NewState()}
	s.settings = coordinator.GroupSettings{
		SessionTimeoutMs: 45000, HeartbeatIntervalMs: 5000, MaxSize: 1000, TaskOffsetIntervalMs: 60000, OffsetMetadataMaxBytes: 4096, AssignorName: "sticky",
	}
	o := DefaultOptions()
	o.Store = store
	s.Machine = New(s, o)
	s.leads()
	return s
}

// leads begins a leadership that is old enough for everything.
func (s *storeRig) leads() {
	s.term++
	s.Elected(s.now, s.term, s.durable)
	s.now += moveAfterMs
	s.freshProof()
}

func (s *storeRig) later(id uint64, what string, failed any, do func() any) {
	s.waiting = append(s.waiting, upstreamOp{id: id, what: what, do: do, failed: failed})
}

func (s *storeRig) Fetch(id uint64, r *offsets.FetchRequest) {
	s.later(id, "fetch", offsets.FetchFailed(r, notAvailable), func() any {
		topics := r.Topics
		if topics == nil {
			topics = s.up.Topics()
		}
		resp := &offsets.FetchResponse{}
		for _, t := range topics {
			result := offsets.FetchTopicResult{Name: t.Name}
			for _, p := range t.Partitions {
				key := offsets.TopicPartition{Topic: t.Name, Partition: p}
				f := offsets.NoOffset(p, coordinator.None)
				if o, ok := s.up[key]; ok {
					f = offsets.FetchedOffset{Partition: p, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: &o.Metadata}
				}
				if r.RequireStable && s.unstable[key] {
					f = offsets.NoOffset(p, coordinator.UnstableOffsetCommit)
				}
				result.Partitions = append(result.Partitions, f)
			}
			resp.Topics = append(resp.Topics, result)
		}
		return resp
	})
}

func (s *storeRig) Commit(id uint64, r *offsets.CommitRequest) {
	s.later(id, "commit", offsets.CommitFailed(r, coordinator.CoordinatorNotAvailable), func() any {
		if s.most > 0 && len(r.Topics[0].Partitions) > s.most {
			return offsets.CommitFailed(r, coordinator.InvalidCommitOffsetSize)
		}
		resp := offsets.Committed(r)
		for _, t := range resp.Topics {
			for i := range t.Partitions {
				if s.unknown[offsets.TopicPartition{Topic: t.Name, Partition: t.Partitions[i].Partition}] {
					t.Partitions[i].Code = coordinator.UnknownTopicOrPartition
				}
			}
		}
		c, _, _, _ := offsets.CopyCommitted(r, resp, topics{})
		maps.Copy(s.up, c)
		return resp
	})
}

func (s *storeRig) DeleteOffsets(id uint64, r *offsets.DeleteRequest) {
	s.later(id, "delete", offsets.DeleteFailed(notAvailable), func() any {
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				delete(s.up, offsets.TopicPartition{Topic: t.Name, Partition: p})
			}
		}
		return offsets.Deleted(r)
	})
}

func (s *storeRig) DropOffsets(id uint64, _ string) {
	s.later(id, "drop", errors.New("away"), func() any {
		clear(s.up)
		return nil
	})
}

// happens lets the first operation that waits happen, or fail, and says which that was.
func (s *storeRig) happens(fails bool) string { return s.happensAt(0, fails) }

func (s *storeRig) happensAt(i int, fails bool) string {
	op := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	answer := op.failed
	if !fails {
		answer = op.do()
	}
	s.StoreDone(s.now, op.id, answer)
	s.Flush()
	return op.what
}

// entry lets the entry in flight be committed.
func (s *storeRig) entry() {
	e := s.proposed[len(s.proposed)-1]
	var err error
	if s.durable, err = s.durable.EvolveAll(e.Records); err != nil {
		s.t.Fatal(err)
	}
	s.Committed(s.now, s.inflight.id)
	s.Flush()
}

// settles answers all that waits, and says what the upstream did.
func (s *storeRig) settles() (did string) {
	for range 1000 {
		switch {
		case s.inflight != nil:
			s.entry()
		case len(s.waiting) > 0:
			did += s.happens(false) + " "
		case len(s.releases) > 0:
			s.releases = s.releases[1:]
			s.Released(s.now, "g", nil)
			s.Flush()
		case len(s.claims) > 0:
			s.claims = s.claims[1:]
			s.Claimed(s.now, "g", nil)
			s.Flush()
		case len(s.Machine.foreign) > 0:
			s.ForeignChecked(s.now, "g", coordinator.ForeignGroup{Offsets: len(s.up) > 0}, nil)
			s.Flush()
		default:
			return strings.TrimSpace(did)
		}
	}
	s.t.Fatal("it does not come to an end")
	return ""
}

// empty makes the group "g" in the store of the options, without members.
func (s *storeRig) empty() {
	s.t.Helper()
	_, a := s.send(join("g", "a"))
	s.settles()
	s.send(beat("g", "a", -1))
	s.settles()
	if g := s.committed.Group("g"); !a.done || g == nil || g.NumMembers() > 0 || g.OffsetsClaimed {
		s.t.Fatalf("%v %+v", a.done, g)
	}
}

// tool commits an offset as Kafka's tools do.
func tool(partition int32, offset int64) *offsets.CommitRequest {
	metadata := fmt.Sprint("m", offset)
	return &offsets.CommitRequest{Version: 9, GroupID: "g", MemberEpoch: -1, Topics: []offsets.CommitTopic{{Name: "in", Partitions: []offsets.CommitPartition{
		{Partition: partition, Offset: offset, LeaderEpoch: 2, Metadata: &metadata}}}}}
}

// byTool is what a commit of a tool leaves.
func byTool(offset int64) offsets.Copied {
	return offsets.Copied{Offset: offset, LeaderEpoch: 2, Metadata: fmt.Sprint("m", offset)}
}

func (s *storeRig) committedBy(request *offsets.CommitRequest) {
	s.t.Helper()
	c, a := s.send(request)
	s.settles()
	if !a.done || c.Err != nil || codes(c)[0] != coordinator.None {
		s.t.Fatalf("%v %v %v", a.done, c.Err, codes(c))
	}
}

func in(partition int32) offsets.TopicPartition {
	return offsets.TopicPartition{Topic: "in", Partition: partition}
}

func (s *storeRig) logged() offsets.Copy { return offsets.CopyLogged(s.committed.Group("g")) }

func (s *storeRig) moves(to record.Store) (*Call, *answer) {
	return s.send(&MoveOffsetsRequest{GroupID: "g", To: to})
}

func moved(t *testing.T, c *Call, a *answer) MoveOffsetsResponse {
	t.Helper()
	if a.n != 1 || c.Err != nil {
		t.Fatalf("%d answers, %v", a.n, c.Err)
	}
	return *c.Response.(*MoveOffsetsResponse)
}
