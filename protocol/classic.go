package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// ClassicJoin is what coordd looks at in a JoinGroupRequest.
type ClassicJoin struct{ GroupID, MemberID string }

// DecodeClassicJoin reads a JoinGroupRequest v0–9.
func DecodeClassicJoin(version int16, body []byte) (*ClassicJoin, error) {
	var k kmsg.JoinGroupRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	return &ClassicJoin{GroupID: k.Group, MemberID: k.MemberID}, nil
}

// Converts says whether the join may take over an own streams group: only a new member, and only an empty group. The
// streams group is deleted then, its offsets stay, and the join goes upstream.
func (j *ClassicJoin) Converts(empty bool) bool { return empty && j.MemberID == "" }

// AppendClassicRefusal appends the frame of the answer to a request of the classic protocol (JoinGroup, SyncGroup,
// Heartbeat, LeaveGroup) or of another group type (ConsumerGroupHeartbeat, ShareGroupHeartbeat) that names an own
// streams group. empty says that the group has no members.
func AppendClassicRefusal(dst []byte, h Header, body []byte, empty bool) ([]byte, error) {
	code := coordinator.UnknownMemberID
	switch h.Key {
	case KeyLeaveGroup:
		return appendLeaveRefusal(dst, h, body)
	case KeyJoinGroup:
		if !empty {
			code = coordinator.InconsistentGroupProtocol
		}
	case KeyConsumerGroupHeartbeat, KeyShareGroupHeartbeat:
		code = coordinator.GroupIDNotFound
	case KeySyncGroup, KeyHeartbeat:
	default:
		return dst, ErrMalformed
	}
	message := ""
	if code == coordinator.GroupIDNotFound {
		id, _ := GroupID(h.Key, h.Version, body)
		message = "Group " + id + " is a streams group."
	}
	return AppendError(dst, h, body, code, message)
}

// appendLeaveRefusal answers each member that wants to leave with UNKNOWN_MEMBER_ID. Below v3 a request has one member,
// whose code is the answer's.
func appendLeaveRefusal(dst []byte, h Header, body []byte) ([]byte, error) {
	var req kmsg.LeaveGroupRequest
	if err := decode(&req, h.Version, body); err != nil {
		return dst, err
	}
	k := kmsg.NewPtrLeaveGroupResponse()
	if h.Version < 3 {
		k.ErrorCode = int16(coordinator.UnknownMemberID)
	}
	for _, m := range req.Members {
		k.Members = append(k.Members, kmsg.LeaveGroupResponseMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ErrorCode: int16(coordinator.UnknownMemberID)})
	}
	return AppendResponse(dst, h, k), nil
}
