package server

import (
	"context"
	"sync"

	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/web"
)

// Logs tells offsets of partitions' logs: see upstream.Client.LogOffsets.
type Logs interface {
	LogOffsets(ctx context.Context, at int64, partitions map[string][]int32) map[offsets.TopicPartition]offsets.LogOffset
}

// logOffsets asks at once for the offsets of several times, or for ends and starts, of the same partitions; the answers are in the
// order of the times.
func (n *Node) logOffsets(ctx context.Context, partitions map[string][]int32, ats ...int64) []map[offsets.TopicPartition]offsets.LogOffset {
	found := make([]map[offsets.TopicPartition]offsets.LogOffset, len(ats))
	var wg sync.WaitGroup
	for i, at := range ats {
		wg.Go(func() { found[i] = n.parts.Logs.LogOffsets(ctx, at, partitions) })
	}
	wg.Wait()
	return found
}

// lagOf is how many offsets are left from a committed one to the end of the log, as Kafka's tools count them; -1 where one of the
// two is not known.
func lagOf(committed, end int64) int64 {
	if committed < 0 || end < 0 {
		return web.NoOffset
	}
	return max(0, end-committed)
}

// lagSum sums lags as far as they are known.
type lagSum struct {
	lag     int64
	known   int // partitions
	unknown int // partitions
}

func (s *lagSum) add(lag int64) {
	s.known++
	s.lag += lag
}

// total is the sum, -1 where no lag is known, and how many partitions it is without.
func (s *lagSum) total() (lag int64, unknown int) {
	if s.known == 0 {
		return web.NoOffset, s.unknown
	}
	return s.lag, s.unknown
}
