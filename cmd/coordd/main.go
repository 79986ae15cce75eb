// Command coordd coordinates Kafka Streams groups (KIP-1071) in front of a Kafka cluster.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoQuorum = 3
)

// minProcs keeps Go scheduling while file syncs are under way: each holds a P, and with two of them leaders miss their
// heartbeats on small machines.
const minProcs = 4

func main() {
	if runtime.GOMAXPROCS(0) < minProcs {
		runtime.GOMAXPROCS(minProcs)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// exitError is an error with an exit code of its own. An empty text prints nothing.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	}
	return exitFailed
}

func printError(w *os.File, err error) {
	if text := err.Error(); text != "" {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = plain(lines[i])
		}
		_, _ = fmt.Fprintln(w, "coordd: "+strings.Join(lines, "\n"))
	}
}
