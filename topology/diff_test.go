package topology

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// change is a Change in which null and empty lists are the same.
func change(c *Change) Change {
	n := *c
	for _, list := range [...]*[]string{&n.Kept, &n.Changed, &n.New, &n.Lost, &n.Orphaned} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	if len(n.Counts) == 0 {
		n.Counts = nil
	}
	return n
}

func TestDiff(t *testing.T) {
	const count = "sub 0 source=in sink=r\nsub 1 repartition=r changelog=store\n"
	for _, test := range []struct {
		name, topics, from, to string
		want                   Change
	}{
		{"nothing", "topic in 4", count, count, Change{Kept: []string{"0", "1"}}},
		{"other order", "topic in 4", count, "sub 1 repartition=r changelog=store\nsub 0 source=in sink=r", Change{Kept: []string{"0", "1"}}},
		{"one more", "topic in 4\ntopic other 2", count, count + "sub 10 source=other\nsub 2 source=other2",
			Change{Kept: []string{"0", "1"}, New: []string{"2", "10"}}},
		{"one less, its topics are left over", "topic in 4", count, "sub 0 source=in",
			Change{Changed: []string{"0"}, Lost: []string{"1"}, Orphaned: []string{"r", "store"}}},
		{"a store under another name", "topic in 4", count, "sub 0 source=in sink=r\nsub 1 repartition=r changelog=store2",
			Change{Kept: []string{"0"}, Changed: []string{"1"}, Orphaned: []string{"store"}}},
		{"the same under another id", "topic in 4", "sub 0 source=in changelog=store", "sub 1 source=in changelog=store",
			Change{New: []string{"1"}, Lost: []string{"0"}}},
		{"a store that moves to another subtopology is not left over", "topic in 4\ntopic b 4",
			"sub 0 source=in changelog=store\nsub 1 source=b", "sub 0 source=in\nsub 1 source=b changelog=store",
			Change{Changed: []string{"0", "1"}}},
		{"an internal topic that becomes a source is not left over", "topic in 4", count, "sub 0 source=in sink=r\nsub 1 source=r",
			Change{Kept: []string{"0"}, Changed: []string{"1"}, Orphaned: []string{"store"}}},
		{"one that a pattern reads", "topic in 4\ntopic store 4", "sub 0 source=in changelog=store\nsub 1 source=x", "sub 0 source=in\nsub 1 source=x regex=st.*",
			Change{Changed: []string{"0", "1"}}},
		{"the changelog of an optimised table is the user's own topic", "topic in 4", "sub 0 source=in changelog=in", "sub 0 source=in",
			Change{Changed: []string{"0"}}},
		{"a fixed count", "topic in 4", count, "sub 0 source=in sink=r\nsub 1 repartition=r:6 changelog=store",
			Change{Kept: []string{"0"}, Changed: []string{"1"}, Counts: []CountChange{{"r", 4, 6}, {"store", 4, 6}}}},
		{"a count that follows from another source, in a subtopology that is kept", "topic in 4\ntopic wide 8", count,
			"sub 0 source=wide sink=r\nsub 1 repartition=r changelog=store",
			Change{Kept: []string{"1"}, Changed: []string{"0"}, Counts: []CountChange{{"r", 4, 8}, {"store", 4, 8}}}},
		{"counts do not follow from what was created before", "topic in 4\ntopic wide 8\ntopic r 4\ntopic store 4", count,
			"sub 0 source=wide sink=r\nsub 1 repartition=r changelog=store",
			Change{Kept: []string{"1"}, Changed: []string{"0"}, Counts: []CountChange{{"r", 4, 8}, {"store", 4, 8}}}},
		{"counts that are not known are not compared", "topic wide 8", count, "sub 0 source=wide sink=r\nsub 1 repartition=r changelog=store",
			Change{Kept: []string{"1"}, Changed: []string{"0"}}},
		{"everything", "topic in 4", "", count, Change{New: []string{"0", "1"}}},
		{"ids that are no numbers", "", "sub b source=x\nsub 2 source=y", "sub a source=x\nsub 10 source=y\nsub 9 source=z",
			Change{New: []string{"9", "10", "a"}, Lost: []string{"2", "b"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			from, _ := parseTopology(t, test.from)
			to, _ := parseTopology(t, test.to)
			_, topics := parseTopology(t, test.topics)
			if diff := cmp.Diff(test.want, change(Diff(from, to, topics))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDiffWithoutMetadata compares what topologies declare themselves.
func TestDiffWithoutMetadata(t *testing.T) {
	from, _ := parseTopology(t, "sub 0 source=in repartition=r:4 changelog=store")
	to, _ := parseTopology(t, "sub 0 source=in repartition=r:5 changelog=store")
	want := Change{Changed: []string{"0"}, Counts: []CountChange{{"r", 4, 5}}}
	if diff := cmp.Diff(want, change(Diff(from, to, nil))); diff != "" {
		t.Error(diff)
	}
}

// TestDiffNamesEverySubtopologyOnce, the same in any order of input, and nothing changes where both are equal.
func TestDiffNamesEverySubtopologyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		topics := fakeMetadata{"a": 2, "b": 3}
		draw := func(name string) *Topology {
			top := &Topology{}
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0", "1", "2", "10", "x"}), 0, 4, rapid.ID).Draw(rt, name) {
				s := Subtopology{ID: id, SourceTopics: []string{rapid.SampledFrom([]string{"a", "b", "absent"}).Draw(rt, "source")}}
				if store := rapid.SampledFrom([]string{"", "store-" + id, "other"}).Draw(rt, "store"); store != "" {
					s.StateChangelogTopics = []InternalTopic{{Name: store}}
				}
				top.Subtopologies = append(top.Subtopologies, s)
			}
			return top
		}
		from, to := draw("from"), draw("to")
		c := Diff(from, to, topics)
		var got, want []string
		got = slices.Concat(c.Kept, c.Changed, c.New, c.Lost)
		for _, top := range [...]*Topology{from, to} {
			for _, s := range top.Subtopologies {
				want = append(want, s.ID)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if want = slices.Compact(want); strings.Join(got, " ") != strings.Join(want, " ") {
			rt.Fatalf("subtopologies %v, named %v", want, got)
		}
		shuffled := to.Clone()
		rand.New(rand.NewSource(int64(len(got)))).Shuffle(len(shuffled.Subtopologies), func(i, j int) {
			s := shuffled.Subtopologies
			s[i], s[j] = s[j], s[i]
		})
		if diff := cmp.Diff(c, Diff(from, shuffled, topics)); diff != "" {
			rt.Fatalf("in another order: %s", diff)
		}
		if same := Diff(to, shuffled, topics); !same.Same() || len(same.Orphaned) != 0 || len(same.Counts) != 0 {
			rt.Fatalf("no change: %+v", same)
		}
	})
}

// TestOrphansAreWhatNobodyReadsOrWrites compares the sets that Diff makes with the question asked for each topic.
func TestOrphansAreWhatNobodyReadsOrWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "ab", "bc"})
		draw := func(label string) *Topology {
			top := &Topology{}
			for _, id := range []string{"0", "1"} {
				s := Subtopology{
					ID: id, SourceTopics: rapid.SliceOfN(name, 0, 2).Draw(rt, label), RepartitionSinkTopics: rapid.SliceOfN(name, 0, 1).Draw(rt, label),
					SourceTopicRegex: rapid.SliceOfN(rapid.SampledFrom([]string{"a.*", ".*c", "x"}), 0, 1).Draw(rt, label),
				}
				for _, list := range [...]*[]InternalTopic{&s.RepartitionSourceTopics, &s.StateChangelogTopics} {
					for _, n := range rapid.SliceOfN(name, 0, 2).Draw(rt, label) {
						*list = append(*list, InternalTopic{Name: n})
					}
				}
				top.Subtopologies = append(top.Subtopologies, s)
			}
			return top
		}
		from, to := draw("from"), draw("to")
		before, after := neededCounts(from, nil), neededCounts(to, nil)
		want := []string{}
		for topic := range before {
			_, internal := after[topic]
			written := slices.ContainsFunc(to.Subtopologies, func(s Subtopology) bool { return slices.Contains(s.RepartitionSinkTopics, topic) })
			if !internal && !written && !to.Reads(topic) {
				want = append(want, topic)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, Diff(from, to, nil).Orphaned); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestDiffSubtopologiesLeavesTopicsOut: a refused join asks for no more.
func TestDiffSubtopologiesLeavesTopicsOut(t *testing.T) {
	from, _ := parseTopology(t, "sub 0 source=in repartition=r:4 changelog=store\nsub 1 source=in\nsub 2 source=in")
	to, _ := parseTopology(t, "sub 0 source=in repartition=r:5\nsub 1 source=in\nsub 3 source=in")
	want := Change{Kept: []string{"1"}, Changed: []string{"0"}, New: []string{"3"}, Lost: []string{"2"}}
	if diff := cmp.Diff(want, change(DiffSubtopologies(from, to))); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkDiff is of the largest topologies that fit into a request, which have nothing in common.
func BenchmarkDiff(b *testing.B) {
	large := func(prefix string) *Topology {
		s := Subtopology{ID: "0"}
		for i := range 25_000 {
			s.SourceTopics = append(s.SourceTopics, fmt.Sprint(prefix, "s", i))
		}
		for i := range 13_000 {
			s.StateChangelogTopics = append(s.StateChangelogTopics, InternalTopic{Name: fmt.Sprint(prefix, "c", i)})
		}
		return &Topology{Subtopologies: []Subtopology{s}}
	}
	from, to := large("a"), large("b")
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			Diff(from, to, nil)
		}
	})
	b.Run("subtopologies", func(b *testing.B) {
		for b.Loop() {
			DiffSubtopologies(from, to)
		}
	})
	c := &Configured{Subtopologies: []ConfiguredSubtopology{{ID: "0", SourceTopics: sortedSet(from.Subtopologies[0].SourceTopics)}}}
	b.Run("sizes", func(b *testing.B) {
		for b.Loop() {
			SizesOf(from, c)
		}
	})
}
