package topology

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPatterns(t *testing.T) {
	datadriven.RunTest(t, "testdata/patterns.txt", func(t *testing.T, d *datadriven.TestData) string {
		top, m := parseTopology(t, d.Input)
		if err := Validate(top); err != nil {
			return "refused: " + err.Error() + "\n"
		}
		return printConfigured(Configure(top, m))
	})
}

// somePatterns and someNames are such that every pattern matches some of the names and not all, save for the last few.
var (
	somePatterns = []string{"a", "a.*", ".*b", "[ab]c?", "(?i)A-B", "a|b|c", ".*-.*", `\Qa`, `a\b-b`, "^a.?$", ".+", "never"}
	someNames    = []string{"a", "b", "c", "ab", "ac", "bc", "a-b", "A-b", "b-b", "aa", "a.b", "r", "l", "t", "__consumer_offsets"}
)

// genPatterned draws a valid topology with patterns.
func genPatterned(t *rapid.T) *Topology {
	top := &Topology{}
	for i := range rapid.IntRange(1, 4).Draw(t, "subtopologies") {
		s := Subtopology{
			ID:               fmt.Sprint(i),
			SourceTopics:     rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "ab", "c", "t"}), 0, 2, rapid.ID).Draw(t, "sources"),
			SourceTopicRegex: rapid.SliceOfN(rapid.SampledFrom(somePatterns), 0, 3).Draw(t, "patterns"),
		}
		for k := range s.SourceTopicRegex {
			if rapid.Bool().Draw(t, "copartitioned") {
				s.CopartitionGroups = append(s.CopartitionGroups, CopartitionGroup{SourceTopicRegex: []int16{int16(k)}})
			}
		}
		switch rapid.IntRange(0, 5).Draw(t, "internal") {
		case 0:
			s.RepartitionSinkTopics = []string{"r"}
		case 1:
			s.RepartitionSourceTopics = []InternalTopic{{Name: "r"}}
		case 2:
			s.StateChangelogTopics = []InternalTopic{{Name: "l"}, {Name: "t"}}
		}
		top.Subtopologies = append(top.Subtopologies, s)
	}
	return top
}

func genTopics(t *rapid.T, label string) fakeMetadata {
	return rapid.MapOfN(rapid.SampledFrom(someNames), rapid.Int32Range(1, 3), 0, len(someNames)).Draw(t, label)
}

// naive resolves by the rules alone: for each subtopology its names and, of the topics that exist, those that match.
func naive(t *Topology, m fakeMetadata) map[string][]string {
	internal, named := map[string]bool{}, map[string]bool{}
	for _, s := range t.Subtopologies {
		for _, n := range s.SourceTopics {
			named[n] = true
		}
	}
	for _, s := range t.Subtopologies {
		for _, n := range s.RepartitionSinkTopics {
			internal[n] = true
		}
		for _, it := range s.RepartitionSourceTopics {
			internal[it.Name] = true
		}
		for _, it := range s.StateChangelogTopics {
			internal[it.Name] = internal[it.Name] || !named[it.Name]
		}
	}
	out := map[string][]string{}
	for _, s := range t.Subtopologies {
		topics := map[string]bool{}
		for _, n := range s.SourceTopics {
			topics[n] = true
		}
		for n := range m {
			for _, p := range s.SourceTopicRegex {
				p = strings.ReplaceAll(p, `\Qa`, "a")
				if regexp.MustCompile(`^(?:`+p+`)$`).MatchString(n) && !internal[n] && !strings.HasPrefix(n, "__") {
					topics[n] = true
				}
			}
		}
		out[s.ID] = slices.Sorted(maps.Keys(topics))
	}
	return out
}

func sourcesOf(t *Topology) map[string][]string {
	out := map[string][]string{}
	for _, s := range t.Subtopologies {
		out[s.ID] = slices.Sorted(slices.Values(s.SourceTopics))
	}
	return out
}

func TestResolveAgreesWithTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := genPatterned(t)
		sent := top.Clone()
		var before *Resolution
		was := fakeMetadata{}
		for i := range 4 { // topics come and go; what was found before is used again
			m := genTopics(t, fmt.Sprint("topics", i))
			var view Metadata = m
			if rapid.Bool().Draw(t, "logged") {
				view = changedTopics{m, changesOf(was, m)}
			}
			r := before.Resolve(top, view, 0)
			want := naive(top, m)
			if d := cmp.Diff(want, sourcesOf(r.Resolved)); d != "" {
				t.Fatalf("after %d changes: %s", i, d)
			}
			if d := cmp.Diff(sourcesOf(Resolve(top, m).Resolved), sourcesOf(r.Resolved)); d != "" {
				t.Fatalf("another outcome without the earlier one: %s", d)
			}
			if d := cmp.Diff(sent, r.Topology); d != "" {
				t.Fatalf("the topology was changed: %s", d)
			}
			for name := range m { // the same question asked of one topic
				for s := range slices.Values(top.Subtopologies) {
					reads := false
					for reader := range top.Readers(name) {
						reads = reads || reader.ID == s.ID
					}
					if reads != (slices.Contains(want[s.ID], name) || indexByName(s.RepartitionSourceTopics, name) >= 0) {
						t.Fatalf("%s is read by subtopology %s: %v", name, s.ID, reads)
					}
				}
			}
			before, was = r, m
		}
	})
}

// changedTopics know what changed since the version that is asked for.
type changedTopics struct {
	fakeMetadata
	changed []string
}

func (c changedTopics) ChangedSince(uint64) ([]string, bool) { return c.changed, true }

func changesOf(was, now fakeMetadata) (names []string) {
	for _, name := range someNames {
		a, before := was[name]
		b, after := now[name]
		if a != b || before != after {
			names = append(names, name, name) // twice changed
		}
	}
	return names
}

func TestResolutionDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, m := genPatterned(t), genTopics(t, "topics")
		shuffled := top.Clone()
		shuffled.Subtopologies = rapid.Permutation(shuffled.Subtopologies).Draw(t, "order")
		for i := range shuffled.Subtopologies {
			s := &shuffled.Subtopologies[i]
			s.CopartitionGroups = nil
			order := rapid.Permutation(indexes(len(s.SourceTopicRegex))).Draw(t, "patterns")
			patterns := make([]string, len(order))
			for to, from := range order {
				patterns[to] = s.SourceTopicRegex[from]
			}
			for _, g := range top.Subtopology(s.ID).CopartitionGroups {
				at := slices.Index(order, int(g.SourceTopicRegex[0]))
				s.CopartitionGroups = append(s.CopartitionGroups, CopartitionGroup{SourceTopicRegex: []int16{int16(at)}})
			}
			s.SourceTopicRegex = patterns
			slices.Reverse(s.SourceTopics)
		}
		if a, b := printConfigured(Configure(top, m)), printConfigured(Configure(shuffled, m)); a != b {
			t.Fatalf("%s\nin another order\n%s", a, b)
		}
		if a, b := MetadataHash(top, m), MetadataHash(shuffled, m); a != b {
			t.Fatalf("hash %d, in another order %d", a, b)
		}
	})
}

func indexes(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// A topic changes the hash when a pattern matches it, and only then.
func TestHashOfPatterns(t *testing.T) {
	top := &Topology{Subtopologies: []Subtopology{{ID: "0", SourceTopicRegex: []string{"in-.*"},
		StateChangelogTopics: []InternalTopic{{Name: "in-log"}}}}}
	m := fakeMetadata{"in-a": 1}
	r := Resolve(top, m)
	first := r.MetadataHash(m)
	if first != MetadataHash(&Topology{Subtopologies: []Subtopology{{ID: "0", SourceTopics: []string{"in-a"}}}}, m) {
		t.Error("the hash is not that of the topics that match")
	}
	m["out"] = 1
	if r = r.Resolve(top, m, 0); r.MetadataHash(m) != first {
		t.Error("a topic that no pattern matches changed the hash")
	}
	m["in-b"] = 1
	if r = r.Resolve(top, m, 0); r.MetadataHash(m) == first {
		t.Error("a topic that a pattern matches did not change the hash")
	}
	delete(m, "in-b")
	if r = r.Resolve(top, m, 0); r.MetadataHash(m) != first {
		t.Error("the hash remembers a topic that is gone")
	}
}

// What did not change is not made anew.
func TestResolveSharesWhatStays(t *testing.T) {
	top := &Topology{Subtopologies: []Subtopology{{ID: "0", SourceTopicRegex: []string{"in-.*"}}}}
	m := fakeMetadata{"in-a": 1}
	r := Resolve(top, m)
	if r.Resolve(top, m, 0) != r {
		t.Error("resolved anew without a new topic")
	}
	m["out"] = 1
	if next := r.Resolve(top, m, 0); next.Resolved != r.Resolved {
		t.Error("resolved anew for a topic that does not match")
	}
	named := &Topology{Subtopologies: []Subtopology{{ID: "0", SourceTopics: []string{"a"}}}}
	if r := Resolve(named, m); r.Resolved != named || r.Resolve(named, m, 0) != r {
		t.Error("a topology without patterns is not its own resolution")
	}
	if r.Resolve(named, m, 0).Topology != named {
		t.Error("the resolution of another topology was used")
	}
}

func TestTooManyMatches(t *testing.T) {
	top := &Topology{Subtopologies: []Subtopology{{ID: "0", SourceTopicRegex: []string{".*"}}}}
	m := fakeMetadata{}
	for i := range MaxSourceTopics {
		m[fmt.Sprintf("t%d", i)] = 1
	}
	if c, err := Configure(top, m); err != nil || !c.Ready() {
		t.Fatal(c.Problem, err)
	}
	m["one-more"] = 1
	c, err := Configure(top, m)
	if err != nil || c.Problem == nil || c.Problem.Kind != IncorrectlyPartitionedTopics ||
		!strings.Contains(c.Problem.Detail, "match 20001 topics; at most 20000 are supported") {
		t.Fatal(c.Problem, err)
	}
}

func TestPatternLimits(t *testing.T) {
	with := func(patterns ...string) *Topology {
		return &Topology{Subtopologies: []Subtopology{{ID: "0", SourceTopicRegex: patterns}}}
	}
	many := make([]string, MaxPatterns)
	for i := range many {
		many[i] = fmt.Sprintf("topic-%d-.*", i)
	}
	spelled := make([]string, 0, 60)
	for i := range 60 {
		spelled = append(spelled, fmt.Sprintf("payments-%06d", i*i*997))
	}
	for name, c := range map[string]struct {
		topology *Topology
		refused  string // "": accepted
	}{
		"many":         {with(many...), ""},
		"one too many": {&Topology{Subtopologies: append(with(many...).Subtopologies, Subtopology{ID: "1", SourceTopicRegex: []string{"a"}})}, "more than 200 patterns in all"},
		"long":         {with(strings.Repeat("a", MaxPatternLength)), ""},
		"too long":     {with(strings.Repeat("a", MaxPatternLength+1)), "it has 1025 bytes; at most 1024 are allowed"},
		"spelled out":  {with(strings.Join(spelled, "|")), ""},
		"any name":     {with(".{1,249}"), ""},
		"typical":      {with(`[a-z]{3,20}-[0-9]{1,6}(\.v[0-9]+)?`, `.*[0-9]{8}`, `(?i)orders[._-].+`, `\pL+`), ""},
		"line end":     {with("a\nb"), "cannot be printed"},
		"no UTF-8":     {with("a\xff"), "invalid UTF-8"},
		"together":     {with("a(.?){430}", "b(.?){430}", "c(.?){430}", "d(.?){430}", "e(.?){430}"), "too complex together"},
	} {
		err := Validate(c.topology)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if c.refused != "" {
			if r := Resolve(c.topology, fakeMetadata{"a": 1}); r == nil {
				t.Errorf("%s: nothing is resolved", name)
			}
		}
	}
}

// FuzzPattern: whatever a client sends takes a bounded effort, and a pattern that is taken matches what Go's regular expressions
// match as a whole.
func FuzzPattern(f *testing.F) {
	for _, p := range append(slices.Clone(somePatterns), "(a?){1000}", "((a{9}){9}){9}", "(a|b)*a(a|b){12}", `\pL{900}`,
		"[^a]{0,300}", `\b\B^$`, "(?s).", "(?:(?:a*)*)*", "(x+x+)+y", "a{1000}{1000}", "(?i)k", `[[:word:]]+\z`) {
		f.Add(p, "a-b")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := compilePattern(text)
		if err != nil {
			return
		}
		if len(p.next) > maxPatternStates || p.work > 2*maxPatternWork {
			t.Fatalf("%d states after %d steps", len(p.next), p.work)
		}
		again, err := compilePattern(text)
		if err != nil || again != p {
			t.Fatal("compiled twice")
		}
		if !validTopicName(name) {
			return
		}
		re, err := regexp.Compile(text)
		if err != nil {
			t.Fatalf("Go does not take %q: %v", text, err)
		}
		re.Longest()
		at := re.FindStringIndex(name)
		if whole := at != nil && at[0] == 0 && at[1] == len(name); p.match(name) != whole {
			t.Fatalf("%q matches %q: %v", text, name, p.match(name))
		}
	})
}

// TestAutomaton compares with Go's regular expressions on patterns that are made of parts.
func TestAutomaton(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "-", ".", `\.`, "[ab]", "[^a]", `\w`, `\W`, `\b`, `\B`, "^", "$", "(a|b-)", "(?i:A)", "aa", `(\b|a)`, "()"})
	times := rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{2}", "{1,3}", "*?"})
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			text += "(?:" + part.Draw(t, "part") + ")" + times.Draw(t, "times")
			if rapid.IntRange(0, 5).Draw(t, "or") == 0 {
				text += "|"
			}
		}
		p, err := compilePattern(text)
		if err != nil {
			t.Fatal(text, err)
		}
		re := regexp.MustCompile(`\A(?:` + text + `)\z`)
		for range 10 {
			name := rapid.StringMatching("[abA._-]{0,6}").Draw(t, "name")
			if p.match(name) != re.MatchString(name) {
				t.Fatalf("%q matches %q: %v", text, name, p.match(name))
			}
		}
	})
}

// TestUnmatchedPatterns: each pattern that waits for a topic is named once.
func TestUnmatchedPatterns(t *testing.T) {
	top, topics := parseTopology(t, "topic eu-a 1\nsub 0 source=eu-a regex=eu-.*,us-.*\nsub 1 source=eu-a regex=asia,us-.*")
	if got := Resolve(top, topics).Unmatched(); !slices.Equal(got, []string{"asia", "us-.*"}) {
		t.Error(got)
	}
	if got := Resolve(&Topology{}, topics).Unmatched(); len(got) != 0 {
		t.Error(got)
	}
}
