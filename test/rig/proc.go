package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Proc is a process that was started here. Its output goes to the file Log.
type Proc struct {
	Name string
	Log  string

	cmd  *exec.Cmd
	in   io.WriteCloser // stdin, nil unless asked for
	done chan struct{}  // closed once the process is gone
	err  error          // of Wait; read after done
}

var running struct {
	sync.Mutex
	procs []*Proc
}

// command says what to run. Lines, when set, gets each line of stdout, which then is not in the log.
type command struct {
	name  string
	log   string
	argv  []string
	env   []string // added to ours
	stdin bool     // its stdin is Proc.in, else it has none
	lines func(line []byte)
}

// spawner starts every child from one thread that lives as long as we do: the parent death signal of Linux is bound to
// the thread that started the child, and Go ends threads.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func start(c command) (*Proc, error) {
	if err := os.MkdirAll(filepath.Dir(c.log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p := &Proc{Name: c.name, Log: c.log, done: make(chan struct{})}
	p.cmd = exec.Command(c.argv[0], c.argv[1:]...)
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.SysProcAttr = childAttr()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if c.stdin {
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	var stdout io.ReadCloser
	if c.lines != nil {
		p.cmd.Stdout = nil
		if stdout, err = p.cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	started := make(chan error)
	spawner() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		if stdout != nil {
			readLines(stdout, c.lines)
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	running.Lock()
	running.procs = append(running.procs, p)
	running.Unlock()
	return p, nil
}

func readLines(r io.Reader, line func([]byte)) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line(s.Bytes())
	}
	_, _ = io.Copy(io.Discard, r) // a line too long must not block the process
}

// Pid is the process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Done is closed once the process is gone.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Alive says whether the process still runs.
func (p *Proc) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err is how the process ended, nil for exit code 0 or while it runs.
func (p *Proc) Err() error {
	if p.Alive() {
		return nil
	}
	return p.err
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Proc) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	p.forget()
}

// Stop asks the process to end (SIGTERM) and waits. It kills the process and returns an error when that takes longer
// than within.
func (p *Proc) Stop(within time.Duration) error {
	defer p.forget()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.Name, within)
	}
}

// Signal sends any other signal.
func (p *Proc) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

func (p *Proc) forget() {
	running.Lock()
	defer running.Unlock()
	running.procs = slices.DeleteFunc(running.procs, func(o *Proc) bool { return o == p })
}

// StopAll kills every process that was started here and still runs.
func StopAll() {
	running.Lock()
	procs := slices.Clone(running.procs)
	running.Unlock()
	for _, p := range procs {
		p.Kill()
	}
}

// Tail returns the last n lines of the log of the process.
func (p *Proc) Tail(n int) string { return Tail(p.Log, n) }

// Tail returns the last n lines of a file.
func Tail(file string, n int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// RSS is the resident memory of the process in bytes, 0 where /proc does not tell.
func (p *Proc) RSS() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// run runs a command to its end and returns its stdout; an error holds what it wrote to stderr too.
func run(ctx context.Context, env []string, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env, cmd.Dir = append(os.Environ(), env...), dir
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// waitFor calls ready until it returns nil, and gives up when the process ends or the time is over.
func waitFor(p *Proc, within time.Duration, ready func() error) error {
	deadline := time.After(within)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%v):\n%s", p.Name, p.err, p.Tail(20))
		case <-deadline:
			return errors.Join(fmt.Errorf("%s is not ready after %v: %w", p.Name, within, err), errors.New(p.Tail(20)))
		case <-tick.C:
		}
	}
}
