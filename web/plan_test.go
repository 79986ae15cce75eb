package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// fakePlanned is the last request for a plan.
var fakePlanned PlanRequest

func (f fake) Plan(_ context.Context, r PlanRequest) (GroupPlan, error) {
	fakePlanned = r
	switch {
	case r.Group == "headless":
		return GroupPlan{}, Refuse(NoLeader, "shard 3 has no leader")
	case r.Group != "a/ä?":
		return GroupPlan{}, Refuse(NotFound, "Group %s not found.", r.Group)
	case r.Add > 3:
		return GroupPlan{}, Refuse(NotAllowed, "too many")
	}
	return GroupPlan{GroupSummary: GroupSummary{Group: r.Group}, Steps: []PlanStep{{PlanTotals: PlanTotals{Active: 1}, Moves: []PlanMove{{Task: "0_1", To: "m"}}}}}, nil
}
func (f fake) LocalPlan(_ context.Context, r PlanRequest) (GroupPlan, error) {
	return GroupPlan{}, Refuse(Elsewhere, "the group %q is led elsewhere", r.Group)
}

func TestClientAsksForAPlan(t *testing.T) {
	admin, node := httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))
	defer admin.Close()
	defer node.Close()
	client := func(s *httptest.Server) Client { return Client{Address: strings.TrimPrefix(s.URL, "http://")} }
	ctx := context.Background()
	want := PlanRequest{Group: "a/ä?", Add: 2, Threads: 3, Tags: []string{"zone=a&b", "x=1"}, Rack: "r 1", Remove: []string{"m=1", "m/2"}, Set: []string{"streams.num.standby.replicas=1"}}
	if p, err := client(admin).Plan(ctx, want); err != nil || p.Group != want.Group || p.Steps[0].Active != 1 || p.Steps[0].Moves[0].Task != "0_1" {
		t.Error(p, err)
	}
	if !reflect.DeepEqual(fakePlanned, want) {
		t.Errorf("asked for %+v", fakePlanned)
	}
	for _, test := range []struct {
		at   *httptest.Server
		r    PlanRequest
		kind RefusalKind
	}{
		{admin, PlanRequest{Group: "b"}, NotFound}, {admin, PlanRequest{Group: "a/ä?", Add: 4}, NotAllowed}, {admin, PlanRequest{}, NotAllowed},
		{admin, PlanRequest{Group: "headless"}, NoLeader}, {node, PlanRequest{Group: "a/ä?"}, Elsewhere},
	} {
		_, err := client(test.at).Plan(ctx, test.r)
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Kind != test.kind {
			t.Errorf("%+v: %v", test.r, err)
		}
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var refused *Refusal
	if _, err := client(gone).Plan(ctx, want); err == nil || errors.As(err, &refused) {
		t.Errorf("no answer is no refusal: %v", err)
	}
}

// TestAPlanIsAskedForByKnownParameters: a slip must not give the plan of something else.
func TestAPlanIsAskedForByKnownParameters(t *testing.T) {
	for _, test := range []struct {
		method, query string
		code          int
		says          string
	}{
		{"GET", "id=a%2f%C3%A4%3f", 200, `"movedActive": 1`},
		{"GET", "id=a%2f%C3%A4%3f&add=&threads=", 200, ""},
		{"POST", "id=a%2f%C3%A4%3f", 405, ""},
		{"GET", "", 400, "group id is empty"},
		{"GET", "id=a%2f%C3%A4%3f&ad=1", 400, `\"ad\" is unknown (allowed: id, add, threads, tag, rack, remove, set)`},
		{"GET", "id=a%2f%C3%A4%3f&add=x", 400, "add \\\"x\\\" is not allowed (allowed: a whole number)"},
		{"GET", "id=a%2f%C3%A4%3f&threads=99999999999999999999", 400, "threads"},
		{"GET", "id=a%2f%C3%A4%3f&add=1&threads=0", 400, "allowed: 1 or more"},
		{"GET", "id=a%2f%C3%A4%3f&add=1&add=1", 400, "given 2 times"},
		{"GET", "id=a%2f%C3%A4%3f&add=1&tag=a%1bb%3Dc", 400, "control character"},
		{"GET", "id=%zz", 400, "malformed"},
		{"GET", "id=headless", 503, "no leader"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(test.method, "/v1/group/plan", nil)
		r.URL.RawQuery = test.query
		Handler(fake{}, nil).ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %s: %d %s", test.method, test.query, w.Code, w.Body)
		}
	}
}
