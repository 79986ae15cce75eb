package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

// GroupJournal is why a group rebalanced, the newest first.
type GroupJournal struct {
	GroupSummary
	Entries []JournalEntry `json:"entries"`
}

// JournalEntry is one rebalance: one or more raised group epochs and the target that was made for them. Times are
// milliseconds since 1970, 0 where it has not come to that.
type JournalEntry struct {
	Sequence int64 `json:"sequence"`
	// FirstEpoch and Epoch are the first and the last group epoch that the entry explains.
	FirstEpoch int32 `json:"firstEpoch"`
	Epoch      int32 `json:"epoch"`
	// Outcome is "waiting" (for a target), "reconciling", "settled", or "superseded" by the next entry.
	Outcome     string `json:"outcome"`
	StartedAtMs int64  `json:"startedAtMs"`
	TargetAtMs  int64  `json:"targetAtMs"`
	SettledAtMs int64  `json:"settledAtMs"`
	// SettledAfterMs is the time from the start to the end, -1 where there is no end.
	SettledAfterMs int64 `json:"settledAfterMs"`
	// Slowest is the member that was reconciled last.
	Slowest string `json:"slowest"`
	// Counts says how often each cause was there; Causes has the first ones in full.
	Counts []JournalCount `json:"counts"`
	Causes []JournalCause `json:"causes"`
	// Moved counts the tasks that got another holder or lost theirs; Moves has the first of them.
	Moved int32         `json:"moved"`
	Moves []JournalMove `json:"moves"`
}

// JournalCount is how often a cause was there.
type JournalCount struct {
	Cause string `json:"cause"`
	Count int32  `json:"count"`
}

// JournalCause is one cause with the member behind it; the ids are empty where there is none.
type JournalCause struct {
	Causes     []string `json:"causes"`
	Epoch      int32    `json:"epoch"`
	AtMs       int64    `json:"atMs"`
	Member     string   `json:"member"`
	InstanceID string   `json:"instanceId"`
	Host       string   `json:"host"`
	Detail     string   `json:"detail"`
}

// JournalMove is one task that went from a member to another; "" stands for nobody.
type JournalMove struct {
	Task string `json:"task"`
	Role string `json:"role"`
	From string `json:"from"`
	To   string `json:"to"`
}

// ErrNoGroup says that coordd holds no group of an id.
var ErrNoGroup = errors.New("not one of coordd's streams groups; 'coordd groups list' shows them")

// Journal reads why a group rebalanced. It fails with an error that is ErrNoGroup where the shard's leader has no such
// group.
func (c Client) Journal(ctx context.Context, id string) (GroupJournal, error) {
	var j GroupJournal
	err := c.get(ctx, "/v1/group/journal?id="+url.QueryEscape(id), &j)
	return j, absent(err)
}

func journal(w http.ResponseWriter, r *http.Request, find func(id string) (GroupJournal, error)) {
	id := r.URL.Query().Get("id")
	j, err := find(id)
	switch {
	case errors.Is(err, ErrNoGroup):
		answer(w, http.StatusNotFound, Problem{Error: noGroup(id)})
	case err != nil:
		answer(w, http.StatusServiceUnavailable, Problem{Error: err.Error()})
	default:
		answer(w, http.StatusOK, j)
	}
}
