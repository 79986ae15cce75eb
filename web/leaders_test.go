package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func (f fake) MoveLeader(_ context.Context, r MoveRequest) (Moved, error) {
	switch r.To {
	case 8:
		return Moved{}, Refuse(NoLeader, "shard %d has no leader", r.Shard)
	case 9:
		return Moved{}, Refuse(NotAllowed, "no node 9")
	}
	return Moved{Shard: r.Shard, From: 1, Leader: r.To}, nil
}
func (f fake) LocalMoveLeader(_ context.Context, r MoveRequest) (Moved, error) {
	return Moved{}, Refuse(Elsewhere, "shard %d is led elsewhere", r.Shard)
}
func (f fake) LocalKeepLeader(_ context.Context, r KeepRequest) error {
	if r.Shard != 3 {
		return Refuse(Conflict, "not led here")
	}
	return nil
}
func (f fake) DrainNode(_ context.Context, r DrainRequest) (Drained, error) {
	return Drained{Node: r.Node, Drained: !r.Undo, Shards: []DrainedShard{{Shard: 4, Leader: 1}}}, nil
}
func (f fake) LocalDrainNode(ctx context.Context, r DrainRequest) (Drained, error) {
	return f.DrainNode(ctx, r)
}

// TestChangesAreTakenFromOperatorsOnly: neither from other machines nor from web pages, nor what is not quite a request.
func TestChangesAreTakenFromOperatorsOnly(t *testing.T) {
	const good = `{"shard": 0, "to": 2}`
	for _, test := range []struct {
		name   string
		method string
		body   string
		header map[string]string
		remote string
		code   int
		says   string
	}{
		{"good", "POST", good, nil, "", 200, `"leader": 2`},
		{"IPv6", "POST", good, nil, "[::1]:5", 200, ""},
		{"with a character set", "POST", good, map[string]string{"Content-Type": "application/json; charset=utf-8"}, "", 200, ""},
		{"read", "GET", "", nil, "", 405, ""},
		{"form", "POST", good, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, "", 415, "application/json"},
		{"text, which needs no preflight", "POST", good, map[string]string{"Content-Type": "text/plain"}, "", 415, ""},
		{"no content type", "POST", good, map[string]string{"Content-Type": ""}, "", 415, ""},
		{"a page of another site", "POST", good, map[string]string{"Origin": "http://evil.example"}, "", 403, "web pages"},
		{"a page whose name was turned to this address", "POST", good, map[string]string{"Origin": "http://127.0.0.1:9644"}, "", 403, ""},
		{"a page without an origin", "POST", good, map[string]string{"Origin": "null"}, "", 403, ""},
		{"a browser that says so", "POST", good, map[string]string{"Sec-Fetch-Site": "none"}, "", 403, ""},
		{"another machine", "POST", good, nil, "10.1.2.3:5", 403, "own machine"},
		{"an address that is none", "POST", good, nil, "pipe", 403, ""},
		{"no body", "POST", "", nil, "", 400, "JSON"},
		{"a list", "POST", "[]", nil, "", 400, "JSON"},
		{"null", "POST", "null", nil, "", 400, "missing"},
		{"field missing", "POST", `{"to": 2}`, nil, "", 400, `\"shard\" is missing`},
		{"field null", "POST", `{"to": 2, "shard": null}`, nil, "", 400, `\"shard\" must not be null`},
		{"field unknown", "POST", `{"to": 2, "shard": 0, "x": 0}`, nil, "", 400, `\"x\" is unknown`},
		{"in other letters", "POST", `{"to": 2, "SHARD": 0}`, nil, "", 400, "missing"},
		{"no number", "POST", `{"to": "2", "shard": 0}`, nil, "", 400, `\"to\"`},
		{"too large a number", "POST", `{"to": 2147483648, "shard": 0}`, nil, "", 400, `\"to\"`},
		{"too large", "POST", `{"to": 2, "shard": 0` + strings.Repeat(" ", maxChange) + `}`, nil, "", 400, "too large"},
		{"refused", "POST", `{"to": 9, "shard": 0}`, nil, "", 400, "no node 9"},
		{"without a leader", "POST", `{"to": 8, "shard": 0}`, nil, "", 503, "no leader"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, "/v1/leaders/move", strings.NewReader(test.body))
			r.RemoteAddr = "127.0.0.1:5"
			if test.remote != "" {
				r.RemoteAddr = test.remote
			}
			r.Header.Set("Content-Type", "application/json")
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			Handler(fake{}, nil).ServeHTTP(w, r)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

func TestClientMovesLeaderships(t *testing.T) {
	admin, node := httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))
	defer admin.Close()
	defer node.Close()
	client := func(s *httptest.Server) Client { return Client{Address: strings.TrimPrefix(s.URL, "http://")} }
	ctx := context.Background()
	if m, err := client(admin).MoveLeader(ctx, MoveRequest{Shard: 3, To: 0}); err != nil || m != (Moved{Shard: 3, From: 1}) {
		t.Error(m, err)
	}
	if d, err := client(admin).DrainNode(ctx, DrainRequest{Node: 2}); err != nil || !d.Drained || d.Node != 2 || d.Shards[0].Shard != 4 {
		t.Error(d, err)
	}
	if d, err := client(node).DrainNode(ctx, DrainRequest{Node: 2, Undo: true}); err != nil || d.Drained {
		t.Error(d, err)
	}
	if err := client(node).KeepLeader(ctx, KeepRequest{Shard: 3}); err != nil {
		t.Error(err)
	}
	if err := client(admin).KeepLeader(ctx, KeepRequest{Shard: 3}); err == nil {
		t.Error("the admin port serves what is between nodes")
	}
	refused := func(what string, err error, kind RefusalKind) {
		t.Helper()
		var r *Refusal
		if !errors.As(err, &r) || r.Kind != kind {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := client(node).MoveLeader(ctx, MoveRequest{Shard: 3})
	refused("led elsewhere", err, Elsewhere)
	refused("kept elsewhere", client(node).KeepLeader(ctx, KeepRequest{}), Conflict)
	_, err = client(admin).MoveLeader(ctx, MoveRequest{To: 8})
	refused("no leader", err, NoLeader)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var r *Refusal
	if _, err = client(gone).MoveLeader(ctx, MoveRequest{}); err == nil || errors.As(err, &r) {
		t.Errorf("no answer is no refusal: %v", err)
	}
}
