package raftnode

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// The library sends a peer's next heartbeat only when the last one was answered. So one answer that is late, because
// the network lost a packet or because a busy machine lets the thread wait that polls the network, silences a leader
// that is otherwise well, and its followers elect another. Hence a heartbeat that is not answered soon is sent again,
// on another connection, and the first answer counts.
const (
	// repeatsPerTimeout is how many heartbeats an unanswered one turns into within a heartbeat timeout.
	repeatsPerTimeout = 5
	// maxBeats bounds the heartbeats of a group that wait for answers of one peer; each occupies a connection.
	maxBeats = 4
)

// beats sends the heartbeats of one group to one peer.
type beats struct{ waiting atomic.Int32 }

// isHeartbeat tells the library's heartbeats as the receiver does.
func isHeartbeat(r *raft.AppendEntriesRequest) bool {
	return r.PrevLogEntry == 0 && r.PrevLogTerm == 0 && len(r.Entries) == 0 && r.LeaderCommitIndex == 0
}

type beatAnswer struct {
	resp raft.AppendEntriesResponse
	err  error
}

// send calls request until one call is answered, beginning another one after each pause while there is no answer and
// room for one more. It returns the first answer, or the last error once no call is left, or errMuted at once when cut
// is closed. Calls that are left then end by themselves.
func (b *beats) send(pause time.Duration, cut <-chan struct{}, request func(*raft.AppendEntriesResponse) error) (*raft.AppendEntriesResponse, error) {
	answers := make(chan *beatAnswer, maxBeats)
	begin := func() {
		b.waiting.Add(1)
		go func() {
			a := new(beatAnswer)
			a.err = request(&a.resp)
			b.waiting.Add(-1)
			answers <- a
		}()
	}
	begin()
	again := time.NewTimer(pause)
	defer again.Stop()
	for begun, left := 1, 1; ; {
		select {
		case a := <-answers:
			if left--; a.err == nil {
				return &a.resp, nil
			} else if left == 0 {
				return nil, a.err
			}
		case <-again.C:
			if begun < maxBeats && b.waiting.Load() < maxBeats {
				begin()
				begun++
				left++
			}
			again.Reset(pause)
		case <-cut:
			return nil, errMuted
		}
	}
}
