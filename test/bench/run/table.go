package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// row is one figure: what coordd and Kafka measured in the same run, and what is asked for.
type row struct {
	what          string
	unit          string
	coordd, kafka float64 // NaN when not measured
	bar           bar
}

// bar is what a figure must keep: a limit of the ratio coordd/Kafka or of coordd's own value.
type bar struct {
	kind  barKind
	limit float64
}

type barKind int

const (
	none         barKind = iota
	ratioAtMost          // coordd/Kafka
	ratioAtLeast         // coordd/Kafka
	atMost               // coordd alone
	below                // coordd alone
)

func (r row) ratio() float64 { return r.coordd / r.kafka }

func (r row) keeps() bool {
	switch r.bar.kind {
	case ratioAtMost:
		return r.ratio() <= r.bar.limit
	case ratioAtLeast:
		return r.ratio() >= r.bar.limit
	case atMost:
		return r.coordd <= r.bar.limit
	case below:
		return r.coordd < r.bar.limit
	default:
		return true
	}
}

func (b bar) String() string {
	switch b.kind {
	case ratioAtMost:
		return fmt.Sprintf("≤ %g × Kafka's", b.limit)
	case ratioAtLeast:
		return fmt.Sprintf("≥ %g × Kafka's", b.limit)
	case atMost:
		return fmt.Sprintf("≤ %g", b.limit)
	case below:
		return fmt.Sprintf("< %g", b.limit)
	default:
		return ""
	}
}

// table collects the figures of a run.
type table struct{ rows []row }

func (t *table) add(what, unit string, coordd, kafka float64, b bar) {
	t.rows = append(t.rows, row{what, unit, coordd, kafka, b})
}

func (t *table) missed() (n int) {
	for _, r := range t.rows {
		if !r.keeps() {
			n++
		}
	}
	return n
}

func (t *table) markdown() string {
	var s strings.Builder
	s.WriteString("| figure | coordd | Kafka 4.4 | ratio | bar | kept |\n|---|---|---|---|---|---|\n")
	for _, r := range t.rows {
		kept := ""
		if r.bar.kind != none {
			kept = "yes"
			if !r.keeps() {
				kept = "**no**"
			}
		}
		fmt.Fprintf(&s, "| %s (%s) | %s | %s | %s | %s | %s |\n", r.what, r.unit, number(r.coordd), number(r.kafka), number(r.ratio()), r.bar, kept)
	}
	return s.String()
}

// number prints three significant digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// median of the values of a field; NaN of none.
func median(rs []result, field string) float64 {
	var v []float64
	for _, r := range rs {
		v = append(v, r.num(field))
	}
	return medianOf(v)
}

func medianOf(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// largest value of a field; 0 of none.
func largest(rs []result, field string) (most float64) {
	for _, r := range rs {
		most = max(most, r.num(field))
	}
	return most
}

// sum of the values of a field.
func sum(rs []result, field string) (s float64) {
	for _, r := range rs {
		s += r.num(field)
	}
	return s
}

func where(rs []result, keep func(result) bool) (out []result) {
	for _, r := range rs {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// machine describes what the figures were measured on.
func machine() string {
	cpu := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, found := strings.CutPrefix(line, "model name"); found {
				cpu = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	java := "no java"
	if out, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		java, _, _ = strings.Cut(string(out), "\n")
	}
	load := ""
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 3 {
			load = ", load at the end " + strings.Join(f[:3], " ")
		}
	}
	return fmt.Sprintf("Machine: %d cores (%s), %s, %s, %s; client and server share the cores; %s%s.",
		runtime.NumCPU(), cpu, runtime.GOOS, runtime.Version(), java, time.Now().UTC().Format("2 Jan 2006"), load)
}
