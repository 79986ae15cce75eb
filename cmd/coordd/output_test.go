package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/coordd/coordd/web"
)

// hostile is a text that clears a screen, sets its title, turns the direction of writing and begins a new line and column.
const hostile = "x\x1b[2J\x1b]0;owned\x07\u009b31m\u202e\u2028\r\n\ty\x00\x7f\U000e0001ä"

func hostileCluster() cluster {
	c := healthy()
	g := &c.groups[0]
	g.Group, g.Problem = "app", hostile
	g.MemberList = []web.GroupMember{{Member: hostile, ClientID: hostile, Host: hostile, ProcessID: hostile, InstanceID: hostile,
		Active: []string{hostile}, Standby: []string{hostile}, Warmup: []string{hostile}, Revoking: []string{hostile},
		TargetActive: []string{hostile}, TargetStandby: []string{hostile}, TargetWarmup: []string{hostile}}}
	c.groups = append(c.groups, web.GroupDetail{GroupSummary: web.GroupSummary{Group: hostile, State: "Stable"}})
	c.status.Nodes[1].Error = hostile
	return c
}

func TestNamesCannotWriteToTheTerminal(t *testing.T) {
	sample := journalSample
	defer func() { journalSample = sample }()
	journalSample = []web.JournalEntry{{Slowest: hostile, Counts: []web.JournalCount{{Cause: "join", Count: 1}},
		Causes: []web.JournalCause{{Causes: []string{"join"}, Member: hostile, InstanceID: hostile, Host: hostile, Detail: hostile}},
		Moved:  1, Moves: []web.JournalMove{{Task: hostile, Role: "active", From: hostile, To: hostile}}}}
	lines := map[string]int{"groups list": 3, "groups describe app": 7, "groups why app --moves": 6, "status": 3}
	for args, want := range lines {
		code, stdout, _ := call(t, hostileCluster(), strings.Fields(args+" --admin NODE")...)
		if code != exitOK || !strings.Contains(stdout, `x\x1b[2J\x1b]0;owned\a\u009b31m\u202e\u2028\r\n\ty\x00\x7f\U000e0001ä`) {
			t.Errorf("%s: exit code %d\n%q", args, code, stdout)
		}
		if i := strings.IndexFunc(stdout, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: %q", args, stdout[max(0, i-10):i+4])
		}
		if n := strings.Count(stdout, "\n"); n != want {
			t.Errorf("%s: %d lines, want %d\n%s", args, n, want, stdout)
		}
	}
}

func TestJSONHasOnlyPrintableCharactersAndMeansTheSame(t *testing.T) {
	code, stdout, _ := call(t, hostileCluster(), "groups", "list", "-o", "json", "--admin", "NODE")
	if code != exitOK {
		t.Fatal(code)
	}
	if i := strings.IndexFunc(stdout, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q", stdout[max(0, i-10):i+4])
	}
	var list []web.GroupSummary
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	if list[1].Group != hostile {
		t.Errorf("%q", list[1].Group)
	}
}

func TestErrorsCannotWriteToTheTerminal(t *testing.T) {
	c := healthy()
	c.err = &textError{hostile}
	code, _, stderr := call(t, c, "groups", "why", "app", "--admin", "NODE")
	if i := strings.IndexFunc(stderr, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); code != exitFailed || i >= 0 {
		t.Errorf("exit code %d: %q", code, stderr)
	}
}

type textError struct{ text string }

func (e *textError) Error() string { return e.text }

func TestPlainKeepsWhatIsPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"my-app_1 (ä, 日本)": "my-app_1 (ä, 日本)",
		`C:\x "quoted"`:    `C:\x "quoted"`,
		"a\xffb":           `a\xffb`,
		"\xc2\x9b":         `\u009b`,
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}
