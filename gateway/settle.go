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
// only.
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
	}
	return answer
}

// ofOffsets says whether a request frame, whole with its length prefix, changes committed offsets. What it says is the newest when its
// client says it: a repeat, some time later, would put back what a later commit replaced. Such a request is not repeated while an attempt may
// have done it; the client does that, which knows what it has said since, and whose repeat is a request of its own.
func ofOffsets(frame []byte) bool {
	if len(frame) < 4 {
		return false
	}
	h, _, err := protocol.ParseHeader(frame[4:])
	return err == nil && (h.Key == protocol.KeyOffsetCommit || h.Key == protocol.KeyTxnOffsetCommit || h.Key == protocol.KeyOffsetDelete)
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
