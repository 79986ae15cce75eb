package gateway

import (
	"hash/fnv"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

type fakeCoords struct {
	w    *world
	self int32
}

func (f fakeCoords) Self() int32 { return f.self }

func (f fakeCoords) Shards() uint32 { return testShards }

func (f fakeCoords) Shard(group string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, group)
	return h.Sum32() % testShards
}

func (f fakeCoords) Holds(group string) bool {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	_, ok := f.w.held[group]
	return (ok || f.w.stale[group]) && !f.w.blind[f.self]
}

func (f fakeCoords) Leader(s uint32) (int32, bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	n := f.w.leaders[s]
	return n, n > 0
}

func (f fakeCoords) LeaderChanged(uint32) <-chan struct{} {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.changed
}

func (f fakeCoords) LedSince(s uint32, _ time.Time) bool {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.leaders[s] == f.self
}

func (f fakeCoords) Position(uint32) uint64 { return 0 }

func (f fakeCoords) AwaitPosition(_ uint32, _ uint64, done func(bool)) { done(true) }

func (f fakeCoords) Groups(s uint32) iter.Seq[GroupListing] {
	return func(yield func(GroupListing) bool) {
		f.w.mu.Lock()
		defer f.w.mu.Unlock()
		for id := range f.w.held {
			if f.Shard(id) == s && !yield(GroupListing{ID: id, State: streams.StateStable}) {
				return
			}
		}
	}
}

func (f fakeCoords) Submit(s uint32, call *shard.Call) {
	f.w.mu.Lock()
	later, hangs := f.w.later, f.w.hangs[f.self]
	if hangs {
		f.w.hanging = append(f.w.hanging, call)
	}
	f.w.mu.Unlock()
	if hangs {
		return
	}
	if later {
		go f.answer(s, call)
		return
	}
	f.answer(s, call)
}

// LetGo answers what is held for the connection.
func (f fakeCoords) LetGo(_ uint32, holder *shard.Holder) {
	f.w.mu.Lock()
	call := f.w.hung[holder]
	delete(f.w.hung, holder)
	f.w.letGo++
	f.w.mu.Unlock()
	if call != nil {
		holder.End(call.HoldNumber)
		call.Done.CallDone(call)
	}
}

func (f fakeCoords) Gone(_ uint32, holder *shard.Holder, byClient bool) {
	f.w.mu.Lock()
	f.w.gone = append(f.w.gone, byClient)
	call := f.w.hung[holder]
	delete(f.w.hung, holder)
	f.w.mu.Unlock()
	if call != nil {
		holder.End(call.HoldNumber)
		call.Err = &coordinator.Error{Code: coordinator.NotCoordinator}
		call.Done.CallDone(call)
	}
}

// keep keeps the answer to a call back until it is let go.
func (w *world) keep(call *shard.Call) bool {
	r, ok := call.Request.(*streams.HeartbeatRequest)
	if !ok || !w.holds || call.Hold == nil || r.MemberEpoch <= 0 || call.Err != nil {
		return false
	}
	*r = streams.HeartbeatRequest{Version: r.Version, GroupID: strings.Clone(r.GroupID), MemberID: strings.Clone(r.MemberID)}
	call.Heartbeat.MemberID = r.MemberID
	if !call.Hold.Begin(call.HoldNumber) {
		return false
	}
	call.Done.(shard.Keeper).CallHeld(call)
	w.hung[call.Hold] = call
	return true
}

func (f fakeCoords) answer(s uint32, call *shard.Call) {
	f.w.mu.Lock()
	if _, ok := call.Request.(*streams.HeartbeatRequest); !ok {
		f.w.calls = append(f.w.calls, call.Request)
		f.w.clients[call.Request] = *call.Client
	}
	switch {
	case f.w.leaders[s] != f.self:
		call.Err = &coordinator.Error{Code: coordinator.NotCoordinator, NotStarted: true}
	case f.w.refuses[f.self] > 0:
		f.w.refuses[f.self]--
		call.Err = &coordinator.Error{Code: coordinator.NotCoordinator, NotStarted: true}
	default:
		f.w.decide(call)
		if f.w.unsure[f.self] > 0 {
			f.w.unsure[f.self]--
			call.Response, call.Err = nil, &coordinator.Error{Code: coordinator.NotCoordinator}
		}
	}
	held := f.w.keep(call)
	f.w.mu.Unlock()
	if !held {
		call.Done.CallDone(call)
	}
}

// decide answers a call as a shard that knows no rules.
func (w *world) decide(call *shard.Call) {
	switch r := call.Request.(type) {
	case *streams.HeartbeatRequest:
		g := w.held[r.GroupID]
		if g == nil {
			g = &fakeGroup{offsets: map[string]map[int32]int64{}, members: map[string]bool{}}
			w.held[string([]byte(r.GroupID))] = g
		}
		call.Response = &call.Heartbeat
		w.beats[string([]byte(r.MemberID))]++
		if r.MemberEpoch < 0 {
			call.Heartbeat = streams.HeartbeatResponse{MemberID: r.MemberID, MemberEpoch: r.MemberEpoch}
			if !g.members[r.MemberID] {
				call.Heartbeat = streams.HeartbeatResponse{Err: &coordinator.Error{Code: coordinator.UnknownMemberID}}
				if w.taken && r.InstanceID != nil {
					call.Heartbeat.Err = &coordinator.Error{Code: coordinator.FencedInstanceID}
				}
			}
			delete(g.members, r.MemberID)
			return
		}
		g.members[string([]byte(r.MemberID))] = true
		call.Heartbeat = streams.HeartbeatResponse{MemberID: r.MemberID, MemberEpoch: max(1, r.MemberEpoch), HeartbeatIntervalMs: 5000}
	case *shard.HoldsRequest:
		g := w.held[r.GroupID]
		call.Response = &shard.HoldsResponse{Held: g != nil, Empty: g != nil && len(g.members) == 0, Logs: w.logs}
	case *shard.VacateRequest:
		g := w.held[r.GroupID]
		if g != nil && len(g.members) == 0 {
			delete(w.held, r.GroupID)
			g = nil
		}
		call.Response = &shard.HoldsResponse{Held: g != nil, Logs: w.logs}
	case *shard.DescribeRequest:
		d := &streams.Description{GroupID: r.GroupID, State: streams.StateStable, AssignorName: "sticky", Epoch: 7}
		if w.held[r.GroupID] == nil {
			d = protocol.NotDescribed(r.GroupID)
		}
		call.Response = d
	case *shard.DeleteGroupRequest:
		resp := &shard.DeleteGroupResponse{}
		if w.held[r.GroupID] == nil {
			resp.Err = &coordinator.Error{Code: coordinator.GroupIDNotFound}
		}
		delete(w.held, r.GroupID)
		call.Response = resp
	case *offsets.CommitRequest:
		resp := &offsets.CommitResponse{}
		for _, t := range r.Topics {
			result := offsets.CommitTopicResult{Name: t.Name, ID: t.ID}
			for _, p := range t.Partitions {
				if g := w.held[r.GroupID]; g != nil {
					if g.offsets[t.Name] == nil {
						g.offsets[t.Name] = map[int32]int64{}
					}
					g.offsets[t.Name][p.Partition] = p.Offset
				}
				result.Partitions = append(result.Partitions, offsets.PartitionResult{Partition: p.Partition})
			}
			resp.Topics = append(resp.Topics, result)
		}
		call.Response = resp
	case *offsets.FetchRequest:
		resp := &offsets.FetchResponse{}
		if w.held[r.GroupID] == nil {
			call.Response = resp
			return
		}
		for topic, partitions := range w.held[r.GroupID].offsets {
			result := offsets.FetchTopicResult{Name: topic}
			for p, o := range partitions {
				result.Partitions = append(result.Partitions, offsets.FetchedOffset{Partition: p, Offset: o, LeaderEpoch: -1})
			}
			resp.Topics = append(resp.Topics, result)
		}
		call.Response = resp
	case *offsets.DeleteRequest:
		call.Response = &offsets.DeleteResponse{}
	}
}
