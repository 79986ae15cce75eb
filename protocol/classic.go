package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

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
