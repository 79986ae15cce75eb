package web

import (
	"context"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// fakeReset is the last request for other offsets.
var fakeReset ResetRequest

func (f fake) Offsets(_ context.Context, r OffsetsRequest) (GroupOffsets, error) {
	if r.Group != "a/ä?" {
		return GroupOffsets{}, Refuse(NotFound, "group %q is unknown", r.Group)
	}
	g := GroupOffsets{GroupSummary: GroupSummary{Group: r.Group}, Store: "raft", Partitions: []PartitionOffsets{{Topic: "in", Committed: 3}}}
	if r.TimeMs != NoOffset {
		g.Partitions[0].AtTime = &r.TimeMs
	}
	return g, nil
}
func (f fake) LocalOffsets(_ context.Context, r OffsetsRequest) (GroupOffsets, error) {
	return GroupOffsets{}, Refuse(Elsewhere, "the group %q is led elsewhere", r.Group)
}
func (f fake) ResetOffsets(_ context.Context, r ResetRequest) (ResetDone, error) {
	fakeReset = r
	if len(r.Offsets) == 0 {
		return ResetDone{}, Refuse(Conflict, "the group has members")
	}
	return ResetDone{Group: r.Group, Changed: len(r.Offsets)}, nil
}
func (f fake) LocalResetOffsets(ctx context.Context, r ResetRequest) (ResetDone, error) {
	return f.ResetOffsets(ctx, r)
}
func (f fake) MoveOffsets(_ context.Context, r MoveOffsetsRequest) (OffsetsMoved, error) {
	if r.To != "raft" {
		return OffsetsMoved{}, Refuse(NotAllowed, "store %q is not allowed", r.To)
	}
	return OffsetsMoved{Group: r.Group, From: "upstream", To: r.To, Offsets: 3, Left: 1}, nil
}
func (f fake) LocalMoveOffsets(_ context.Context, r MoveOffsetsRequest) (OffsetsMoved, error) {
	return OffsetsMoved{}, Refuse(Elsewhere, "the group %q is led elsewhere", r.Group)
}

func clientOf(s *httptest.Server) Client {
	return Client{Address: strings.TrimPrefix(s.URL, "http://")}
}

func refusedAs(t *testing.T, err error, kind RefusalKind) {
	t.Helper()
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Kind != kind {
		t.Errorf("%v, want a refusal of kind %d", err, kind)
	}
}

func TestClientAsksForOffsets(t *testing.T) {
	admin, node := httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))
	defer admin.Close()
	defer node.Close()
	ctx := context.Background()
	g, err := clientOf(admin).Offsets(ctx, OffsetsRequest{Group: "a/ä?", TimeMs: NoOffset})
	if err != nil || g.Group != "a/ä?" || g.Store != "raft" || g.Partitions[0].Committed != 3 || g.Partitions[0].AtTime != nil {
		t.Error(g, err)
	}
	if g, err := clientOf(admin).Offsets(ctx, OffsetsRequest{Group: "a/ä?", TimeMs: 0}); err != nil || g.Partitions[0].AtTime == nil || *g.Partitions[0].AtTime != 0 {
		t.Error(g, err)
	}
	_, err = clientOf(node).Offsets(ctx, OffsetsRequest{Group: "a/ä?", TimeMs: NoOffset})
	refusedAs(t, err, Elsewhere)
	_, err = clientOf(admin).Offsets(ctx, OffsetsRequest{Group: "b", TimeMs: NoOffset})
	refusedAs(t, err, NotFound)
	for query, says := range map[string]string{
		"id=a%2F%C3%A4%3F&time=x": `time \"x\"`, "id=a&id=b": "given 2 times", "id=": "group id is empty", "id=a&when=1": `parameter \"when\"`, "id=a&time=-5": "milliseconds since 1970",
		"id=%zz": "malformed",
	} {
		w := httptest.NewRecorder()
		Handler(fake{}, nil).ServeHTTP(w, httptest.NewRequest("GET", "/v1/group/offsets?"+query, nil))
		if w.Code != 400 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestClientResetsOffsets: of many partitions too, of which a change of another kind may not name as many.
func TestClientResetsOffsets(t *testing.T) {
	ctx := context.Background()
	want := ResetRequest{Group: "a"}
	for p := range int32(1000) {
		want.Offsets = append(want.Offsets, NewOffset{Topic: strings.Repeat("t", 200), Partition: p, Before: NoOffset, Offset: int64(p)})
	}
	for _, handler := range []*httptest.Server{httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))} {
		defer handler.Close()
		if done, err := clientOf(handler).ResetOffsets(ctx, want); err != nil || done.Changed != 1000 || !reflect.DeepEqual(fakeReset, want) {
			t.Error(done, err)
		}
		_, err := clientOf(handler).ResetOffsets(ctx, ResetRequest{Group: "a", Offsets: []NewOffset{}})
		refusedAs(t, err, Conflict)
	}
	page := httptest.NewRequest("POST", "/v1/group/offsets/reset", strings.NewReader(`{"group":"a","offsets":[]}`))
	page.Header.Set("Content-Type", "application/json")
	page.RemoteAddr = "10.1.2.3:5"
	w := httptest.NewRecorder()
	Handler(fake{}, nil).ServeHTTP(w, page)
	if w.Code != 403 {
		t.Errorf("a reset from another machine: %d", w.Code)
	}
}

func TestClientMovesOffsets(t *testing.T) {
	admin, node := httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))
	defer admin.Close()
	defer node.Close()
	ctx := context.Background()
	moved, err := clientOf(admin).MoveOffsets(ctx, MoveOffsetsRequest{Group: "a/ä?", To: "raft"})
	if err != nil || moved != (OffsetsMoved{Group: "a/ä?", From: "upstream", To: "raft", Offsets: 3, Left: 1}) {
		t.Error(moved, err)
	}
	_, err = clientOf(admin).MoveOffsets(ctx, MoveOffsetsRequest{Group: "a", To: "tape"})
	refusedAs(t, err, NotAllowed)
	_, err = clientOf(node).MoveOffsets(ctx, MoveOffsetsRequest{Group: "a", To: "raft"})
	refusedAs(t, err, Elsewhere)
	w := httptest.NewRecorder()
	page := httptest.NewRequest("POST", "/v1/group/offsets/move", strings.NewReader(`{"group":"a","to":"raft"}`))
	page.Header.Set("Content-Type", "application/json")
	page.Header.Set("Origin", "http://evil.example")
	page.RemoteAddr = "127.0.0.1:5"
	if Handler(fake{}, nil).ServeHTTP(w, page); w.Code != 403 {
		t.Errorf("a move from a web page: %d", w.Code)
	}
}
