package web

import (
	"context"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func (f fake) Origin(_ context.Context, group string) (GroupOrigin, error) {
	switch group {
	case "headless":
		return GroupOrigin{}, Refuse(NoLeader, "shard 3 has no leader")
	case "broken":
		return GroupOrigin{}, errors.New("no idea")
	}
	return originSample(group), nil
}
func (f fake) LocalOrigin(_ context.Context, group string) (GroupOrigin, error) {
	return GroupOrigin{}, Refuse(Elsewhere, "the group %q is led elsewhere", group)
}
func (f fake) Import(_ context.Context, r ImportRequest) (Imported, error) {
	if r.Group != "a/ä?" {
		return Imported{}, Refuse(Conflict, "stop the app there first")
	}
	return Imported{Group: r.Group, Epoch: 7, TopologyEpoch: -1, Offsets: 2, Settings: []OriginSetting{{Name: "streams.num.standby.replicas", Value: "1"}}}, nil
}
func (f fake) LocalImport(context.Context, ImportRequest) (Imported, error) {
	return Imported{}, Refuse(Elsewhere, "led elsewhere")
}
func (f fake) Export(_ context.Context, r ExportRequest) (Exported, error) {
	return Exported{Group: r.Group, Offsets: 2}, nil
}
func (f fake) LocalExport(context.Context, ExportRequest) (Exported, error) {
	return Exported{}, Refuse(Elsewhere, "led elsewhere")
}

// fakeOwn is what LocalSetOwn was asked for last.
var fakeOwn OwnSettings

func (f fake) LocalSetOwn(_ context.Context, r OwnSettings) error {
	fakeOwn = r
	return nil
}

func originSample(group string) GroupOrigin {
	return GroupOrigin{
		Group: group, Type: "streams", Protocol: "streams", State: "Empty", Epoch: 7, TopologyEpoch: 0, Members: []OriginMember{{Member: "m", ClientID: "c", Host: "/h"}},
		Subtopologies: []GroupSubtopology{}, Settings: []OriginSetting{{Name: "n", Value: "v", Problem: "p"}},
		Offsets: []OriginOffset{{Topic: "in", Partition: 1, Committed: 3, Start: 0, End: 9, Lag: 6}}, Lag: 6, Notes: []string{"note"},
	}
}

func TestClientMovesGroups(t *testing.T) {
	admin, node := httptest.NewServer(Handler(fake{}, nil)), httptest.NewServer(NodeHandler(fake{}))
	defer admin.Close()
	defer node.Close()
	client := func(s *httptest.Server) Client { return Client{Address: strings.TrimPrefix(s.URL, "http://")} }
	ctx := context.Background()
	if o, err := client(admin).Origin(ctx, "a/ä?"); err != nil || !reflect.DeepEqual(o, originSample("a/ä?")) {
		t.Errorf("%+v %v", o, err)
	}
	if i, err := client(admin).Import(ctx, ImportRequest{Group: "a/ä?"}); err != nil || i.Group != "a/ä?" || i.Epoch != 7 || i.TopologyEpoch != -1 || len(i.Settings) != 1 {
		t.Errorf("%+v %v", i, err)
	}
	if e, err := client(admin).Export(ctx, ExportRequest{Group: "a/ä?"}); err != nil || e.Group != "a/ä?" || e.Offsets != 2 {
		t.Errorf("%+v %v", e, err)
	}
	own := OwnSettings{Group: "a/ä?", Settings: []OriginSetting{{Name: "n", Value: "v"}}}
	if err := client(node).SetOwn(ctx, own); err != nil || !reflect.DeepEqual(fakeOwn, own) {
		t.Errorf("%+v %v", fakeOwn, err)
	}
	var refused *Refusal
	for name, test := range map[string]struct {
		act  func() error
		kind RefusalKind
	}{
		"running":           {func() error { _, err := client(admin).Import(ctx, ImportRequest{Group: "b"}); return err }, Conflict},
		"without a leader":  {func() error { _, err := client(admin).Origin(ctx, "headless"); return err }, NoLeader},
		"broken":            {func() error { _, err := client(admin).Origin(ctx, "broken"); return err }, 500},
		"elsewhere, asked":  {func() error { _, err := client(node).Origin(ctx, "a"); return err }, Elsewhere},
		"elsewhere, import": {func() error { _, err := client(node).Import(ctx, ImportRequest{Group: "a"}); return err }, Elsewhere},
		"elsewhere, export": {func() error { _, err := client(node).Export(ctx, ExportRequest{Group: "a"}); return err }, Elsewhere},
		"not for operators": {func() error { return client(admin).SetOwn(ctx, own) }, NotFound},
	} {
		if err := test.act(); name != "not for operators" && (!errors.As(err, &refused) || refused.Kind != test.kind) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMovesAreAskedForExactly: a slip must not show or move another group, and no web page can move one.
func TestMovesAreAskedForExactly(t *testing.T) {
	for _, test := range []struct {
		method, path, body, origin string
		code                       int
		says                       string
	}{
		{"GET", "/v1/group/origin?id=a", "", "", 200, `"type": "streams"`},
		{"GET", "/v1/group/origin", "", "", 400, "one parameter id"},
		{"GET", "/v1/group/origin?id=", "", "", 400, "one parameter id"},
		{"GET", "/v1/group/origin?id=a&id=b", "", "", 400, "one parameter id"},
		{"GET", "/v1/group/origin?id=a&group=b", "", "", 400, "one parameter id"},
		{"GET", "/v1/group/origin?id=%zz", "", "", 400, "malformed"},
		{"POST", "/v1/group/import", `{"group":"a/ä?","fromCoordd":false}`, "", 200, `"epoch": 7`},
		{"POST", "/v1/group/import", `{"group":"a/ä?","fromCoordd":false}`, "http://page", 403, "web pages"},
		{"POST", "/v1/group/export", `{"group":"a"}`, "http://page", 403, "web pages"},
		{"POST", "/v1/group/import", `{"fromCoordd":true}`, "", 400, `field \"group\" is missing`},
		{"POST", "/v1/group/export", `{"group":"a","yes":true}`, "", 400, `field \"yes\" is unknown`},
		{"GET", "/v1/group/import", "", "", 405, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(test.method, "/v1/", strings.NewReader(test.body))
		path, query, _ := strings.Cut(test.path, "?")
		r.URL.Path, r.URL.RawQuery, r.RemoteAddr = path, query, "127.0.0.1:5"
		r.Header.Set("Content-Type", "application/json")
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		Handler(fake{}, nil).ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, w.Body)
		}
	}
}
