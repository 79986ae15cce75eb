package topology

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fakeMetadata maps topic names to partition counts.
type fakeMetadata map[string]int32

func (m fakeMetadata) Topic(name string) (Topic, bool) {
	n, ok := m[name]
	return Topic{Name: name, Partitions: n}, ok
}

func (m fakeMetadata) Names() []string { return slices.Sorted(maps.Keys(m)) }

// parseTopology reads lines `topic NAME COUNT` and `sub ID key=list...`; see testdata/configure.txt.
func parseTopology(t testing.TB, input string) (*Topology, fakeMetadata) {
	top, m := &Topology{Epoch: 3}, fakeMetadata{}
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		switch f[0] {
		case "topic":
			m[f[1]] = parseInt(t, f[2])
		case "sub":
			top.Subtopologies = append(top.Subtopologies, parseSubtopology(t, f[1], f[2:]))
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return top, m
}

func parseSubtopology(t testing.TB, id string, fields []string) Subtopology {
	s := Subtopology{ID: id}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		names := strings.Split(value, ",")
		switch key {
		case "source":
			s.SourceTopics = names
		case "regex":
			s.SourceTopicRegex = names
		case "sink":
			s.RepartitionSinkTopics = names
		case "repartition":
			s.RepartitionSourceTopics = parseInternal(t, names)
		case "changelog":
			s.StateChangelogTopics = parseInternal(t, names)
		case "copartition":
			s.CopartitionGroups = append(s.CopartitionGroups, parseCopartition(&s, names))
		default:
			t.Fatalf("unknown field %q", field)
		}
	}
	return s
}

func parseInternal(t testing.TB, names []string) []InternalTopic {
	var topics []InternalTopic
	for _, name := range names {
		name, rest, _ := strings.Cut(name, ":")
		it := InternalTopic{Name: name}
		for i, part := range strings.Split(rest, ":") {
			switch {
			case part == "":
			case i == 0:
				it.Partitions = parseInt(t, part)
			case i == 1:
				it.ReplicationFactor = int16(parseInt(t, part))
			default:
				key, value, _ := strings.Cut(part, "~")
				it.Configs = append(it.Configs, Config{key, value})
			}
		}
		topics = append(topics, it)
	}
	return topics
}

func parseCopartition(s *Subtopology, names []string) CopartitionGroup {
	var g CopartitionGroup
	for _, name := range names {
		if i := indexByName(s.RepartitionSourceTopics, name); i >= 0 {
			g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
			continue
		}
		for i, source := range s.SourceTopics {
			if source == name {
				g.SourceTopics = append(g.SourceTopics, int16(i))
			}
		}
		if i := slices.Index(s.SourceTopicRegex, name); i >= 0 {
			g.SourceTopicRegex = append(g.SourceTopicRegex, int16(i))
		}
	}
	return g
}

func parseInt(t testing.TB, s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func printConfigured(c *Configured, err error) string {
	var b strings.Builder
	if err != nil {
		return "invalid: " + err.Error() + "\n"
	}
	for _, s := range c.Subtopologies {
		fmt.Fprintf(&b, "%s: %d tasks", s.ID, s.NumTasks)
		if s.Stateful {
			b.WriteString(" stateful")
		}
		printNames(&b, "source", s.SourceTopics)
		printNames(&b, "repartition", printInternal(s.RepartitionSources))
		printNames(&b, "changelog", printInternal(s.Changelogs))
		printNames(&b, "sink", s.SinkTopics)
		b.WriteString("\n")
	}
	for _, it := range c.Create {
		fmt.Fprintf(&b, "create %s:%d rf=%d %v\n", it.Name, it.Partitions, it.ReplicationFactor, it.Configs)
	}
	if c.Problem != nil {
		fmt.Fprintf(&b, "%v\n", c.Problem)
	} else {
		b.WriteString("ready\n")
	}
	return b.String()
}

func printNames(b *strings.Builder, key string, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(b, " %s=%s", key, strings.Join(names, ","))
	}
}

func printInternal(topics []InternalTopic) (names []string) {
	for _, it := range topics {
		names = append(names, fmt.Sprintf("%s:%d", it.Name, it.Partitions))
	}
	return names
}

func TestConfigure(t *testing.T) {
	datadriven.RunTest(t, "testdata/configure.txt", func(t *testing.T, d *datadriven.TestData) string {
		top, m := parseTopology(t, d.Input)
		switch d.Cmd {
		case "configure":
			if err := Validate(top); err != nil {
				return "refused: " + err.Error() + "\n"
			}
			return printConfigured(Configure(top, m))
		case "run": // creates what is missing and configures again
			c, err := Configure(top, m)
			if err != nil {
				return "invalid: " + err.Error() + "\n"
			}
			for _, it := range c.Create {
				m[it.Name] = it.Partitions
			}
			return printConfigured(Configure(top, m))
		}
		t.Fatalf("unknown command %s", d.Cmd)
		return ""
	})
}

// Chains are the worst order for a fixpoint: the last subtopology has to wait for all others.
func TestConfigureLongChains(t *testing.T) {
	for _, n := range []int{200, 5000} {
		top, m := &Topology{}, fakeMetadata{"in": 7}
		for i := n - 1; i >= 0; i-- {
			s := Subtopology{ID: strconv.Itoa(n - i), RepartitionSinkTopics: []string{fmt.Sprint("r", i+1)},
				StateChangelogTopics: []InternalTopic{{Name: fmt.Sprint("c", i)}}}
			if i == 0 {
				s.SourceTopics = []string{"in"}
			} else {
				s.RepartitionSourceTopics = []InternalTopic{{Name: fmt.Sprint("r", i)}}
			}
			top.Subtopologies = append(top.Subtopologies, s)
		}
		c, err := Configure(top, m)
		if err != nil || len(c.Subtopologies) != n || len(c.Create) != 2*n-1 {
			t.Fatalf("%d subtopologies: %v", n, err)
		}
		for _, s := range c.Subtopologies {
			if got, ok := c.Tasks(s.ID); !ok || got != 7 {
				t.Fatalf("subtopology %s has %d tasks", s.ID, got)
			}
		}
		want := fmt.Sprintf("Internal topics are missing: c0, c1, c10 and %d additional topics (c0 with 7 partitions, changelog of subtopology %d; "+
			"c1 with 7 partitions, changelog of subtopology %d; c10 with 7 partitions, changelog of subtopology %d)", 2*n-4, n, n-1, n-10)
		if c.Problem == nil || c.Problem.Detail != want {
			t.Errorf("problem %v, want %s", c.Problem, want)
		}
	}
}

// drawTopology makes topologies in which topics are shared and chained at random; few are sensible, all are valid.
func drawTopology(t *rapid.T) (*Topology, fakeMetadata) {
	m := fakeMetadata{}
	for _, name := range []string{"a", "b", "c", "r0", "r2", "l0"} {
		if rapid.IntRange(0, 3).Draw(t, "exists") > 0 || name < "d" && rapid.IntRange(0, 5).Draw(t, "exists") > 0 {
			m[name] = rapid.Int32Range(1, 3).Draw(t, "count")
		}
	}
	fixed := rapid.SliceOfN(rapid.SampledFrom([]int32{0, 0, 0, 2, 3}), 5, 5).Draw(t, "fixed")
	top := &Topology{}
	for i := range rapid.IntRange(1, 6).Draw(t, "subtopologies") {
		s := Subtopology{
			ID:                    fmt.Sprint(i * 7 % 11),
			SourceTopics:          rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID).Draw(t, "sources"),
			RepartitionSinkTopics: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"r0", "r1", "r2", "r3", "r4"}), 0, 3, rapid.ID).Draw(t, "sinks"),
		}
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 3, rapid.ID).Draw(t, "repartition") {
			s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, InternalTopic{Name: fmt.Sprint("r", k), Partitions: fixed[k]})
		}
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 2, rapid.ID).Draw(t, "changelogs") {
			s.StateChangelogTopics = append(s.StateChangelogTopics, InternalTopic{Name: fmt.Sprintf("l%d", 3*i+k)})
		}
		for range rapid.IntRange(0, 2).Draw(t, "groups") {
			s.CopartitionGroups = append(s.CopartitionGroups, CopartitionGroup{
				SourceTopics:            drawIndexes(t, len(s.SourceTopics)),
				RepartitionSourceTopics: drawIndexes(t, len(s.RepartitionSourceTopics)),
			})
		}
		top.Subtopologies = append(top.Subtopologies, s)
	}
	return top, m
}

func drawIndexes(t *rapid.T, n int) []int16 {
	if n == 0 {
		return nil
	}
	return rapid.SliceOfNDistinct(rapid.Int16Range(0, int16(n-1)), 0, n, rapid.ID).Draw(t, "indexes")
}

// shuffled returns the same topology with everything that has no meaningful order in another order.
func shuffled(t *rapid.T, top *Topology) *Topology {
	c := top.Clone()
	c.Subtopologies = rapid.Permutation(c.Subtopologies).Draw(t, "order")
	for i := range c.Subtopologies {
		s := &c.Subtopologies[i]
		groups := s.CopartitionGroups
		sources, repartition := permutation(t, len(s.SourceTopics)), permutation(t, len(s.RepartitionSourceTopics))
		s.SourceTopics, s.RepartitionSourceTopics = permute(s.SourceTopics, sources), permute(s.RepartitionSourceTopics, repartition)
		s.CopartitionGroups = nil
		for _, g := range rapid.Permutation(groups).Draw(t, "groups") {
			s.CopartitionGroups = append(s.CopartitionGroups, CopartitionGroup{
				SourceTopics: renumber(g.SourceTopics, sources), RepartitionSourceTopics: renumber(g.RepartitionSourceTopics, repartition)})
		}
		s.RepartitionSinkTopics = rapid.Permutation(s.RepartitionSinkTopics).Draw(t, "sinks")
		s.StateChangelogTopics = rapid.Permutation(s.StateChangelogTopics).Draw(t, "changelogs")
	}
	return c
}

// permutation[i] is the new place of what was at i.
func permutation(t *rapid.T, n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return rapid.Permutation(p).Draw(t, "permutation")
}

func permute[T any](s []T, p []int) []T {
	out := make([]T, len(s))
	for i := range s {
		out[p[i]] = s[i]
	}
	return out
}

func renumber(indexes []int16, p []int) (out []int16) {
	for _, i := range indexes {
		out = append(out, int16(p[i]))
	}
	return out
}

func TestConfigureDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, m := drawTopology(t)
		if err := Validate(top); err != nil {
			t.Fatalf("drew an invalid topology: %v", err)
		}
		want, wantErr := Configure(top, m)
		got, gotErr := Configure(shuffled(t, top), m)
		if d := cmp.Diff(printResult(want, wantErr), printResult(got, gotErr)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

func printResult(c *Configured, err error) string {
	s := printConfigured(c, err)
	if c != nil {
		s += fmt.Sprintf("hash %d", c.Hash)
	}
	return s
}

// What was created as asked is found right afterwards, unless something that existed before is wrong.
func TestConfigureIsReadyAfterCreation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, m := drawTopology(t)
		c, err := Configure(top, m)
		if err != nil || c.Problem == nil || c.Problem.Kind != MissingInternalTopics {
			return
		}
		before := MetadataHash(top, m)
		for _, it := range c.Create {
			if _, ok := m[it.Name]; ok || it.Partitions < 1 {
				t.Fatalf("wants to create %v", it)
			}
			m[it.Name] = it.Partitions
		}
		after, err := Configure(top, m)
		if err != nil || !after.Ready() {
			t.Fatalf("after creation: %s", printResult(after, err))
		}
		if after.Hash == before || after.Hash != MetadataHash(top, m) {
			t.Fatal("the hash does not tell the topics apart")
		}
		if d := cmp.Diff(c.Subtopologies, after.Subtopologies); d != "" {
			t.Fatalf("counts changed by creation (-before +after):\n%s", d)
		}
	})
}

func TestTasksAreBounded(t *testing.T) {
	for _, test := range []struct {
		subtopologies int
		ready         bool
	}{{2, true}, {3, false}, {43_000, false}} { // the last are more than an int32 can count
		top := &Topology{}
		for i := range test.subtopologies {
			top.Subtopologies = append(top.Subtopologies, Subtopology{ID: strconv.Itoa(i), SourceTopics: []string{"in"}})
		}
		c, err := Configure(top, fakeMetadata{"in": MaxTasks / 2})
		if err != nil {
			t.Fatal(err)
		}
		if c.Ready() != test.ready {
			t.Errorf("%d subtopologies: ready %v", test.subtopologies, c.Ready())
		}
		if !test.ready && (c.Problem == nil || c.Problem.Kind != IncorrectlyPartitionedTopics || len(c.Create) > 0 ||
			!strings.Contains(c.Problem.Detail, strconv.Itoa(test.subtopologies*MaxTasks/2)) || !strings.Contains(c.Problem.Detail, strconv.Itoa(MaxTasks))) {
			t.Errorf("%d subtopologies: %+v", test.subtopologies, c.Problem)
		}
	}
}

// TestFixedRepartitionCountsAreBounded: nobody creates a topic for a count that a client made up.
func TestFixedRepartitionCountsAreBounded(t *testing.T) {
	top := &Topology{Subtopologies: []Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"r"}},
		{ID: "1", RepartitionSourceTopics: []InternalTopic{{Name: "r", Partitions: math.MaxInt32}},
			StateChangelogTopics: []InternalTopic{{Name: "c"}}},
	}}
	c, err := Configure(top, fakeMetadata{"in": 1})
	if err != nil || c.Problem == nil || c.Problem.Kind != IncorrectlyPartitionedTopics || len(c.Create) > 0 {
		t.Errorf("%v %+v", err, c)
	}
}
