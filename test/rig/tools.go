package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// Tools runs Kafka's own command-line tools in one JVM, one command after the other: a JVM for each command would take
// most of the time of a test.
type Tools struct {
	*Proc
	mu      sync.Mutex
	answers chan ToolOutput
}

// ToolOutput is what a command did: its exit code and what it printed.
type ToolOutput struct {
	Exit   int    `json:"exit"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// toolsMain is the class that runs the commands; it stands beside the Streams application.
const toolsMain = "io.coordd.e2e.Tools"

// StartTools starts the JVM. Commands that want a file are run with dir as the place for it.
func StartTools(java *Java, dir string) (*Tools, error) {
	t := &Tools{answers: make(chan ToolOutput, 1)}
	var err error
	t.Proc, err = start(command{
		name: "tools", log: filepath.Join(dir, "tools.log"), argv: java.argv("256m", false, toolsMain), stdin: true,
		lines: func(line []byte) {
			var out ToolOutput
			if json.Unmarshal(line, &out) == nil {
				t.answers <- out
			}
		},
	})
	return t, err
}

// Run runs a command as its script in Kafka's bin folder would: tool is the script's name without kafka- and .sh, such as
// streams-groups.
func (t *Tools) Run(ctx context.Context, tool string, args ...string) (ToolOutput, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, err := json.Marshal(append([]string{tool}, args...))
	if err != nil {
		return ToolOutput{}, err
	}
	if _, err := t.in.Write(append(line, '\n')); err != nil {
		return ToolOutput{}, errors.Join(err, errors.New(t.Tail(20)))
	}
	select {
	case out := <-t.answers:
		return out, nil
	case <-t.done:
		return ToolOutput{}, fmt.Errorf("the tools' JVM ended (%v): %s", t.err, t.Tail(20))
	case <-ctx.Done():
		t.Kill() // the answer would be taken for that of the next command
		return ToolOutput{}, fmt.Errorf("kafka-%s %s: %w", tool, strings.Join(args, " "), ctx.Err())
	}
}
