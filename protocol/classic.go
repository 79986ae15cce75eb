package protocol

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// AppendTypeRefusal appends the frame of the answer to a request of the classic protocol (JoinGroup, SyncGroup, Heartbeat,
// LeaveGroup) or of another group type (ConsumerGroupHeartbeat, ShareGroupHeartbeat and those on a share group's offsets)
// that names an own streams group, as Kafka's GroupMetadataManager answers it. empty says that the group has no members: a
// JoinGroup without a member id takes such a group's place and must not come here.
func AppendTypeRefusal(dst []byte, h Header, body []byte, empty bool) ([]byte, error) {
	switch h.Key {
	case KeyLeaveGroup:
		return appendLeaveRefusal(dst, h, body)
	case KeyJoinGroup:
		return appendJoinRefusal(dst, h, body, empty)
	case KeySyncGroup, KeyHeartbeat:
		return AppendError(dst, h, body, coordinator.UnknownMemberID, "")
	}
	id, ok := GroupID(h.Key, h.Version, body)
	if !ok {
		return dst, ErrMalformed
	}
	return AppendError(dst, h, body, coordinator.GroupIDNotFound, otherType(h.Key, id))
}

// otherType says that a group is not of the type that requests of this API are about.
func otherType(key int16, id string) string {
	typ := "share"
	switch key {
	case KeyDescribeGroups:
		typ = "classic"
	case KeyConsumerGroupHeartbeat, KeyConsumerGroupDescribe:
		typ = "consumer"
	}
	return fmt.Sprintf("Group %s is not a %s group.", id, typ)
}

// JoinsAnew says whether a JoinGroup request comes from a member without an id, which makes a group where there is none.
func JoinsAnew(version int16, body []byte) (bool, error) {
	var req kmsg.JoinGroupRequest
	err := decode(&req, version, body)
	return req.MemberID == "", err
}

// CommitsWithoutMember says whether a request is an OffsetCommit or TxnOffsetCommit that names no member, of a version that is
// [Supported]. One that is malformed is none.
func CommitsWithoutMember(h Header, body []byte) bool {
	if !Supported(h.Key, h.Version) {
		return false
	}
	switch h.Key {
	case KeyOffsetCommit:
		var req kmsg.OffsetCommitRequest
		return decode(&req, h.Version, body) == nil && req.Generation < 0
	case KeyTxnOffsetCommit:
		var req kmsg.TxnOffsetCommitRequest
		return decode(&req, h.Version, body) == nil && req.Generation < 0
	}
	return false
}

func appendJoinRefusal(dst []byte, h Header, body []byte, empty bool) ([]byte, error) {
	var req kmsg.JoinGroupRequest
	if err := decode(&req, h.Version, body); err != nil {
		return dst, err
	}
	k := kmsg.NewPtrJoinGroupResponse()
	k.ErrorCode = int16(coordinator.InconsistentGroupProtocol)
	if empty {
		k.ErrorCode, k.MemberID = int16(coordinator.UnknownMemberID), req.MemberID
	}
	return AppendResponse(dst, h, k), nil
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
