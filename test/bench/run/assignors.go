package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/test/bench/cases"
	"github.com/coordd/coordd/test/rig"
)

// assignors times coordd's assignors and Kafka's on the same inputs in turn: two processes, of which one waits while the other
// runs. Times are CPU time, which another program on the machine does not lengthen: of the one thread of coordd's with all that
// collecting garbage takes, and of Kafka's thread without that. Building the input counts on neither side.
func assignors(ctx context.Context, b *bench) error {
	if b.null {
		return nil
	}
	root, err := rig.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "test", "bench", "assignor")
	names, err := cases.Names(filepath.Join(dir, "cases"))
	if err != nil {
		return err
	}
	ours, err := startOurs(ctx)
	if err != nil {
		return err
	}
	defer ours.stop()
	theirs, err := b.startTheirs(ctx, dir)
	if err != nil {
		return err
	}
	defer theirs.stop()
	var all []*measured
	for _, name := range names {
		if !b.cases.MatchString(name) {
			continue
		}
		spec, err := cases.Load(filepath.Join(dir, "cases"), name)
		if err != nil {
			return err
		}
		m := &measured{name: name, input: filepath.Join(dir, "cases", name+".in.json.gz"), processes: processes(spec)}
		for _, s := range spec.Subtopologies {
			m.tasks += int(s.Tasks)
		}
		all = append(all, m)
	}
	rounds := pick(b, 2, 1)
	for round := range rounds + 1 { // the first warms up
		fmt.Printf("round %d of %d\n", round, rounds)
		for _, m := range all {
			if err := b.assignorRound(m, ours, theirs, round); err != nil {
				return err
			}
		}
	}
	fmt.Println(assignorTable(all))
	b.addAssignors(all)
	return nil
}

func processes(spec assignor.Spec) int {
	seen := map[string]bool{}
	for i := range spec.Members {
		seen[spec.Members[i].ProcessID] = true
	}
	return len(seen)
}

// measured is a case: what each assignor took, by name.
type measured struct {
	name, input      string
	tasks, processes int
	runs             [numRuns]runs
}

// What is run on each case.
const (
	ourSticky        = iota
	ourStickyOffsets // with offsets reported, as ourHA gets them
	ourHA
	kafkaSticky
	kafkaHA
	numRuns
)

// runs are those of one assignor on one case.
type runs struct {
	Ms        []float64 `json:"ms"`
	Bytes     float64   `json:"bytes"`     // allocated by a run
	Allocated float64   `json:"allocated"` // times in a run; Kafka does not say
	cases.Quality
}

func (m *measured) ms(which int) float64 { return medianOf(slices.Clone(m.runs[which].Ms)) }

// assignorRound has each assignor run on the case for a while, the two sides in turn, the other one first in the next round.
func (b *bench) assignorRound(m *measured, ours, theirs *runner, round int) error {
	type step struct {
		which int
		side  *runner
		name  string
	}
	steps := []step{{kafkaSticky, theirs, "sticky"}, {ourSticky, ours, "sticky"}, {ourStickyOffsets, ours, "sticky-offsets"}, {ourHA, ours, "highly_available"}}
	large := m.processes > 101
	if !large || b.haProcesses >= m.processes && round == 1 {
		steps = append(steps, step{kafkaHA, theirs, "ha"})
	}
	if round%2 == 1 {
		slices.Reverse(steps)
	}
	seconds, least := pick(b, 0.15, 0.05), 3
	if round == 0 {
		seconds = pick(b, 0.3, 0.1)
	}
	for _, s := range steps {
		l := least
		if s.which == kafkaHA && large {
			l = 1 // seconds to minutes each
		}
		r, err := s.side.run(m.input, s.name, seconds, l)
		if err != nil {
			return err
		}
		if kept := m.runs[s.which].Ms; round > 0 {
			r.Ms = append(kept, r.Ms...)
		} else {
			r.Ms = nil
		}
		m.runs[s.which] = r
	}
	return nil
}

// runner is a process that runs assignors when it is told to: AssignorRounds in Java says how.
type runner struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startOurs(ctx context.Context) (*runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "assign")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	return startRunner(cmd)
}

func (b *bench) startTheirs(ctx context.Context, dir string) (*runner, error) {
	classes, jars := filepath.Join(b.dir, "assignor-classes"), filepath.Join(b.java.Jars, "*")
	compile := exec.CommandContext(ctx, "javac", "-nowarn", "-d", classes, "-cp", jars,
		filepath.Join(dir, "AssignorBench.java"), filepath.Join(dir, "AssignorRounds.java"))
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac: %w\n%s", err, out)
	}
	heap := "-Xmx4g"
	if b.haProcesses > 250 {
		heap = "-Xmx6g" // a lag for every process and task
	}
	return startRunner(exec.CommandContext(ctx, "java", heap, "-XX:+UseSerialGC", "-Dlog4j2.configurationFile="+b.java.Log4j, "-Dlog.level=OFF",
		"-cp", classes+string(os.PathListSeparator)+jars, "AssignorRounds"))
}

func startRunner(cmd *exec.Cmd) (*runner, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	r := &runner{cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	r.lines.Buffer(nil, 1<<20)
	return r, cmd.Start()
}

func (r *runner) run(input, name string, seconds float64, least int) (out runs, err error) {
	if _, err = fmt.Fprintf(r.in, "%s %s %g %d %d\n", input, name, seconds, least, max(least, 500)); err != nil {
		return out, err
	}
	if !r.lines.Scan() {
		return out, fmt.Errorf("%s on %s: no answer (%v)", name, input, r.lines.Err())
	}
	if err = json.Unmarshal(r.lines.Bytes(), &out); err != nil {
		err = fmt.Errorf("%s on %s: %w: %s", name, input, err, r.lines.Bytes())
	}
	return out, err
}

func (r *runner) stop() {
	_ = r.in.Close()
	_ = r.cmd.Wait()
}

// assignorTable has a line a case.
func assignorTable(all []*measured) string {
	var s strings.Builder
	s.WriteString("\n| case | sticky ms | Kafka ms | ratio | bytes a task | Kafka | allocations a task | highly_available ms | of sticky | Kafka ms | bytes a task |\n")
	s.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range all {
		n := float64(m.tasks)
		us, ha, ks, kh := &m.runs[ourSticky], &m.runs[ourHA], &m.runs[kafkaSticky], m.ms(kafkaHA)
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", m.name, number(m.ms(ourSticky)), number(m.ms(kafkaSticky)),
			number(m.ms(ourSticky)/m.ms(kafkaSticky)), number(us.Bytes/n), number(ks.Bytes/n), number(us.Allocated/n),
			number(m.ms(ourHA)), number(m.ms(ourHA)/m.ms(ourStickyOffsets)), number(kh), number(ha.Bytes/n))
	}
	s.WriteString("\n| case | by | active a member | active, standby, all a process | active, all a thread | moved | orphans to a standby | standbys kept |\n")
	s.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, m := range all {
		for _, by := range []struct {
			which int
			name  string
		}{{ourSticky, "coordd's sticky"}, {kafkaSticky, "Kafka's sticky"}, {ourHA, "coordd's highly_available"}, {kafkaHA, "Kafka's ha"}} {
			q := m.runs[by.which].Quality
			if q.Of == 0 {
				continue
			}
			moved, member := fmt.Sprint(q.MovedActiveMember), fmt.Sprint(q.ActiveSpreadMember)
			if by.which == kafkaHA { // knows processes only
				moved, member = fmt.Sprint(q.MovedActiveProcess, " (processes)"), "–"
			}
			fmt.Fprintf(&s, "| %s | %s | %s | %d, %d, %d | %g, %g | %s | %d of %d | %d |\n", m.name, by.name, member, q.ActiveSpreadProcess, q.StandbySpreadProcess,
				q.TotalSpreadProcess, q.ActivePerThreadSpread, q.TotalPerThreadSpread, moved, q.ActiveToFormerStandby, q.Orphans, q.StandbyKept)
		}
	}
	return s.String()
}

// addAssignors adds the worst case of each size to the table.
func (b *bench) addAssignors(all []*measured) {
	var sizes []string
	bySize := map[string][]*measured{}
	for _, m := range all {
		size := strings.Split(m.name, "-")[0]
		if bySize[size] == nil {
			sizes = append(sizes, size)
		}
		bySize[size] = append(bySize[size], m)
	}
	for _, size := range sizes {
		name := strings.Replace(size, "x", " members × ", 1) + " tasks"
		worst := func(ratio func(*measured) float64) (of *measured) {
			for _, m := range bySize[size] {
				if r := ratio(m); !math.IsNaN(r) && (of == nil || r > ratio(of)) {
					of = m
				}
			}
			return of
		}
		between := func(x, y int) func(*measured) float64 {
			return func(m *measured) float64 { return m.ms(x) / m.ms(y) }
		}
		m := worst(between(ourSticky, kafkaSticky))
		b.table.add(fmt.Sprintf("sticky, %s, worst of %d cases: %s", name, len(bySize[size]), m.name), "ms",
			m.ms(ourSticky), m.ms(kafkaSticky), bar{ratioAtMost, 0.5})
		m = worst(func(m *measured) float64 { return m.runs[ourSticky].Bytes })
		n := float64(m.tasks)
		b.table.add(fmt.Sprintf("sticky, %s, most memory: %s", name, m.name), "bytes allocated a task", m.runs[ourSticky].Bytes/n, m.runs[kafkaSticky].Bytes/n, bar{})
		m = worst(func(m *measured) float64 { return m.runs[ourSticky].Allocated })
		b.table.add(fmt.Sprintf("sticky, %s, most allocations: %s", name, m.name), "a task", m.runs[ourSticky].Allocated/float64(m.tasks), math.NaN(), bar{})
		m = worst(between(ourHA, ourStickyOffsets))
		b.table.add(fmt.Sprintf("highly_available, %s, worst case: %s", name, m.name), "of coordd's sticky", m.ms(ourHA)/m.ms(ourStickyOffsets), math.NaN(), bar{atMost, 2})
		if m = worst(between(ourHA, kafkaHA)); m != nil {
			b.table.add(fmt.Sprintf("highly_available, %s, worst case: %s", name, m.name), "ms", m.ms(ourHA), m.ms(kafkaHA), bar{ratioAtMost, 0.5})
		}
	}
	worse := 0
	for _, m := range all {
		if k := m.runs[kafkaSticky].Quality; k.Of > 0 && len(cases.Worse(m.runs[ourSticky].Quality, k)) > 0 {
			worse++
		}
	}
	b.table.add("sticky: cases in which tasks are spread worse, or more move, than by Kafka's", "count", float64(worse), math.NaN(), bar{atMost, 0})
}
