package loglimit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOneLineASecondForEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Limit[string]
		pass := func(cause string, wantSkipped int, want bool) {
			t.Helper()
			if skipped, ok := l.Pass(cause); ok != want || skipped != wantSkipped {
				t.Errorf("%s: %d %v, want %d %v", cause, skipped, ok, wantSkipped, want)
			}
		}
		pass("a", 0, true)
		pass("a", 0, false)
		pass("b", 0, true)
		pass("a", 0, false)
		time.Sleep(time.Second)
		pass("a", 2, true)
		pass("b", 0, true)
		time.Sleep(time.Second)
		pass("a", 0, true)
	})
}

func TestTheMemoryIsBounded(t *testing.T) {
	var l Limit[int]
	for i := range 10 * maxCauses {
		l.Pass(i)
		if len(l.seen) > maxCauses {
			t.Fatalf("%d causes", len(l.seen))
		}
	}
}
