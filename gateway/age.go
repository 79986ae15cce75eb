package gateway

import (
	"time"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// freshFor is how old a request may be when a shard takes it: longer than one waits for a leader, shorter than clients wait
// for an answer. A client that has given a request up may have said something else meanwhile at another node: a join would
// count as "owns nothing" for tasks that its member runs by now. Within that time, and for leaves, the shard looks whether
// the member has been heard since; see [shard.Call].
const freshFor = 2 * time.Second

// tooOld refuses what would be taken too late. The client, where it still waits, may ask again.
var tooOld = &coordinator.Error{Code: coordinator.CoordinatorNotAvailable, NotStarted: true, Message: "the request waited too long on its way to the leader"}

// clockSlack is by how much a request may seem to have been read in the future: clocks of two nodes do not run alike.
const clockSlack = 250 * time.Millisecond

// ageMs is an age as a shard takes it: never too short.
func ageMs(age time.Duration) int64 {
	return int64((max(0, age) + time.Millisecond - 1) / time.Millisecond)
}

// leaves says whether a request frame, whole with its length prefix, is the leave of a member. A leave is not too old: the
// member may be unable to say it again, and whether it came back since is what the shard looks at.
func leaves(frame []byte) bool {
	if len(frame) < 4 {
		return false
	}
	h, body, err := protocol.ParseHeader(frame[4:])
	if err != nil || h.Key != protocol.KeyStreamsGroupHeartbeat {
		return false
	}
	var req streams.HeartbeatRequest
	return protocol.DecodeHeartbeat(h.Version, body, &req) == nil && req.MemberEpoch < streams.JoinEpoch
}

// peerClock tells the time by the clock of another node, or an earlier one: every answer says what its clock showed before
// the answer came, and the best of the answers lately counts. Neither clock may be set; both are monotonic. Its error is the
// shortest time that an answer took, whatever the others took.
type peerClock struct {
	ahead, aheadBefore time.Duration // by how much the other clock is ahead at least: in this period, and in the one before
	began              time.Duration // the period, by our clock
	known              bool
}

// clockPeriod bounds for how long an answer counts, since clocks drift apart.
const clockPeriod = 30 * time.Second

// heard takes what the other clock showed some time before now.
func (p *peerClock) heard(theirs, now time.Duration) {
	ahead := theirs - now
	switch {
	case !p.known || now-p.began > 2*clockPeriod:
		*p = peerClock{ahead: ahead, aheadBefore: ahead, began: now, known: true}
	case now-p.began > clockPeriod:
		p.ahead, p.aheadBefore, p.began = ahead, p.ahead, now
	default:
		p.ahead = max(p.ahead, ahead)
	}
}

// at is what the other clock showed at a time of ours, or less.
func (p *peerClock) at(ours time.Duration) time.Duration { return ours + max(p.ahead, p.aheadBefore) }
