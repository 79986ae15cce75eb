package conformance

import (
	"strings"
	"testing"
)

func settled(a, b []any) obj {
	return obj{"members": obj{
		"A": obj{"epoch": 3, "active": a, "message": "x"},
		"B": obj{"epoch": 3, "active": b, "message": "y"},
	}}
}

func TestCompareModes(t *testing.T) {
	base := settled([]any{"0:0,1"}, []any{"0:2"})
	otherTasks := settled([]any{"0:0,2"}, []any{"0:1"})
	swapped := settled([]any{"0:0"}, []any{"0:1,2"})
	lopsided := settled([]any{"0:0,1,2"}, []any{})
	null := settled([]any{"0:0,1"}, nil)
	null["members"].(obj)["B"].(obj)["active"] = nil
	for _, c := range []struct {
		mode string
		got  obj
		same bool
	}{
		{"exact", base, true}, {"exact", otherTasks, false},
		{"shape", otherTasks, true}, {"shape", swapped, false},
		{"balance", swapped, true}, {"balance", lopsided, false},
		{"totals", lopsided, true},
		{"exact", null, false}, {"shape", null, false},
	} {
		st := step{compare: c.mode}
		d := firstDiff("", reduce(base, st, false), reduce(c.got, st, false))
		if (d == "") != c.same {
			t.Errorf("%s: %q", c.mode, d)
		}
	}
}

func TestMessagesAndIgnore(t *testing.T) {
	w, h := obj{"error": "NONE", "message": "a", "epoch": 1}, obj{"error": "NONE", "message": "b", "epoch": 2}
	if d := firstDiff("", reduce(w, step{ignore: []string{"epoch"}}, false), reduce(h, step{ignore: []string{"epoch"}}, false)); d != "" {
		t.Error(d)
	}
	if d := firstDiff("", reduce(w, step{ignore: []string{"epoch"}}, true), reduce(h, step{ignore: []string{"epoch"}}, true)); d == "" {
		t.Error("messages should differ")
	}
	h["error"] = "UNKNOWN_MEMBER_ID"
	if d := firstDiff("", w, h); !strings.HasPrefix(d, "error: want NONE") {
		t.Error("the error should come first: " + d)
	}
	status := func(detail string) obj { return obj{"status": []any{obj{"detail": detail, "status": "X"}}} }
	if d := firstDiff("", status("Topic a is missing."), status("Topic a is missing. It is read.")); d != "" {
		t.Error("a detail may go on: " + d)
	}
	if d := firstDiff("", status("Topic a is missing. It is read."), status("Topic a is missing.")); d == "" {
		t.Error("a detail must not end early")
	}
	if d := firstDiff("", obj{"active": nil}, obj{"active": []any{}}); d == "" {
		t.Error("null is not empty")
	}
}
