// Command oracle records what a Kafka broker answers to Kafka Streams group requests (KIP-1071) and checks that another
// server answers the same.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/test/conformance"
)

const usage = `usage:
  oracle record --bootstrap HOST:PORT --scenarios DIR --golden DIR [options]
  oracle check  --bootstrap HOST:PORT --scenarios DIR --golden DIR [options]
  oracle lint   --scenarios DIR
options:
`

// Exit codes.
const (
	exitFailed    = 1
	exitCannotRun = 2
)

type flags struct {
	options              conformance.Options
	scenarios, golden    string
	differences          string
	run, suffix, between string
	skipTags, json       string
	messages, slow, all  bool
	verbose              bool
	parallel             int
}

func parse(args []string) (*flags, error) {
	f := &flags{}
	fs := flag.NewFlagSet("oracle", flag.ContinueOnError)
	fs.StringVar(&f.options.Bootstrap, "bootstrap", "", "HOST:PORT of the server under test")
	fs.StringVar(&f.options.TopicsBootstrap, "topics-bootstrap", "", "HOST:PORT where topics are created and listed (default: the same as --bootstrap)")
	fs.StringVar(&f.scenarios, "scenarios", "scenarios", "folder of scenario files")
	fs.StringVar(&f.golden, "golden", "golden/kafka-4.4.0", "folder of recorded answers")
	fs.StringVar(&f.differences, "differences", "", "file of steps that may differ, and what they must be answered with")
	fs.StringVar(&f.run, "run", "", "only scenarios whose name matches this regular expression")
	fs.StringVar(&f.json, "json", "", "also write the results to this file as JSON")
	fs.BoolVar(&f.messages, "messages", false, "also compare error messages and status details")
	fs.BoolVar(&f.options.Repeats, "repeats", false, "the server repeats task lists that a member has not acknowledged for a heartbeat interval, as coordd does")
	fs.BoolVar(&f.slow, "slow", false, "also run scenarios tagged slow")
	fs.StringVar(&f.skipTags, "skip-tags", "", "comma-separated; leaves out scenarios with one of these tags, such as other-types")
	fs.BoolVar(&f.all, "all", false, "print every differing step, not only the first")
	fs.IntVar(&f.parallel, "parallel", 3, "scenarios run at the same time")
	fs.StringVar(&f.suffix, "suffix", "", "text added to all group and topic names, to run again on a server that is not fresh")
	fs.StringVar(&f.between, "between-steps", "", "shell command to run between any two steps; GROUPS holds the scenario's group ids")
	propagation := fs.Int("propagation-ms", 150, "extra wait after the coordinator has seen a topic or config change")
	fs.DurationVar(&f.options.Patience, "patience", 20*time.Second, "how long to retry while the server is unreachable or the coordinator is loading")
	fs.BoolVar(&f.verbose, "v", false, "print every step's answer")
	fs.Usage = func() {
		_, _ = io.WriteString(fs.Output(), usage)
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	f.options.Propagation = time.Duration(*propagation) * time.Millisecond
	if f.between != "" {
		f.options.BeforeStep = f.betweenSteps
	}
	return f, nil
}

func (f *flags) betweenSteps(s *conformance.Scenario, nr int) (func(), error) {
	if nr > 1 {
		cmd := exec.Command("sh", "-c", f.between)
		cmd.Env = append(os.Environ(), "GROUPS="+strings.Join(s.Groups(), " "))
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("--between-steps: %w: %s", err, out)
		}
	}
	return func() {}, nil
}

type result struct {
	Scenario string  `json:"scenario"`
	Status   string  `json:"status"` // ok, FAIL, recorded
	Step     string  `json:"step,omitempty"`
	Diff     string  `json:"diff,omitempty"`
	Failing  int     `json:"failing_steps"`
	Steps    int     `json:"steps"`
	Seconds  float64 `json:"seconds"`

	text string
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return exitCannotRun
	}
	command := args[0]
	f, err := parse(args[1:])
	if err != nil {
		return exitCannotRun
	}
	if err := execute(command, f); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		if errors.Is(err, errFailed) {
			return exitFailed
		}
		return exitCannotRun
	}
	return 0
}

var errFailed = errors.New("not all scenarios passed")

func execute(command string, f *flags) error {
	scenarios, err := conformance.LoadScenarios(f.scenarios, f.suffix)
	if err != nil {
		return err
	}
	switch {
	case command == "lint":
		fmt.Printf("%d scenarios parse\n", len(scenarios))
		return nil
	case command != "record" && command != "check":
		return fmt.Errorf("unknown command %q, want record, check or lint", command)
	case f.options.Bootstrap == "":
		return errors.New("--bootstrap is missing")
	}
	var differences []conformance.Difference
	if f.differences != "" {
		if differences, err = conformance.LoadDifferences(f.differences); err != nil {
			return err
		}
	}
	todo, skipped, err := f.choose(scenarios)
	if err != nil {
		return err
	}
	if command == "record" {
		if err := os.MkdirAll(f.golden, 0o755); err != nil {
			return err
		}
	}
	if err := conformance.Ping(f.options); err != nil {
		return err
	}
	return f.report(f.play(command, todo, differences), skipped)
}

// choose leaves out scenarios by name, tag and length.
func (f *flags) choose(all []*conformance.Scenario) (todo []*conformance.Scenario, skipped int, err error) {
	re, err := regexp.Compile(f.run)
	if err != nil {
		return nil, 0, fmt.Errorf("--run: %w", err)
	}
	for _, s := range all {
		switch {
		case !re.MatchString(s.Name):
		case s.Slow && !f.slow, s.HasTag(strings.Split(f.skipTags, ",")...):
			skipped++
		default:
			todo = append(todo, s)
		}
	}
	return todo, skipped, nil
}

// play runs the scenarios, some at a time, and prints each result as it comes.
func (f *flags) play(command string, todo []*conformance.Scenario, differences []conformance.Difference) []result {
	var mu sync.Mutex
	var results []result
	var wg sync.WaitGroup
	work := make(chan *conformance.Scenario)
	for range max(1, f.parallel) {
		wg.Go(func() {
			for s := range work {
				start := time.Now()
				answers := conformance.Run(s, f.options)
				res := result{Scenario: s.Name, Steps: s.NumSteps(), Seconds: time.Since(start).Seconds()}
				if f.verbose {
					b, _ := conformance.Marshal(answers)
					res.text = string(b)
				}
				if command == "record" {
					f.record(&res, answers)
				} else {
					f.check(&res, s, answers, differences)
				}
				mu.Lock()
				results = append(results, res)
				fmt.Printf("%-9s%s (%.1fs)\n%s", res.Status, s.Name, res.Seconds, res.text)
				mu.Unlock()
			}
		})
	}
	for _, s := range todo {
		work <- s
	}
	close(work)
	wg.Wait()
	return results
}

func (f *flags) record(res *result, answers *conformance.Answers) {
	res.Status = "recorded"
	for _, a := range answers.Steps {
		if why := a.Failure(); why != "" {
			res.Status, res.Step, res.Diff = "FAIL", fmt.Sprintf("step %d: %s", a.N, a.Step), why
			res.Failing++
			res.text += fmt.Sprintf("     %s: %s\n", res.Step, res.Diff)
		}
	}
	if err := conformance.Record(f.golden, answers); err != nil {
		res.Status, res.Diff = "FAIL", err.Error()
		res.text += "     " + err.Error() + "\n"
	}
}

func (f *flags) check(res *result, s *conformance.Scenario, answers *conformance.Answers, differences []conformance.Difference) {
	var mismatches []conformance.Mismatch
	want, err := conformance.Golden(f.golden, s.Name)
	if err == nil {
		mismatches, err = conformance.Check(s, want, answers, differences, f.messages)
	}
	switch {
	case err != nil:
		res.Status, res.Diff = "FAIL", err.Error()
		res.text += "     " + err.Error() + "\n"
	case len(mismatches) == 0:
		res.Status = "ok"
	default:
		res.Status, res.Step, res.Diff, res.Failing = "FAIL", mismatches[0].Step, mismatches[0].Text, len(mismatches)
		for i, m := range mismatches {
			if i == 0 || f.all {
				res.text += fmt.Sprintf("     %s\n       %s\n", m.Step, strings.ReplaceAll(m.Text, "\n", "\n       "))
			}
		}
		if len(mismatches) > 1 && !f.all {
			res.text += fmt.Sprintf("     (and %d more of %d steps differ; --all shows them)\n", len(mismatches)-1, res.Steps)
		}
	}
}

// report prints the totals and writes the results where asked for.
func (f *flags) report(results []result, skipped int) error {
	passed, failed := 0, 0
	for _, r := range results {
		if r.Status == "FAIL" {
			failed++
		} else {
			passed++
		}
	}
	if f.json != "" {
		b, err := json.MarshalIndent(map[string]any{"results": results, "passed": passed, "failed": failed, "skipped": skipped}, "", "  ")
		if err == nil {
			err = os.WriteFile(f.json, append(b, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if skipped > 0 {
		fmt.Printf("%d skipped (slow without --slow, or by --skip-tags)\n", skipped)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return errFailed
	}
	return nil
}
