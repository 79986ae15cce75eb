package shard

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/streams"
)

// Call is one request to a shard and, later, its answer. A Call belongs to the machine from Submit until Done.
type Call struct {
	// Client is who asks; it must stay valid until Done.
	Client *coordinator.Client
	// Request is one of *streams.HeartbeatRequest, *DescribeRequest, *ProofRequest, *HoldsRequest, *VacateRequest, *DeleteGroupRequest,
	// *AbortTopologyRequest, *PlanRequest, *AdoptRequest, *MoveOffsetsRequest, *offsets.CommitRequest, *offsets.FetchRequest and *offsets.DeleteRequest.
	Request any
	// Response is set before Done: *streams.HeartbeatResponse (pointing to Heartbeat), *streams.Description,
	// nil (to a ProofRequest), *HoldsResponse (also to a VacateRequest), *DeleteGroupResponse, *AbortTopologyResponse, *PlanResponse, *AdoptResponse, *MoveOffsetsResponse, *offsets.CommitResponse, *offsets.FetchResponse, *offsets.DeleteResponse.
	Response any
	// Err is set instead of Response when the shard could not take the call: NOT_COORDINATOR,
	// COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS, whatever the kind of request. Its NotStarted says whether
	// the call has surely changed nothing.
	Err *coordinator.Error
	// AgeMs is how long before Submit a heartbeat was read from its client, at the most; 0 when that was just now. It says
	// nothing of other requests.
	AgeMs int64
	// Heartbeat is the room for a heartbeat's answer, so that a steady heartbeat allocates nothing.
	Heartbeat streams.HeartbeatResponse
	// Hold is the connection over which a heartbeat may be held, and HoldNumber its number there; nil where it may not be.
	Hold       *Holder
	HoldNumber uint64
	// Done is told once, on any goroutine and without locks; it must not block.
	Done Completer

	// free says that the upstream was asked about the group's id on behalf of this call, and has nothing against it.
	free bool
	// found is what the upstream has under it, here whether the group was here when it was asked, and asked is Machine.changes then.
	found coordinator.ForeignGroup
	here  bool
	asked uint64

	// What the machine notes on a heartbeat: when it came, that its answer is to be held when it is committed, that it was
	// held once, and that it is being answered and not to be held any more.
	arrived                      int64
	holdable, wasHeld, answering bool
	// acknowledged says that the heartbeat answers for what its member was told last.
	acknowledged bool
	// sighted is the time after which the topics must have been asked for to decide the call, and unreadSince since when it
	// has waited for that; 0 when it does not.
	sighted, unreadSince int64
}

// WasHeld says whether the answer to a heartbeat was held back. What its request said is not kept, so that it cannot be
// given to another node.
func (c *Call) WasHeld() bool { return c.wasHeld }

// Completer is told when a call is answered.
type Completer interface{ CallDone(*Call) }

// Keeper is a [Completer] that wants to know when a heartbeat's answer is held: nothing that the request aliased is
// looked at any more from then on. It is called at most once for a call, before Done, and must not block.
type Keeper interface{ CallHeld(*Call) }

// DescribeRequest asks for one group (StreamsGroupDescribe).
type DescribeRequest struct{ GroupID string }

// ProofRequest asks for nothing but the proof that the shard is led here: its host's state holds all that was acknowledged.
type ProofRequest struct{}

// HoldsRequest asks whether the shard holds a group; only the shard's leader may say that it does not.
type HoldsRequest struct{ GroupID string }

// VacateRequest asks to make room for a classic group (JoinGroup of a new member): a group without members is deleted,
// its offsets stay.
type VacateRequest struct{ GroupID string }

// HoldsResponse answers a HoldsRequest, and a VacateRequest by how things stand then.
type HoldsResponse struct {
	Held bool
	// Empty says that the group is held and has no members.
	Empty bool
	// Logs says that a group that is made here may keep its offsets in the log: what commits to the id must come here.
	Logs bool
}

// DeleteGroupRequest asks to delete an empty group (DeleteGroups).
type DeleteGroupRequest struct {
	GroupID string
	expired bool // nobody asks: it is for its age
}

// DeleteGroupResponse answers a DeleteGroupRequest.
type DeleteGroupResponse struct{ Err *coordinator.Error }

// GroupID is the group that a request of a Call is about.
func GroupID(request any) string {
	switch r := request.(type) {
	case *streams.HeartbeatRequest:
		return r.GroupID
	case *DescribeRequest:
		return r.GroupID
	case *HoldsRequest:
		return r.GroupID
	case *VacateRequest:
		return r.GroupID
	case *DeleteGroupRequest:
		return r.GroupID
	case *AbortTopologyRequest:
		return r.GroupID
	case *PlanRequest:
		return r.GroupID
	case *AdoptRequest:
		return r.GroupID
	case *MoveOffsetsRequest:
		return r.GroupID
	case *offsets.CommitRequest:
		return r.GroupID
	case *offsets.FetchRequest:
		return r.GroupID
	case *offsets.DeleteRequest:
		return r.GroupID
	}
	return ""
}
