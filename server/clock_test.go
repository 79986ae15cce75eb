package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTimeGoesOnWhateverTheWallClockSays: a node reads the wall clock once. That it is set later, forth or back, moves no
// deadline and makes no duration negative.
func TestTimeGoesOnWhateverTheWallClockSays(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, -5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			wall := time.Now().Add(jump)
			c := newClock(func() time.Time { wall = wall.Add(jump); return wall })
			began := c.now()
			if began != wall.UnixMilli() {
				t.Fatalf("began at %d, the wall clock says %d", began, wall.UnixMilli())
			}
			seen := time.Now()
			time.Sleep(3 * time.Second)
			if got := c.now() - began; got != 3000 || c.elapsed() != 3*time.Second {
				t.Errorf("%d ms and %v later", got, c.elapsed())
			}
			if c.at(seen) != began || c.ms(time.Second) != began+1000 || c.until(began+5000) != 2*time.Second || c.until(began) != 0 {
				t.Errorf("moments: %d %d %v %v", c.at(seen)-began, c.ms(time.Second)-began, c.until(began+5000), c.until(began))
			}
		})
	}
	if c := newClock(nil); !strings.Contains(c.start.String(), " m=") {
		t.Error("the clock's start carries no monotonic time")
	}
}
