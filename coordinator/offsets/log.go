package offsets

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
)

// TopicPartition names a partition.
type TopicPartition = fsm.TopicPartition

// LogOffset is an offset of a partition's log, as the upstream tells it (ListOffsets, API key 2). Offset is -1 where there is none,
// or where Code says why it is not known.
type LogOffset struct {
	Offset int64
	Code   coordinator.Code
}

// What LogOffset is asked for in place of a time: the end of the log (the high watermark), and its start (KIP-79).
const (
	LogEnd   = -1
	LogStart = -2
)
