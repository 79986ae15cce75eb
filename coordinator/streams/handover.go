package streams

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// A hand-over is what the leader of a shard tells the next one of a group's soft state in a planned transfer, so that
// timers and endpoint epochs go on instead of starting anew. Times go as what is left, or has passed, in milliseconds:
// the clocks of two nodes differ. Losing it is harmless; the next leader then does what it does after a failover.
//
// The encoding of a group is, with unsigned varints and strings as length and bytes:
//
//	group id
//	endpoint epoch, flags (1: endpoints stale, 2: torn, 4: copies of tasks follow the members)
//	initial delay, due assignment: what is left + 1, or 0 for none
//	epoch of the shorter interval, and since when it is told + 1, or 0
//	number of members, and for each:
//	  id, session, rebalance and disconnect time left + 1 or 0, epoch of the rebalance timer,
//	  time since it was told tasks + 1 or 0, repeats, hold cuts,
//	  task offsets, task end offsets: number + 1 or 0 for none, and for each subtopology, partition, offset (zig-zag)
//	copies, where the flags say so: number of members, and for each:
//	  id, 1 when its last heartbeat was of version 0, else 0,
//	  number of warm-ups, and for each subtopology, partition, time since nothing more is known of it + 1, 1 when it counts
//	  as caught up, else 0, offset that was reported of it then
//	  number of tasks that it has to restore, and for each subtopology, partition, offset before

// Handover is the decoded hand-over of one group.
type Handover struct {
	Group   string
	soft    Soft // times are relative to the hand-over; only what is handed over is set
	members []memberHandover
	copies  []copiesHandover
}

type memberHandover struct {
	id string
	SoftMember
}

const (
	flagEndpointsStale = 1
	flagTorn           = 2
	flagCopies         = 4
)

// minAfterTransferMs is what every deadline has left at least after a transfer: in the meantime no heartbeat was answered.
const minAfterTransferMs = 1000

// AppendHandover appends the hand-over of a group, with the members' task offsets or without.
func AppendHandover(b []byte, id string, s *Soft, now int64, offsets bool) []byte {
	b = appendString(b, id)
	flags := uint64(0)
	if s.EndpointsStale {
		flags |= flagEndpointsStale
	}
	if s.Torn {
		flags |= flagTorn
	}
	told := s.toldCopies()
	if len(told) > 0 {
		flags |= flagCopies
	}
	b = binary.AppendUvarint(b, uint64(uint32(s.EndpointEpoch)))
	b = binary.AppendUvarint(b, flags)
	b = appendLeft(b, s.InitialDelayUntil, now)
	b = appendLeft(b, s.AssignmentDue, now)
	b = binary.AppendUvarint(b, uint64(uint32(s.fastEpoch)))
	b = appendPassed(b, s.fastSince, now)
	b = binary.AppendUvarint(b, uint64(len(s.Members)))
	for _, id := range slices.Sorted(maps.Keys(s.Members)) {
		m := s.Members[id]
		b = appendString(b, id)
		b = appendLeft(b, m.SessionDeadline, now)
		b = appendLeft(b, m.RebalanceDeadline, now)
		b = appendLeft(b, m.DisconnectDeadline, now)
		b = binary.AppendUvarint(b, uint64(uint32(m.RebalanceEpoch)))
		b = appendPassed(b, m.toldAt, now)
		b = binary.AppendUvarint(b, uint64(max(0, m.repeats)))
		b = binary.AppendUvarint(b, uint64(m.HoldCuts))
		if !offsets {
			b = append(b, 0, 0)
			continue
		}
		b = appendOffsets(b, m.TaskOffsets)
		b = appendOffsets(b, m.TaskEndOffsets)
	}
	if len(told) > 0 {
		b = s.appendCopies(b, told, now)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendLeft writes the time until a deadline.
func appendLeft(b []byte, deadline, now int64) []byte {
	if deadline == 0 {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(max(0, deadline-now))+1)
}

// appendPassed writes the time since something.
func appendPassed(b []byte, since, now int64) []byte {
	if since == 0 {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(max(0, now-since))+1)
}

func appendOffsets(b []byte, list []TaskOffset) []byte {
	if list == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(list))+1)
	for i := range list {
		b = appendString(b, list[i].Subtopology)
		b = binary.AppendUvarint(b, uint64(uint32(list[i].Partition)))
		b = binary.AppendVarint(b, list[i].Offset)
	}
	return b
}

// ErrHandover says that bytes are no hand-over.
var ErrHandover = errors.New("malformed hand-over of soft state")

// DecodeHandover decodes the hand-over of one group and returns what follows it. The result shares no memory with b.
func DecodeHandover(b []byte) (h *Handover, rest []byte, err error) {
	r := handoverReader{b: b}
	h = &Handover{Group: r.string()}
	h.soft.EndpointEpoch = r.int32()
	flags := r.uvarint()
	h.soft.EndpointsStale, h.soft.Torn = flags&flagEndpointsStale != 0, flags&flagTorn != 0
	h.soft.InitialDelayUntil, h.soft.AssignmentDue = r.ms(), r.ms()
	h.soft.fastEpoch, h.soft.fastSince = r.int32(), r.ms()
	n := r.count(minMemberHandover)
	h.members = make([]memberHandover, n)
	for i := range h.members {
		m := &h.members[i]
		m.id = r.string()
		m.SessionDeadline, m.RebalanceDeadline, m.DisconnectDeadline = r.ms(), r.ms(), r.ms()
		m.RebalanceEpoch = r.int32()
		m.toldAt = r.ms()
		m.repeats = int32(min(r.uvarint(), maxRepeats))
		m.HoldCuts = uint8(min(r.uvarint(), maxHoldCuts))
		m.TaskOffsets, m.TaskEndOffsets = r.offsets(), r.offsets()
	}
	if flags&flagCopies != 0 {
		h.copies = r.copies()
	}
	if r.failed {
		return nil, nil, ErrHandover
	}
	return h, r.b, nil
}

// Smallest encodings of a member and of an offset.
const (
	minMemberHandover = 10
	minOffsetHandover = 3
)

// handoverReader reads values from the front of b. After a failure all that it reads is zero.
type handoverReader struct {
	b      []byte
	failed bool
}

func (r *handoverReader) fail() { r.b, r.failed = nil, true }

func (r *handoverReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *handoverReader) int32() int32 { return int32(min(r.uvarint(), math.MaxInt32)) }

// ms reads a time + 1, or 0 for none; the smallest time is 1.
func (r *handoverReader) ms() int64 { return int64(min(r.uvarint(), math.MaxInt32)) }

// count reads the number of elements of at least size bytes that follow.
func (r *handoverReader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *handoverReader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *handoverReader) offsets() []TaskOffset {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(r.b)/minOffsetHandover) {
		r.fail()
		return nil
	}
	list := make([]TaskOffset, n)
	for i := range list {
		list[i].Task = topology.Task{Subtopology: r.string(), Partition: r.int32()}
		offset, size := binary.Varint(r.b)
		if size <= 0 {
			r.fail()
			return nil
		}
		list[i].Offset, r.b = offset, r.b[size:]
		if i > 0 && list[i-1].Compare(list[i].Task) >= 0 {
			r.fail()
			return nil
		}
	}
	return list
}

// Inherit lets the soft state of a group that a new leader found in its log go on where the old leader's was at the time
// at of the hand-over. Members that are not there any more are left out, and those that the hand-over lacks stay as they
// are. Nobody has less left than a transfer may take.
func (s *Soft) Inherit(h *Handover, g *fsm.Group, at, now int64) {
	until := func(left int64) int64 {
		if left == 0 {
			return 0
		}
		return at + left - 1
	}
	since := func(passed int64) int64 {
		if passed == 0 {
			return 0
		}
		return at - passed + 1
	}
	least := func(deadline int64) int64 {
		if deadline == 0 {
			return 0
		}
		return max(until(deadline), now+minAfterTransferMs)
	}
	s.EndpointEpoch, s.EndpointsStale, s.Torn = h.soft.EndpointEpoch, h.soft.EndpointsStale, h.soft.Torn
	s.InitialDelayUntil, s.AssignmentDue = until(h.soft.InitialDelayUntil), until(h.soft.AssignmentDue)
	s.fastEpoch, s.fastSince = h.soft.fastEpoch, since(h.soft.fastSince)
	for i := range h.members {
		from := &h.members[i]
		m := s.Members[from.id]
		if m == nil || g.Member(from.id) == nil {
			continue
		}
		if from.SessionDeadline != 0 {
			m.SessionDeadline = least(from.SessionDeadline)
		}
		m.RebalanceDeadline, m.RebalanceEpoch = least(from.RebalanceDeadline), from.RebalanceEpoch
		m.DisconnectDeadline = least(from.DisconnectDeadline)
		m.toldAt, m.repeats, m.HoldCuts = since(from.toldAt), from.repeats, from.HoldCuts
		m.TaskOffsets, m.TaskEndOffsets = slices.Clip(from.TaskOffsets), slices.Clip(from.TaskEndOffsets)
	}
	s.inheritCopies(h, g, since)
}
