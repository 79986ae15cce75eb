package gateway

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/coordd/coordd/coordinator"
)

// The inner hop takes a group request from the node that a client came to, to the node that leads the group's shard.
// The dialing node says hopVersion, and both sides then send frames of a length (uint32) and
//
//	request:  id uint64, kind byte, asked int64, client id, host, principal (each uint16 length and bytes), payload
//	answer:   id uint64, clock int64, error code int16, not started byte, payload
//
// in any order of answers. The answering node begins with an answer of id 0, and answers a hopPing so; clock is its
// [Gateway.now] in nanoseconds, and asked when the request was read from the client by that clock, or somewhat earlier: see
// [peerClock]. What is too old then is refused, since its client may have given it up and said something else elsewhere,
// while it waited on a connection that was cut or in a process that stood still. The payload of kind hopKafka is a Kafka request frame about one group, its answer a Kafka
// answer frame, both with their length prefixes; that of hopHolds and hopVacate is a group id, the answer one byte, a
// [holding]. That of hopBeat is the number of a client connection (uint64), that of a heartbeat on it (uint64) and the
// heartbeat's Kafka request frame; the answer, a Kafka answer frame, may be held back. hopLetGo, hopGone and hopEnded have
// both numbers alone and no answer: the heartbeats up to that number must be answered, the client has ended the connection,
// or the node has.
// That of hopAwait is a position in the system shard's log (uint64); the empty answer comes when the node acts by it.
// That of hopPosition is the number of a shard (uint32) that the answering node leads; the answer is a position of the shard's
// log (uint64) up to which all is committed that was acknowledged when the question came.
const (
	hopVersion = 3

	hopKafka  byte = 0
	hopHolds  byte = 1
	hopVacate byte = 2
	hopBeat   byte = 3
	hopLetGo  byte = 4
	hopGone   byte = 5
	hopAwait  byte = 6
	hopEnded  byte = 7
	hopPing   byte = 8

	hopPosition byte = 9
)

// hopRequestHead and hopAnswerHead are the sizes of what stands at fixed places in a frame.
const (
	hopRequestHead = 8 + 1 + 8
	hopAnswerHead  = 8 + 8 + 2 + 1
)

var errHop = errors.New("malformed frame on an inner hop")

type hopRequest struct {
	id      uint64
	kind    byte
	asked   time.Duration // by the clock of the node that answers; 0 where it does not matter
	client  coordinator.Client
	payload []byte
}

// appendHopRequest appends a whole frame. Names longer than 65,535 bytes do not come from a Kafka header.
func appendHopRequest(dst []byte, r *hopRequest) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, r.id)
	dst = append(dst, r.kind)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.asked))
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
	if len(b) < hopRequestHead {
		return r, errHop
	}
	r.id, r.kind, r.asked = binary.BigEndian.Uint64(b), b[8], time.Duration(binary.BigEndian.Uint64(b[9:]))
	b = b[hopRequestHead:]
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

// hopAnswer is an answer without an error (code 0) or with one.
type hopAnswer struct {
	id         uint64
	clock      time.Duration
	code       coordinator.Code
	notStarted bool
	payload    []byte
}

// failure is the error of an answer; nil for none.
func (a *hopAnswer) failure() *coordinator.Error {
	if a.code == coordinator.None {
		return nil
	}
	return &coordinator.Error{Code: a.code, NotStarted: a.notStarted}
}

// appendHopAnswer appends a whole frame.
func appendHopAnswer(dst []byte, a *hopAnswer) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(hopAnswerHead+len(a.payload)))
	dst = binary.BigEndian.AppendUint64(dst, a.id)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.clock))
	dst = binary.BigEndian.AppendUint16(dst, uint16(a.code))
	notStarted := byte(0)
	if a.notStarted {
		notStarted = 1
	}
	return append(append(dst, notStarted), a.payload...)
}

// parseHopAnswer reads a frame without its length; the payload aliases it.
func parseHopAnswer(b []byte) (a hopAnswer, err error) {
	if len(b) < hopAnswerHead {
		return a, errHop
	}
	return hopAnswer{
		id: binary.BigEndian.Uint64(b), clock: time.Duration(binary.BigEndian.Uint64(b[8:])),
		code: coordinator.Code(binary.BigEndian.Uint16(b[16:])), notStarted: b[18] != 0, payload: b[hopAnswerHead:],
	}, nil
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
