package server

import "time"

// clock gives milliseconds that never go back: the wall clock at its start plus the monotonic time since, so that
// deadlines survive a wall clock that is set.
type clock struct {
	start time.Time // read for its monotonic time only
	wall  int64     // milliseconds since 1970 at the start
}

// newClock reads the wall clock once; nil means the machine's.
func newClock(wall func() time.Time) clock {
	if wall == nil {
		wall = time.Now
	}
	return clock{start: time.Now(), wall: wall().UnixMilli()}
}

func (c clock) now() int64 { return c.ms(c.elapsed()) }

// elapsed is the time since the clock's start.
func (c clock) elapsed() time.Duration { return time.Since(c.start) }

// ms is the moment at which d has elapsed.
func (c clock) ms(d time.Duration) int64 { return c.wall + d.Milliseconds() }

// at is a moment of the process on this clock.
func (c clock) at(t time.Time) int64 { return c.ms(t.Sub(c.start)) }

// until is the time from now to a moment of this clock, at least zero.
func (c clock) until(at int64) time.Duration {
	return max(0, time.Duration(at-c.now())*time.Millisecond)
}
