package raftnode

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/coordd/coordd/loglimit"
)

// limitedLog lets a warning or error with the same message through at most once a second and says how many were left
// out. The loggers of all groups share the count, since what goes wrong for one goes wrong for all.
// Messages are few and constant; what varies is in the arguments.
type limitedLog struct {
	hclog.Logger
	lines *lines
}

type lines = loglimit.Limit[string]

func newLimitedLog(l hclog.Logger, shared *lines) *limitedLog { return &limitedLog{l, shared} }

func (l *limitedLog) limited(level hclog.Level, msg string, args []any) {
	if level == hclog.Debug && !l.IsDebug() {
		return
	}
	if skipped, ok := l.lines.Pass(msg); ok {
		if skipped > 0 {
			args = append(args[:len(args):len(args)], "left-out", skipped)
		}
		l.Log(level, msg, args...)
	}
}

// Warn logs a warning.
func (l *limitedLog) Warn(msg string, args ...any) { l.limited(hclog.Warn, msg, args) }

// Error logs an error.
func (l *limitedLog) Error(msg string, args ...any) { l.limited(hclog.Error, msg, args) }

// libraryLog is what the library logs to; it brings the lines to the project's levels. What the library calls an error
// is a warning here, unless it only tells that a peer is gone or another leader came: [reach] tells the first, changes
// of leadership tell the second.
type libraryLog struct{ *limitedLog }

func newLibraryLog(l *limitedLog) hclog.Logger { return libraryLog{l} }

// ordinary are the library's errors that belong to the course of things.
var ordinary = map[string]bool{
	"failed to appendEntries to":                true,
	"failed to heartbeat to":                    true,
	"failed to make requestVote RPC":            true,
	"failed to flush response":                  true,
	"failed to accept connection":               true,
	"peer has newer term, stopping replication": true,
}

// connEnded says whether an error among the arguments of a line tells that a connection or the transport ended.
func connEnded(args []any) bool {
	for _, a := range args {
		err, ok := a.(error)
		if !ok {
			continue
		}
		for _, end := range []error{net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, raft.ErrTransportShutdown, errMuted} {
			if errors.Is(err, end) {
				return true
			}
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return true
		}
	}
	return false
}

// lacksRoom says whether an error among the arguments of a line is that the log is full, which the log itself tells.
func lacksRoom(args []any) bool {
	for _, a := range args {
		if err, ok := a.(error); ok && errors.Is(err, ErrNoRoom) {
			return true
		}
	}
	return false
}

// Trace drops the line.
func (libraryLog) Trace(string, ...any) {}

// Debug drops the line.
func (libraryLog) Debug(string, ...any) {}

// Info logs at debug level.
func (l libraryLog) Info(msg string, args ...any) { l.limited(hclog.Debug, msg, args) }

// Warn logs at debug level: what the library warns of is the ordinary course of elections.
func (l libraryLog) Warn(msg string, args ...any) { l.limited(hclog.Debug, msg, args) }

// Error logs a warning, or at debug level what is ordinary.
func (l libraryLog) Error(msg string, args ...any) {
	level := hclog.Warn
	if ordinary[msg] || connEnded(args) || lacksRoom(args) {
		level = hclog.Debug
	}
	l.limited(level, msg, args)
}

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
