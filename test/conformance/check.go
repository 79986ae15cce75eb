package conformance

import (
	"fmt"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"
)

// Difference is a step at which the server under test answers something else than Kafka, on purpose.
type Difference struct {
	Scenario string `yaml:"scenario"`
	Step     int    `yaml:"step"`
	Reason   string `yaml:"reason"`
	// Answer is the whole answer that is promised instead; it is compared as the step is.
	Answer any `yaml:"answer"`
}

// LoadDifferences reads lists of differences.
func LoadDifferences(files ...string) ([]Difference, error) {
	var all []Difference
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var list []Difference
		if err := yaml.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range list {
			if d.Scenario == "" || d.Step < 1 || d.Reason == "" || d.Answer == nil {
				return nil, fmt.Errorf("%s: each entry needs scenario, step, reason and answer: %s step %d has not", file, d.Scenario, d.Step)
			}
		}
		all = append(all, list...)
	}
	return all, nil
}

// Golden is the recorded answers of a scenario.
func Golden(dir, scenario string) (*Answers, error) {
	raw, err := os.ReadFile(goldenFile(dir, scenario))
	if err != nil {
		return nil, fmt.Errorf("no golden: %w", err)
	}
	var a Answers
	if err := yaml.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", goldenFile(dir, scenario), err)
	}
	return &a, nil
}

// Record writes the answers of a scenario as its golden.
func Record(dir string, a *Answers) error {
	b, err := Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(goldenFile(dir, a.Scenario), b, 0o644)
}

func goldenFile(dir, scenario string) string { return filepath.Join(dir, scenario+".yaml") }

// Mismatch is a step that was answered otherwise than expected.
type Mismatch struct {
	N          int // counted from 1
	Step, Text string
}

// Check compares answers with the recorded ones of want, and with the promised ones where a difference is listed. A listed
// step that answers as Kafka does is a mismatch, too: the list must not outlive its entries. Error messages and status
// details are compared only when asked for; they may say more than Kafka's.
func Check(s *Scenario, want, got *Answers, differences []Difference, messages bool) ([]Mismatch, error) {
	if len(want.Steps) != len(s.steps) {
		return nil, fmt.Errorf("the golden has %d steps, the scenario %d: record it again", len(want.Steps), len(s.steps))
	}
	promised := map[int]Difference{}
	for _, d := range differences {
		if d.Scenario != s.Name {
			continue
		}
		if d.Step > len(s.steps) {
			return nil, fmt.Errorf("a difference is listed for step %d of %s, which has %d", d.Step, s.Name, len(s.steps))
		}
		promised[d.Step] = d
	}
	// The same journey through YAML for both, so that number types agree.
	b, err := Marshal(got)
	if err != nil {
		return nil, err
	}
	var have Answers
	if err := yaml.Unmarshal(b, &have); err != nil {
		return nil, err
	}
	var out []Mismatch
	for i, st := range s.steps {
		title := fmt.Sprintf("step %d: %s", i+1, want.Steps[i].Step)
		w, h := reduce(want.Steps[i].Out, st, messages), reduce(have.Steps[i].Out, st, messages)
		text := firstDiff("", w, h)
		if d, listed := promised[i+1]; listed {
			if text == "" && messages {
				out = append(out, Mismatch{i + 1, title, "answers as Kafka does, although a difference is listed: " + d.Reason})
				continue
			}
			title += " (listed difference)"
			text = firstDiff("", reduce(d.Answer, st, messages), h)
		}
		if text != "" {
			out = append(out, Mismatch{i + 1, title, text})
		}
	}
	return out, nil
}
