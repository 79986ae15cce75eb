package topology

import "testing"

// loggedTopics remember one list of changes.
type loggedTopics struct {
	hashedTopics
	since   uint64
	changed []string
}

func (l loggedTopics) ChangedSince(version uint64) ([]string, bool) {
	return l.changed, version >= l.since
}

func TestUnaffected(t *testing.T) {
	top := &Topology{Subtopologies: []Subtopology{
		{SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"app-repartition"}},
		{RepartitionSourceTopics: internalTopics([]string{"app-repartition"}), StateChangelogTopics: internalTopics([]string{"app-changelog"})},
	}}
	for _, c := range []struct {
		m       Metadata
		version uint64
		want    bool
	}{
		{loggedTopics{since: 3}, 3, true},
		{loggedTopics{since: 3, changed: []string{"other", "in2"}}, 3, true},
		{loggedTopics{since: 3, changed: []string{"other", "in"}}, 3, false},
		{loggedTopics{since: 3, changed: []string{"app-repartition"}}, 4, false},
		{loggedTopics{since: 3, changed: []string{"app-changelog"}}, 3, false},
		{loggedTopics{since: 3}, 2, false}, // it does not know
		{hashedTopics{}, 3, false},         // it keeps no log
	} {
		if got := Unaffected(top, c.m, c.version); got != c.want {
			t.Errorf("%+v since %d: %v", c.m, c.version, got)
		}
	}
	// Each topic that Configure or MetadataHash asks for is one that concerns.
	pattern := &Topology{Subtopologies: []Subtopology{{SourceTopicRegex: []string{"in-.*"}}}}
	if Unaffected(pattern, loggedTopics{changed: []string{"out", "in-1"}}, 0) {
		t.Error("a pattern matches a topic that is new")
	}
	if !Unaffected(pattern, loggedTopics{changed: []string{"out", "an-in-1"}}, 0) {
		t.Error("no pattern matches the topics that are new")
	}
}

// askedTopics notes who is asked for.
type askedTopics struct {
	hashedTopics
	asked map[string]bool
}

func (a askedTopics) Topic(name string) (Topic, bool) {
	a.asked[name] = true
	return a.hashedTopics.Topic(name)
}

func TestWhatIsAskedForConcerns(t *testing.T) {
	top := &Topology{Subtopologies: []Subtopology{
		{ID: "0", SourceTopics: []string{"in", "in2"}, RepartitionSinkTopics: []string{"r1"},
			CopartitionGroups: []CopartitionGroup{{SourceTopics: []int16{0, 1}}}},
		{ID: "1", RepartitionSourceTopics: internalTopics([]string{"r1"}), StateChangelogTopics: internalTopics([]string{"c1"})},
	}}
	m := askedTopics{hashedTopics{"in": {Name: "in", Partitions: 2}, "in2": {Name: "in2", Partitions: 2}}, map[string]bool{}}
	if _, err := Configure(top, m); err != nil {
		t.Fatal(err)
	}
	MetadataHash(top, m)
	if len(m.asked) != 4 {
		t.Errorf("asked for %v", m.asked)
	}
	for name := range m.asked {
		if !top.Concerns(name) {
			t.Errorf("%s was asked for and does not concern", name)
		}
	}
}
