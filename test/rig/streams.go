package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/test/e2e/app"
)

// AppConfig says which instance of the Streams application to start.
type AppConfig struct {
	Java      *Java
	Dir       string // state and log go below it
	Name      string // of the instance, for its folder and log
	Bootstrap string
	App       string // application.id
	Topology  string // as in Topologies.java: stateless, wordcount, ...
	Guarantee string // at_least_once or exactly_once_v2
	Protocol  string // streams (default) or classic
	Threads   int
	Conf      map[string]string
	Trace     bool // log every request, for [App.Heartbeats]
}

// Event is one line of an instance.
type Event struct {
	T       int64    `json:"t"` // milliseconds since the epoch
	Event   string   `json:"event"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Thread  string   `json:"thread"`
	State   string   `json:"state"`
	Active  []string `json:"active"`
	Standby []string `json:"standby"`
	Class   string   `json:"class"`
	Message string   `json:"message"`
	Root    string   `json:"root"`
	Clean   bool     `json:"clean"`

	// Of what becomes of a store's copy (Restores.java): its changelog partition, offsets, and how many records were restored.
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	End       int64  `json:"end"`
	Records   int64  `json:"records"`
	Reason    string `json:"reason"`
}

// App is a running instance.
type App struct {
	*Proc
	Name string

	mu      sync.Mutex
	events  []Event
	changed chan struct{}
}

// StartApp starts an instance over its state folder, which is kept when an instance of that name is started again.
func StartApp(c AppConfig) (*App, error) {
	a := &App{Name: c.Name, changed: make(chan struct{})}
	args := []string{"--bootstrap", c.Bootstrap, "--app", c.App, "--topology", c.Topology, "--state-dir", filepath.Join(c.Dir, c.Name, "state")}
	if c.Guarantee != "" {
		args = append(args, "--guarantee", c.Guarantee)
	}
	if c.Protocol != "" {
		args = append(args, "--protocol", c.Protocol)
	}
	if c.Threads > 0 {
		args = append(args, "--threads", fmt.Sprint(c.Threads))
	}
	for k, v := range c.Conf {
		args = append(args, "--conf", k+"="+v)
	}
	dir := filepath.Join(c.Dir, c.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// What is killed leaves RocksDB's library (15 MB) where it was unpacked: in its own folder it is overwritten and goes with it.
	env := []string{"ROCKSDB_SHAREDLIB_DIR=" + dir}
	if c.Trace {
		env = append(env, "NETWORK_LOG_LEVEL=DEBUG")
	}
	a.Proc, err = start(command{
		name: c.Name, env: env, log: filepath.Join(dir, "app.log"), argv: c.Java.argv("256m", false, app.Main, args...),
		lines: func(line []byte) {
			_, _ = fmt.Fprintf(out, "%s\n", line)
			a.line(line)
		},
	})
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		<-a.done
		_ = out.Close()
	}()
	return a, nil
}

func (a *App) line(b []byte) {
	var e Event
	if json.Unmarshal(b, &e) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	close(a.changed)
	a.changed = make(chan struct{})
}

// Events returns what the instance reported from the n-th event on.
func (a *App) Events(n int) []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events[min(n, len(a.events)):])
}

// Mark is the number of events so far: Events(Mark()) is what comes after.
func (a *App) Mark() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.events)
}

// Heartbeat is a StreamsGroupHeartbeat that an instance sent.
type Heartbeat struct {
	Sent  time.Time
	Epoch int32 // of the member: 0 joins, -1 and -2 leave
}

var (
	heartbeatLine = regexp.MustCompile(`(?m)^(\S+) DEBUG .*Sending STREAMS_GROUP_HEARTBEAT request .*?memberEpoch=(-?\d+)`)
	grantLine     = regexp.MustCompile(`(?m)^(\S+) DEBUG .*Received STREAMS_GROUP_HEARTBEAT response .*activeTasks=\[TaskIds`)
)

// Heartbeats reads from the log what an instance with Trace has sent.
func (a *App) Heartbeats() (sent []Heartbeat, err error) {
	err = a.logged(heartbeatLine, func(at time.Time, m [][]byte) error {
		epoch, err := strconv.ParseInt(string(m[2]), 10, 32)
		sent = append(sent, Heartbeat{at, int32(epoch)})
		return err
	})
	return sent, err
}

// Granted reads from the log when an instance with Trace got its answers that name active tasks.
func (a *App) Granted() (answers []time.Time, err error) {
	err = a.logged(grantLine, func(at time.Time, _ [][]byte) error {
		answers = append(answers, at)
		return nil
	})
	return answers, err
}

// logged calls f for each line of the log that fits, whose first group is its time.
func (a *App) logged(line *regexp.Regexp, f func(at time.Time, match [][]byte) error) error {
	log, err := os.ReadFile(a.Log)
	if err != nil {
		return err
	}
	for _, m := range line.FindAllSubmatch(log, -1) {
		at, err := time.ParseInLocation("2006-01-02T15:04:05.000", string(m[1]), time.Local)
		if err == nil {
			err = f(at, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AppState is what the events of an instance add up to.
type AppState struct {
	Client  string            // state of the client
	Threads map[string]string // state by thread
	Active  map[string]string // thread by active task
	Standby map[string]string // thread by standby task
}

// State adds up the events.
func (a *App) State() AppState {
	s := AppState{Threads: map[string]string{}, Active: map[string]string{}, Standby: map[string]string{}}
	for _, e := range a.Events(0) {
		switch e.Event {
		case "client":
			s.Client = e.To
		case "thread":
			s.Threads[e.Thread] = e.State
		case "tasks":
			replace(s.Active, e.Thread, e.Active)
			replace(s.Standby, e.Thread, e.Standby)
		}
	}
	return s
}

func replace(tasks map[string]string, thread string, now []string) {
	for task, owner := range tasks {
		if owner == thread {
			delete(tasks, task)
		}
	}
	for _, task := range now {
		tasks[task] = thread
	}
}

// Wait blocks until what the instance reported satisfies ok.
func (a *App) Wait(ctx context.Context, what string, ok func(AppState) bool) error {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		s := a.State()
		if ok(s) {
			return nil
		}
		if s.Client == "ERROR" {
			return fmt.Errorf("%s is in ERROR while waiting for %s: %s", a.Name, what, a.trouble())
		}
		select {
		case <-changed:
		case <-a.done:
			return fmt.Errorf("%s ended (%v) while waiting for %s: %s", a.Name, a.err, what, a.trouble())
		case <-ctx.Done():
			return fmt.Errorf("%s: no %s in time, state %+v: %s", a.Name, what, s, a.trouble())
		}
	}
}

func (a *App) trouble() string {
	var lines []string
	for _, e := range a.Events(0) {
		if e.Event == "exception" {
			lines = append(lines, e.Class+": "+e.Message+" ("+e.Root+")")
		}
	}
	return strings.Join(append(lines, a.Tail(10)), "\n")
}

// Close stops the instance with SIGTERM; it is an error when it did not close cleanly.
func (a *App) Close(within time.Duration) error {
	if err := a.Stop(within); err != nil {
		return err
	}
	for _, e := range a.Events(0) { // the last transition may be told before or after it
		if e.Event == "closed" && e.Clean {
			return nil
		}
	}
	return fmt.Errorf("%s did not close cleanly: %s", a.Name, a.trouble())
}
