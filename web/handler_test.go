package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type fake struct{ notReady error }

func (f fake) Status(context.Context) ClusterStatus { return ClusterStatus{AskedNode: 2, Quorum: true} }
func (f fake) Local() NodeStatus                    { return NodeStatus{Node: 2} }
func (f fake) Ready() error                         { return f.notReady }
func (f fake) Groups() []GroupSummary {
	return []GroupSummary{{Group: "a", State: "Stable"}, {Group: "b", State: "Empty"}}
}
func (f fake) Group(_ context.Context, id string) (GroupDetail, bool) { return f.LocalGroup(id) }
func (f fake) LocalGroup(id string) (GroupDetail, bool) {
	return GroupDetail{GroupSummary: GroupSummary{Group: id}}, id == "a/ä?"
}

func (f fake) Journal(_ context.Context, id string) (GroupJournal, error) {
	if id == "headless" {
		return GroupJournal{}, errors.New("shard 3 has no leader")
	}
	return f.LocalJournal(id)
}
func (f fake) LocalJournal(id string) (GroupJournal, error) {
	if id != "a/ä?" {
		return GroupJournal{}, ErrNoGroup
	}
	return GroupJournal{GroupSummary: GroupSummary{Group: id}, Entries: []JournalEntry{{Sequence: 7}}}, nil
}

func TestJournalAnswers(t *testing.T) {
	for _, handler := range []http.Handler{Handler(fake{}, nil), NodeHandler(fake{})} {
		s := httptest.NewServer(handler)
		c := Client{Address: strings.TrimPrefix(s.URL, "http://")}
		if j, err := c.Journal(context.Background(), "a/ä?"); err != nil || j.Group != "a/ä?" || j.Entries[0].Sequence != 7 {
			t.Error(j, err)
		}
		if _, err := c.Journal(context.Background(), "b"); !errors.Is(err, ErrNoGroup) || !strings.Contains(err.Error(), `"b"`) {
			t.Error(err)
		}
		s.Close()
	}
	s := httptest.NewServer(Handler(fake{}, nil))
	defer s.Close()
	_, err := Client{Address: strings.TrimPrefix(s.URL, "http://")}.Journal(context.Background(), "headless")
	if err == nil || errors.Is(err, ErrNoGroup) || !strings.Contains(err.Error(), "shard 3 has no leader") {
		t.Error(err)
	}
}

func TestReadinessAndHealth(t *testing.T) {
	for _, test := range []struct {
		path string
		err  error
		code int
		body string
	}{
		{"/healthz", errors.New("shard 3 has no leader"), http.StatusOK, "alive"},
		{"/readyz", nil, http.StatusOK, "ready"},
		{"/readyz", errors.New("shard 3 has no leader"), http.StatusServiceUnavailable, "shard 3 has no leader"},
		{"/v1/groups?state=stable", nil, http.StatusOK, `"a"`},
		{"/v1/groups?state=bogus", nil, http.StatusBadRequest, "Empty, NotReady, Assigning, Reconciling, Stable"},
		{"/nothing", nil, http.StatusNotFound, ""},
	} {
		s := httptest.NewServer(Handler(fake{test.err}, nil))
		r, err := http.Get(s.URL + test.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		s.Close()
		if r.StatusCode != test.code || !strings.Contains(string(body), test.body) {
			t.Errorf("%s: %d %s", test.path, r.StatusCode, body)
		}
	}
}

func TestClientReadsWhatTheHandlerWrites(t *testing.T) {
	s := httptest.NewServer(Handler(fake{}, nil))
	defer s.Close()
	c := Client{Address: strings.TrimPrefix(s.URL, "http://")}
	ctx := context.Background()
	if status, err := c.Status(ctx); err != nil || status.AskedNode != 2 {
		t.Error(status, err)
	}
	if node, err := c.Node(ctx); err != nil || node.Node != 2 {
		t.Error(node, err)
	}
	if list, err := c.Groups(ctx, "stable"); err != nil || len(list) != 1 || list[0].Group != "a" {
		t.Error(list, err)
	}
	if g, err := c.Group(ctx, "a/ä?"); err != nil || g.Group != "a/ä?" {
		t.Error(g, err)
	}
	if _, err := c.Group(ctx, "b"); !errors.Is(err, ErrNoGroup) || !strings.Contains(err.Error(), `"b"`) {
		t.Error(err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if _, err := (Client{Address: strings.TrimPrefix(other.URL, "http://")}).Node(ctx); err == nil {
		t.Error("another server's answer was taken for coordd's")
	}
}
