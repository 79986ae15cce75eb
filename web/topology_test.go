package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func (f fake) Topology(_ context.Context, id string) (GroupTopology, bool) {
	return f.LocalTopology(id)
}
func (f fake) LocalTopology(id string) (GroupTopology, bool) {
	return GroupTopology{GroupSummary: GroupSummary{Group: id}, Missing: []MissingTopic{{Topic: "t", Kind: "source"}}}, id == "a/ä?"
}

func (f fake) AbortTopology(_ context.Context, r AbortRequest) (Aborted, error) {
	switch {
	case r.Group != "a/ä?":
		return Aborted{}, Refuse(NotFound, "Group %s not found.", r.Group)
	case r.Epoch != 1:
		return Aborted{}, Refuse(Conflict, "the topology epoch is 1 by now")
	}
	return Aborted{Group: r.Group, Aborted: r.Epoch, Restored: 0, Epoch: 2}, nil
}
func (f fake) LocalAbortTopology(_ context.Context, r AbortRequest) (Aborted, error) {
	return Aborted{}, Refuse(Elsewhere, "the group %q is led elsewhere", r.Group)
}

func TestClientTakesATopologyBack(t *testing.T) {
	admin, node := httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))
	defer admin.Close()
	defer node.Close()
	client := func(s *httptest.Server) Client { return Client{Address: strings.TrimPrefix(s.URL, "http://")} }
	ctx := context.Background()
	if a, err := client(admin).AbortTopology(ctx, AbortRequest{Group: "a/ä?", Epoch: 1}); err != nil || a != (Aborted{Group: "a/ä?", Aborted: 1, Epoch: 2}) {
		t.Error(a, err)
	}
	for _, test := range []struct {
		at    *httptest.Server
		group string
		epoch int32
		kind  RefusalKind
	}{{admin, "b", 1, NotFound}, {admin, "a/ä?", 2, Conflict}, {node, "a/ä?", 1, Elsewhere}} {
		_, err := client(test.at).AbortTopology(ctx, AbortRequest{Group: test.group, Epoch: test.epoch})
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Kind != test.kind {
			t.Errorf("group %s, epoch %d: %v", test.group, test.epoch, err)
		}
	}
}

// TestATopologyIsTakenBackByOperatorsOnly: as all changes.
func TestATopologyIsTakenBackByOperatorsOnly(t *testing.T) {
	const good = `{"group": "a/ä?", "epoch": 1}`
	for _, test := range []struct {
		method, body, origin, remote string
		code                         int
	}{
		{"POST", good, "", "127.0.0.1:5", 200},
		{"GET", "", "", "127.0.0.1:5", 405},
		{"POST", good, "http://127.0.0.1:9644", "127.0.0.1:5", 403},
		{"POST", good, "", "10.1.2.3:5", 403},
		{"POST", `{"group": "a/ä?"}`, "", "127.0.0.1:5", 400},
		{"POST", `{"group": "a/ä?", "epoch": null}`, "", "127.0.0.1:5", 400},
		{"POST", `{"group": "b", "epoch": 1}`, "", "127.0.0.1:5", 404},
	} {
		r := httptest.NewRequest(test.method, "/v1/group/topology/abort", strings.NewReader(test.body))
		r.RemoteAddr = test.remote
		r.Header.Set("Content-Type", "application/json")
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		w := httptest.NewRecorder()
		Handler(fake{}, nil).ServeHTTP(w, r)
		if w.Code != test.code {
			t.Errorf("%+v: %d %s", test, w.Code, w.Body)
		}
	}
}

func TestTopologyAnswers(t *testing.T) {
	for _, handler := range []http.Handler{Handler(fake{}, nil), NodeHandler(fake{})} {
		s := httptest.NewServer(handler)
		c := Client{Address: strings.TrimPrefix(s.URL, "http://")}
		if g, err := c.Topology(context.Background(), "a/ä?"); err != nil || g.Group != "a/ä?" || g.Missing[0].Topic != "t" {
			t.Error(g, err)
		}
		if _, err := c.Topology(context.Background(), "b"); !errors.Is(err, ErrNoGroup) || !strings.Contains(err.Error(), `"b"`) {
			t.Error(err)
		}
		s.Close()
	}
}
