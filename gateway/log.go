package gateway

import (
	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/loglimit"
)

// causeLog writes at most one line a second for each cause: what clients send must not fill the log.
type causeLog struct {
	logger hclog.Logger
	limit  loglimit.Limit[string]
}

// note logs a warning. cause is one of a fixed set of words.
func (l *causeLog) note(cause, msg string, args ...any) {
	skipped, ok := l.limit.Pass(cause)
	if !ok {
		return
	}
	if skipped > 0 {
		args = append(args, "left-out", skipped)
	}
	l.logger.Warn(msg, args...)
}
