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
