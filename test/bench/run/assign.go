package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/test/bench/cases"
)

// assign is the process that runs coordd's assignors: the counterpart of AssignorRounds.
func assign() error {
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	var loaded string
	var plain assignor.Spec
	for lines.Scan() {
		var input, name string
		var seconds float64
		var least, most int
		if _, err := fmt.Sscan(lines.Text(), &input, &name, &seconds, &least, &most); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if input != loaded {
			var err error
			if plain, err = cases.Load(filepath.Dir(input), strings.TrimSuffix(filepath.Base(input), ".in.json.gz")); err != nil {
				return err
			}
			loaded = input
		}
		a, spec := assignor.Sticky(), plain
		switch name {
		case "sticky-offsets":
			spec = cases.WithOffsets(plain)
		case "highly_available":
			a, spec = assignor.HighlyAvailable(), cases.WithOffsets(plain)
		}
		r, err := timed(a, spec, seconds, least, most)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// timed runs an assignor for so many seconds of CPU time, at least least and at most most times. What its garbage takes to collect
// counts, since it is collected by the same thread.
func timed(a assignor.Assignor, spec assignor.Spec, seconds float64, least, most int) (r runs, err error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var result assignor.Assignment
	r.Ms = make([]float64, 0, most)
	for spent := 0.0; len(r.Ms) < least || len(r.Ms) < most && spent < seconds; {
		from := cpuTime()
		if result, err = a.Assign(spec); err != nil {
			return r, err
		}
		took := (cpuTime() - from).Seconds()
		spent += took
		r.Ms = append(r.Ms, 1000*took)
	}
	runtime.ReadMemStats(&after)
	n := float64(len(r.Ms))
	r.Bytes, r.Allocated = float64(after.TotalAlloc-before.TotalAlloc)/n, float64(after.Mallocs-before.Mallocs)/n
	r.Quality = cases.Measure(spec, result)
	return r, nil
}
