package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// limitedLog lets a line with the same message through at most once a second and says how many were left out. It is
// also how the library's log is brought to the project's levels: its debug lines are dropped, its information is our
// debug, and what it calls an error (a peer that cannot be reached, say) is a warning to an operator.
//
// Messages are few and constant; what varies is in the arguments. So the memory is bounded.
type limitedLog struct {
	hclog.Logger
	lines *lines
}

type lines struct {
	mu   sync.Mutex
	seen map[string]*line
}

type line struct {
	next    time.Time
	skipped int
}

// maxLines bounds the messages that are told apart.
const maxLines = 1024

func newLimitedLog(l hclog.Logger) *limitedLog {
	return &limitedLog{l, &lines{seen: map[string]*line{}}}
}

func (l *limitedLog) limited(level hclog.Level, msg string, args []any) {
	if skipped, ok := l.lines.pass(msg); ok {
		if skipped > 0 {
			args = append(args[:len(args):len(args)], "left-out", skipped)
		}
		l.Logger.Log(level, msg, args...)
	}
}

func (s *lines) pass(msg string) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.seen[msg]
	if e == nil {
		if len(s.seen) >= maxLines {
			clear(s.seen)
		}
		e = &line{}
		s.seen[msg] = e
	}
	if now.Before(e.next) {
		e.skipped++
		return 0, false
	}
	skipped, e.skipped = e.skipped, 0
	e.next = now.Add(time.Second)
	return skipped, true
}

// Warn logs a warning.
func (l *limitedLog) Warn(msg string, args ...any) { l.limited(hclog.Warn, msg, args) }

// libraryLog is what the library logs to.
type libraryLog struct{ *limitedLog }

func newLibraryLog(l hclog.Logger) hclog.Logger { return libraryLog{newLimitedLog(l)} }

// Trace drops the line.
func (libraryLog) Trace(string, ...any) {}

// Debug drops the line.
func (libraryLog) Debug(string, ...any) {}

// Info logs at debug level.
func (l libraryLog) Info(msg string, args ...any) { l.limited(hclog.Debug, msg, args) }

// Warn logs at debug level: what the library warns of is the ordinary course of elections.
func (l libraryLog) Warn(msg string, args ...any) { l.limited(hclog.Debug, msg, args) }

// Error logs a warning.
func (l libraryLog) Error(msg string, args ...any) { l.limited(hclog.Warn, msg, args) }

// IsTrace says no.
func (libraryLog) IsTrace() bool { return false }

// IsDebug says no.
func (libraryLog) IsDebug() bool { return false }

// With adds arguments to each line.
func (l libraryLog) With(args ...any) hclog.Logger {
	return libraryLog{&limitedLog{l.Logger.With(args...), l.lines}}
}

// Named names the lines.
func (l libraryLog) Named(name string) hclog.Logger {
	return libraryLog{&limitedLog{l.Logger.Named(name), l.lines}}
}

// ResetNamed names the lines.
func (l libraryLog) ResetNamed(name string) hclog.Logger {
	return libraryLog{&limitedLog{l.Logger.ResetNamed(name), l.lines}}
}
