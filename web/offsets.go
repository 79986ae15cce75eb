package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Offsets is how the committed offsets of a group are shown, and how operators change them. Errors are a [Refusal] wherever it
// is known what to do.
type Offsets interface {
	// Offsets asks the leader of the group's shard, which knows what is committed.
	Offsets(ctx context.Context, r OffsetsRequest) (GroupOffsets, error)
	// LocalOffsets is Offsets where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalOffsets(ctx context.Context, r OffsetsRequest) (GroupOffsets, error)
	// ResetOffsets gives a group without members other offsets.
	ResetOffsets(ctx context.Context, r ResetRequest) (ResetDone, error)
	// LocalResetOffsets is ResetOffsets where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalResetOffsets(ctx context.Context, r ResetRequest) (ResetDone, error)
	// MoveOffsets has a group without members keep its offsets in another store. It can be repeated.
	MoveOffsets(ctx context.Context, r MoveOffsetsRequest) (OffsetsMoved, error)
	// LocalMoveOffsets is MoveOffsets where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalMoveOffsets(ctx context.Context, r MoveOffsetsRequest) (OffsetsMoved, error)
}

// OffsetsRequest asks for the offsets of a group.
type OffsetsRequest struct {
	Group string
	// TimeMs asks also for the first offsets of that time or later, in milliseconds since 1970; -1 does not.
	TimeMs int64
}

// NoOffset stands for an offset that is not there, or not known.
const NoOffset = -1

// GroupOffsets are the offsets of a group: of every partition that its tasks read, and of others with a committed offset.
type GroupOffsets struct {
	GroupSummary
	// Store is where the committed offsets are kept: "upstream" or "raft".
	Store string `json:"store"`
	// Lag is the sum of those that are known, -1 where none is. LagUnknown counts the partitions that it is without, as they have no
	// committed offset or their end is not known.
	Lag        int64 `json:"lag"`
	LagUnknown int   `json:"lagUnknown"`
	// Stateful says that tasks of the group have state.
	Stateful bool `json:"stateful"`
	// Notes say what is not known, for people.
	Notes []string `json:"notes"`
	// Partitions are by subtopology and topic; what no task reads comes last.
	Partitions []PartitionOffsets `json:"partitions"`
}

// PartitionOffsets are the offsets of one partition. Offsets are -1 where there is none, or it is not known.
type PartitionOffsets struct {
	// Subtopology reads the partition, in the task Subtopology_Partition; empty where none does.
	Subtopology string `json:"subtopology"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	// Kind is source, repartition, or other for what no task reads.
	Kind string `json:"kind"`
	// Committed is the committed offset, Start and End those at which the partition's log starts and ends.
	Committed int64 `json:"committed"`
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	// AtTime is the first offset of the time that was asked for, or later; -1 where the partition ends before. Without a time it
	// is absent.
	AtTime *int64 `json:"atTime,omitempty"`
	// Lag is how many offsets are left to the end.
	Lag int64 `json:"lag"`
	// Member owns the task; empty where nobody does.
	Member     string `json:"member"`
	InstanceID string `json:"instanceId,omitempty"`
	ClientID   string `json:"clientId"`
	Host       string `json:"host"`
	// Problem says why something is not known; empty where all is.
	Problem string `json:"problem,omitempty"`
}

// ResetRequest asks for other committed offsets of a group. It is refused where the group has members, or where an offset is not
// the one of Before any more.
type ResetRequest struct {
	Group   string      `json:"group"`
	Offsets []NewOffset `json:"offsets"`
}

// NewOffset changes the committed offset of a partition from Before to Offset; -1 stands for none.
type NewOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    int64  `json:"before"`
	Offset    int64  `json:"offset"`
}

// ResetDone is what came of a ResetRequest.
type ResetDone struct {
	Group string `json:"group"`
	// Changed counts the partitions that have another offset now.
	Changed int `json:"changed"`
}

// MoveOffsetsRequest asks for the offsets of a group to be kept in a store: "upstream" or "raft".
type MoveOffsetsRequest struct {
	Group string `json:"group"`
	To    string `json:"to"`
}

// OffsetsMoved is what came of a MoveOffsetsRequest.
type OffsetsMoved struct {
	Group string `json:"group"`
	// From is where the offsets were, To where they are now; the same where nothing had to be moved.
	From string `json:"from"`
	To   string `json:"to"`
	// Offsets is how many came along, and Left how many did not, as their topics or partitions are gone.
	Offsets int `json:"offsets"`
	Left    int `json:"left"`
}

// Offsets reads the offsets of a group.
func (c Client) Offsets(ctx context.Context, r OffsetsRequest) (GroupOffsets, error) {
	query := url.Values{"id": {r.Group}}
	if r.TimeMs != NoOffset {
		query.Set("time", strconv.FormatInt(r.TimeMs, 10))
	}
	var g GroupOffsets
	return g, c.question(ctx, offsetsTimeout, "/v1/group/offsets?"+query.Encode(), &g)
}

// offsetsTimeout bounds the question for offsets as its client sees it: the Kafka behind is asked for the ends of all logs.
const offsetsTimeout = 30 * time.Second

// ResetOffsets changes committed offsets.
func (c Client) ResetOffsets(ctx context.Context, r ResetRequest) (ResetDone, error) {
	var d ResetDone
	return d, c.post(ctx, "/v1/group/offsets/reset", r, &d)
}

// MoveOffsets moves the offsets of a group to another store.
func (c Client) MoveOffsets(ctx context.Context, r MoveOffsetsRequest) (OffsetsMoved, error) {
	var m OffsetsMoved
	return m, c.post(ctx, "/v1/group/offsets/move", r, &m)
}

// maxReset bounds the body of a change of offsets, in bytes: some 100,000 partitions.
const maxReset = 16 << 20

// groupOffsets serves the question for offsets.
func groupOffsets(find func(ctx context.Context, r OffsetsRequest) (GroupOffsets, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := readOffsets(r)
		var g GroupOffsets
		if err == nil {
			g, err = find(r.Context(), request)
		}
		answerWith(w, g, err)
	}
}

func readOffsets(r *http.Request) (OffsetsRequest, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return OffsetsRequest{}, Refuse(NotAllowed, "the query is malformed: %v", err)
	}
	for name, values := range query {
		if name != "id" && name != "time" {
			return OffsetsRequest{}, Refuse(NotAllowed, "parameter %q is unknown (allowed: id, time)", name)
		}
		if len(values) > 1 {
			return OffsetsRequest{}, Refuse(NotAllowed, "parameter %q is given %d times; give it once", name, len(values))
		}
	}
	request := OffsetsRequest{Group: query.Get("id"), TimeMs: NoOffset}
	if request.Group == "" {
		return request, Refuse(NotAllowed, "the group id is empty; 'coordd groups list' shows the groups")
	}
	if text := query.Get("time"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 {
			return request, Refuse(NotAllowed, "time %q is not allowed (allowed: milliseconds since 1970)", text)
		}
		request.TimeMs = ms
	}
	return request, nil
}
