package main

import (
	"math"
	"strings"
	"testing"
)

func TestRowKeeps(t *testing.T) {
	for _, c := range []struct {
		coordd, kafka float64
		bar           bar
		keeps         bool
	}{
		{5, 10, bar{ratioAtMost, 0.5}, true},
		{5.1, 10, bar{ratioAtMost, 0.5}, false},
		{20, 10, bar{ratioAtLeast, 2}, true},
		{19, 10, bar{ratioAtLeast, 2}, false},
		{1, 10, bar{below, 1}, false},
		{0.99, 10, bar{below, 1}, true},
		{0, 0, bar{atMost, 0}, true},
		{1, 0, bar{atMost, 0}, false},
		{8, math.NaN(), bar{atMost, 8}, true},
		{1, math.NaN(), bar{}, true},
		{math.NaN(), 1, bar{below, 1}, false}, // what was not measured keeps no bar
		{1, math.NaN(), bar{ratioAtMost, 1}, false},
	} {
		if got := (row{"", "", c.coordd, c.kafka, c.bar}).keeps(); got != c.keeps {
			t.Errorf("%v against %v, bar %q: keeps %v", c.coordd, c.kafka, c.bar, got)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var tab table
	tab.add("rate", "per s", 123456, 45.67, bar{ratioAtLeast, 2})
	tab.add("gap", "s", 0.51234, 9.87, bar{below, 0.5})
	out := tab.markdown()
	for _, want := range []string{
		"| rate (per s) | 123456 | 45.7 | 2703 | ≥ 2 × Kafka's | yes |",
		"| gap (s) | 0.512 | 9.87 | 0.052 | < 0.5 | **no** |",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
	if tab.missed() != 1 {
		t.Errorf("%d missed", tab.missed())
	}
}

func TestMedianOf(t *testing.T) {
	if m := medianOf([]float64{3, 1, 2}); m != 2 {
		t.Error(m)
	}
	if m := medianOf([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Error(m)
	}
	if m := medianOf(nil); !math.IsNaN(m) {
		t.Error(m)
	}
}
