package gateway

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/coordd/coordd/coordinator"
)

// The inner hop takes a group request from the node that a client came to, to the node that leads the group's shard.
// The dialing node says hopVersion, and both sides then send frames of a length (uint32) and
//
//	request:  id uint64, kind byte, client id, host, principal (each uint16 length and bytes), payload
//	answer:   id uint64, error code int16, payload
//
// in any order of answers. The payload of kind hopKafka is a Kafka request frame about one group, its answer a Kafka
// answer frame, both with their length prefixes; that of hopHolds and hopVacate is a group id, the answer one byte, a
// [holding]. That of hopBeat is the number of a client connection (uint64), that of a heartbeat on it (uint64) and the
// heartbeat's Kafka request frame; the answer, a Kafka answer frame, may be held back. hopLetGo, hopGone and hopEnded have
// both numbers alone and no answer: the heartbeats up to that number must be answered, the client has ended the connection,
// or the node has.
// That of hopAwait is a position in the system shard's log (uint64); the empty answer comes when the node acts by it.
const (
	hopVersion = 2

	hopKafka  byte = 0
	hopHolds  byte = 1
	hopVacate byte = 2
	hopBeat   byte = 3
	hopLetGo  byte = 4
	hopGone   byte = 5
	hopAwait  byte = 6
	hopEnded  byte = 7
)

var errHop = errors.New("malformed frame on an inner hop")

type hopRequest struct {
	id      uint64
	kind    byte
	client  coordinator.Client
	payload []byte
}

// appendHopRequest appends a whole frame. Names longer than 65,535 bytes do not come from a Kafka header.
func appendHopRequest(dst []byte, r *hopRequest) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, r.id)
	dst = append(dst, r.kind)
	for _, s := range [...]string{r.client.ID, r.client.Host, r.client.Principal} {
		s = s[:min(len(s), 1<<16-1)]
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
		dst = append(dst, s...)
	}
	dst = append(dst, r.payload...)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// parseHopRequest reads a frame without its length; the payload aliases it.
func parseHopRequest(b []byte) (r hopRequest, err error) {
	if len(b) < 9 {
		return r, errHop
	}
	r.id, r.kind = binary.BigEndian.Uint64(b), b[8]
	b = b[9:]
	for _, s := range [...]*string{&r.client.ID, &r.client.Host, &r.client.Principal} {
		if len(b) < 2 {
			return r, errHop
		}
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			return r, errHop
		}
		*s = string(b[2 : 2+n])
		b = b[2+n:]
	}
	r.payload = b
	switch r.kind {
	case hopBeat:
		if len(b) < holdSize {
			return r, errHop
		}
		b = b[holdSize:]
	case hopLetGo, hopGone, hopEnded:
		if len(b) != holdSize {
			return r, errHop
		}
	}
	if (r.kind == hopKafka || r.kind == hopBeat) && (len(b) < 4 || int(binary.BigEndian.Uint32(b)) != len(b)-4) {
		return r, errHop
	}
	return r, nil
}

// appendHopAnswer appends a whole frame.
func appendHopAnswer(dst []byte, id uint64, code coordinator.Code, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(10+len(payload)))
	dst = binary.BigEndian.AppendUint64(dst, id)
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, payload...)
}

// parseHopAnswer reads a frame without its length; the payload aliases it.
func parseHopAnswer(b []byte) (id uint64, code coordinator.Code, payload []byte, err error) {
	if len(b) < 10 {
		return 0, 0, nil, errHop
	}
	return binary.BigEndian.Uint64(b), coordinator.Code(binary.BigEndian.Uint16(b[8:])), b[10:], nil
}

// readHopFrame reads one frame without its length into memory of its own.
func readHopFrame(r io.Reader, limit int) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(prefix[:]))
	if size > limit {
		return nil, errHop
	}
	return readGrowing(r, nil, size)
}
