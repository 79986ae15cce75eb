package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestSizesGiveTheConfigurationAgain: the numbers and the topology are all that a configuration is made of.
func TestSizesGiveTheConfigurationAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, m := drawTopology(t)
		c, err := Configure(top, m)
		if err != nil || c.Subtopologies == nil {
			if SizesOf(top, c) != nil {
				t.Fatal("numbers of nothing")
			}
			return
		}
		sizes := SizesOf(top, c)
		if !sizes.Equal(SizesOf(top, c)) {
			t.Fatal("not equal to itself")
		}
		want := *c
		want.Create, want.Problem = nil, nil
		if diff := cmp.Diff(&want, sizes.Configured(top, c.Hash), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestSizesOfAnotherTopology: numbers that do not belong to the topology give nothing.
func TestSizesOfAnotherTopology(t *testing.T) {
	top, m := parseTopology(t, "topic in 3\nsub 0 source=in changelog=cl\nsub 1 repartition=r:2")
	m["cl"], m["r"] = 3, 2
	c, err := Configure(top, m)
	if err != nil || !c.Ready() {
		t.Fatal(c, err)
	}
	for name, change := range map[string]func(*Topology, Sizes) Sizes{
		"none":                func(_ *Topology, z Sizes) Sizes { return nil },
		"fewer":               func(_ *Topology, z Sizes) Sizes { return z[:1] },
		"another subtopology": func(t *Topology, z Sizes) Sizes { t.Subtopologies[1].ID = "2"; return z },
		"one twice":           func(_ *Topology, z Sizes) Sizes { return Sizes{z[0], z[0]} },
		"another changelog":   func(t *Topology, z Sizes) Sizes { t.Subtopologies[0].StateChangelogTopics = nil; return z },
		"another repartition": func(t *Topology, z Sizes) Sizes { t.Subtopologies[1].RepartitionSourceTopics = nil; return z },
		"a negative number":   func(_ *Topology, z Sizes) Sizes { z[0].Tasks = -1; return z },
	} {
		other := top.Clone()
		if got := change(other, SizesOf(top, c)).Configured(other, 1); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A topic that a pattern matched is a source, though the topology does not name it.
	z := SizesOf(top, c)
	z[0].Matched = []string{"extra"}
	if got := z.Configured(top, 1).Subtopologies[0].SourceTopics; !cmp.Equal(got, []string{"extra", "in"}) {
		t.Error(got)
	}
	if z.Equal(SizesOf(top, c)) {
		t.Error("equal although a topic was matched")
	}
}
