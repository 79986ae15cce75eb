package gateway

import (
	"encoding/binary"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// settled is the client's answer to a request that the gateway itself repeated after an attempt with an unknown outcome.
// A leave or a deletion that finds nothing left to do was done by an earlier attempt; the client knows of one request
// only. A commit that is refused may have been stored by an earlier attempt, when its member might still commit: the client is told to
// ask again, since what is refused is not stored.
func settled(frame, answer []byte) []byte {
	h, body, err := protocol.ParseHeader(frame[4:])
	if err != nil {
		return answer
	}
	switch h.Key {
	case protocol.KeyStreamsGroupHeartbeat:
		return settledLeave(h, body, answer)
	case protocol.KeyDeleteGroups:
		return settledDelete(h, answer)
	case protocol.KeyOffsetCommit:
		resp := kmsg.NewPtrOffsetCommitResponse()
		return settledCommit(h, answer, resp, func(yield func(*int16)) {
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					yield(&resp.Topics[i].Partitions[j].ErrorCode)
				}
			}
		})
	case protocol.KeyTxnOffsetCommit:
		resp := kmsg.NewPtrTxnOffsetCommitResponse()
		return settledCommit(h, answer, resp, func(yield func(*int16)) {
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					yield(&resp.Topics[i].Partitions[j].ErrorCode)
				}
			}
		})
	}
	return answer
}

// settledCommit makes COORDINATOR_NOT_AVAILABLE of the codes that say that a member may not commit. codes are those of resp, once
// it is read.
func settledCommit(h protocol.Header, answer []byte, resp kmsg.Response, codes func(func(*int16))) []byte {
	_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
	if err != nil {
		return answer
	}
	resp.SetVersion(h.Version)
	if err := resp.ReadFrom(body); err != nil {
		return answer
	}
	changed := false
	codes(func(code *int16) {
		switch coordinator.Code(*code) {
		case coordinator.UnknownMemberID, coordinator.StaleMemberEpoch, coordinator.IllegalGeneration, coordinator.GroupIDNotFound:
			*code = int16(coordinator.CoordinatorNotAvailable)
			changed = true
		}
	})
	if !changed {
		return answer
	}
	return protocol.AppendResponse(nil, h, resp)
}

// heartbeatCodeAt is where the error code stands in a heartbeat's answer frame: behind the length, the correlation id, no
// tags, and the throttle time.
const heartbeatCodeAt = 4 + 4 + 1 + 4

// settles says whether [settled] may change the answer to a request of this kind that is no leave.
func settles(frame []byte) bool {
	if len(frame) < 4 {
		return false
	}
	h, _, err := protocol.ParseHeader(frame[4:])
	return err == nil && h.Key == protocol.KeyDeleteGroups
}

func settledLeave(h protocol.Header, body, answer []byte) []byte {
	if len(answer) < heartbeatCodeAt+2 {
		return answer
	}
	switch coordinator.Code(binary.BigEndian.Uint16(answer[heartbeatCodeAt:])) {
	case coordinator.UnknownMemberID, coordinator.GroupIDNotFound:
	case coordinator.FencedInstanceID: // another member took the place since
	default:
		return answer
	}
	var req streams.HeartbeatRequest
	if err := protocol.DecodeHeartbeat(h.Version, body, &req); err != nil || req.MemberEpoch >= streams.JoinEpoch {
		return answer
	}
	epoch := streams.LeaveEpoch
	if req.InstanceID != nil {
		epoch = req.MemberEpoch
	}
	return protocol.AppendHeartbeat(nil, h.Version, h.Correlation, &streams.HeartbeatResponse{
		MemberID: strings.Clone(req.MemberID), MemberEpoch: epoch, AcceptableRecoveryLag: -1, Status: []streams.Status{},
	})
}

func settledDelete(h protocol.Header, answer []byte) []byte {
	_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
	if err != nil {
		return answer
	}
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = h.Version
	if err := resp.ReadFrom(body); err != nil {
		return answer
	}
	changed := false
	for i := range resp.Groups {
		if g := &resp.Groups[i]; g.ErrorCode == int16(coordinator.GroupIDNotFound) {
			g.ErrorCode = 0
			changed = true
		}
	}
	if !changed {
		return answer
	}
	return protocol.AppendResponse(nil, h, resp)
}
