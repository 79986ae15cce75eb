package topologies

import (
	"strings"

	"github.com/coordd/coordd/topology"
)

// Waiting are topologies that cannot run with the topics that exist, and could with others.
func Waiting() []Case {
	return []Case{
		{
			Name: "a source is missing", Topics: Counts{"a": 2}, Topology: of(subtopology("0", "a"), subtopology("1", "b", "c").keeps("l")),
			Want: Outcome{Problem: topology.MissingSourceTopics},
			Says: []string{"Source topics b, c are missing.", "Subtopology 1 reads b, c."},
		},
		{
			Name: "a source is missing and a join does not fit", Topics: Counts{"a": 2, "b": 3},
			Topology: of(subtopology("0", "a", "b").joins("a", "b"), subtopology("1", "c")),
			Want:     Outcome{Problem: topology.MissingSourceTopics},
			Says:     []string{"Source topics c are missing.", "Subtopology 1 reads c."},
		},
		{
			Name: "a join of plain topics does not fit", Topics: Counts{"left": 4, "right": 2},
			Topology: of(subtopology("0", "left", "right").joins("left", "right").keeps("l")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"[{left=4, right=2}]", "Subtopology 0 needs the same number for left, right."},
		},
		{
			Name: "two plain topics of a mixed join do not fit", Topics: Counts{"in": 3, "a": 4, "b": 2},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1", "a", "b").from("r").joins("a", "b", "r")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"[{a=4, b=2}]", "Subtopology 1 needs the same number for a, b, r."},
		},
		{
			Name: "fixed counts of a join do not fit", Topics: Counts{"in": 3},
			Topology: of(subtopology("0", "in").to("rl", "rr"), subtopology("1").fixed("rl", 5).fixed("rr", 4).joins("rl", "rr")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"[{rl=5, rr=4}]", "Subtopology 1 needs the same number for rl, rr."},
		},
		{
			Name: "a fixed count does not fit a plain topic", Topics: Counts{"in": 3, "table": 4},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1", "table").fixed("r", 5).joins("table", "r")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"[5] of repartition topic [r]", "[4] of the source topic", "Subtopology 1 needs the same number for r, table."},
		},
		{
			Name: "a changelog that exists does not fit, another one is missing", Topics: Counts{"in": 4, "l": 3},
			Topology: of(subtopology("0", "in").keeps("l", "more")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"Existing topic l", "expected 4, found 3", "changelog of subtopology 0"},
		},
		{
			Name: "a repartition topic that exists does not fit", Topics: Counts{"in": 4, "r": 6},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1").from("r").keeps("l")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"Existing topic r", "expected 4, found 6", "repartition topic of subtopology 1"},
		},
		{
			Name: "a fixed topic that exists does not fit", Topics: Counts{"in": 4, "r": 6},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1").fixed("r", 2)),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"Existing topic r", "expected 2, found 6", "repartition topic of subtopology 1"},
		},
		{
			// b is in both joins, so that a, which exists, would have to be as large as c.
			Name: "two joins of one stream do not fit what exists", Topics: Counts{"x": 1, "a": 1, "c": 2},
			Topology: of(subtopology("0", "x").to("a", "b", "c"), subtopology("1").from("a", "b", "c").joins("a", "b").joins("b", "c")),
			Want:     Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Says:     []string{"Existing topic a", "expected 2, found 1", "repartition topic of subtopology 1"},
			Kafka:    &Outcome{Create: Counts{"b": 2}, After: topology.IncorrectlyPartitionedTopics},
			Why:      "Copartition groups that share topics are decided together",
		},
	}
}

// Malformed are topologies that no topics could make run.
func Malformed() []Case {
	cases := append(malformedCounts(), malformedFields()...)
	for i := range cases {
		if cases[i].Topics == nil {
			cases[i].Topics = Counts{"in": 4, "more": 6}
		}
		cases[i].Want.Error = InvalidTopology
	}
	return cases
}

const (
	whyRefused   = "A topology that cannot run whatever topics exist"
	whyMalformed = "A malformed topology"
)

func malformedCounts() []Case {
	return []Case{
		{
			Name: "nothing is read", Topology: of(subtopology("0", "in"), subtopology("1").keeps("l")),
			Says: []string{"Subtopology 1 does not contain any source topics"},
		},
		{
			Name: "read and never written", Topology: of(subtopology("0", "in"), subtopology("1").from("r")),
			Says: []string{"never used as a sink topic", "without a fixed count: r.", "Subtopology 1 reads r."},
		},
		{
			Name: "cycle", Topology: of(subtopology("0", "in"), subtopology("1").from("a").to("b"), subtopology("2").from("b").to("a")),
			Says: []string{"There may be loops", "without a count: a, b.", "Subtopology 1 writes b; subtopology 2 writes a."},
		},
		{
			Name: "cycle of a topic", Topology: of(subtopology("0", "in"), subtopology("1").from("r").to("r")),
			Says: []string{"There may be loops", "without a count: r.", "Subtopology 1 writes r."},
		},
		{
			Name: "cycle behind a source that is missing", Topology: of(subtopology("0", "none"), subtopology("1").from("a").to("b"), subtopology("2").from("b").to("a")),
			Says:  []string{"There may be loops"},
			Kafka: &Outcome{Problem: topology.MissingSourceTopics}, Why: whyRefused,
		},
		{
			Name: "one changelog of two sizes", Topology: of(subtopology("0", "in").keeps("l"), subtopology("1", "more").keeps("l")),
			Says:  []string{"Changelog topic l", "subtopology 0 has 4, subtopology 1 has 6"},
			Kafka: &Outcome{Create: Counts{"l": 6}, Tasks: Counts{"0": 4, "1": 6}}, Why: whyMalformed,
		},
	}
}

func malformedFields() []Case {
	crash := &Outcome{Error: UnknownServerError}
	return []Case{
		{
			Name: "negative epoch", Topology: topology.Topology{Epoch: -1, Subtopologies: of(subtopology("0", "in")).Subtopologies},
			Says: []string{"Topology epoch -1 is negative"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "a subtopology twice", Topology: of(subtopology("0", "in"), subtopology("0", "more")),
			Says: []string{"Subtopology id 0 is used more than once"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "no such source in a join", Topology: of(grouped(subtopology("0", "in"), topology.CopartitionGroup{SourceTopics: []int16{1}})),
			Says: []string{"subtopology 0 has index 1 into SourceTopics"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "negative index in a join", Topology: of(grouped(subtopology("0", "in"), topology.CopartitionGroup{SourceTopics: []int16{-1}})),
			Says: []string{"subtopology 0 has index -1 into SourceTopics"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "no such repartition topic in a join", Topology: of(grouped(subtopology("0", "in"), topology.CopartitionGroup{RepartitionSourceTopics: []int16{0}})),
			Says: []string{"subtopology 0 has index 0 into RepartitionSourceTopics"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "a changelog with a count", Topology: of(changelog(subtopology("0", "in"), topology.InternalTopic{Name: "l", Partitions: 4})),
			Says: []string{"Changelog topic l", "set to 4"},
		},
		{
			Name: "a changelog twice", Topology: of(subtopology("0", "in").keeps("l", "l")),
			Says: []string{"StateChangelogTopics of subtopology 0 names topic l more than once"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "a repartition topic twice", Topology: of(subtopology("0", "in").to("r"), subtopology("1").from("r", "r")),
			Says: []string{"RepartitionSourceTopics of subtopology 1 names topic r more than once"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "a config twice", Topology: of(subtopology("0", "in").keeps("l").with(0, "cleanup.policy", "compact", "cleanup.policy", "delete")),
			Says: []string{"topic l of subtopology 0 set key cleanup.policy more than once"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "a negative count", Topology: of(subtopology("0", "in").to("r"), subtopology("1").fixed("r", -2)),
			Says: []string{"Repartition source topic r of subtopology 1 has Partitions -2"}, Kafka: crash, Why: whyMalformed,
		},
		{
			Name: "a repartition topic with two counts", Topology: of(subtopology("0", "in").to("r"), subtopology("1").fixed("r", 3), subtopology("2").from("r")),
			Says:  []string{"Repartition source topic r is declared with Partitions 0 and 3"},
			Kafka: &Outcome{Create: Counts{"r": 3}, Tasks: Counts{"0": 4, "1": 3, "2": 3}}, Why: whyMalformed,
		},
		{
			Name: "a repartition topic that is a source", Topology: of(subtopology("0", "in").to("more"), subtopology("1").from("more"), subtopology("2", "more")),
			Says:  []string{"Repartition source topic more of subtopology 1 is also in SourceTopics of subtopology 2"},
			Kafka: &Outcome{Problem: topology.IncorrectlyPartitionedTopics}, Why: whyMalformed,
		},
		{Name: "no name", Topology: of(subtopology("0", "")), Says: []string{"are not valid topic names"}},
		{Name: "dots", Topology: of(subtopology("0", "in").to("..")), Says: []string{"Topic names .. are not valid topic names"}},
		{Name: "a long name", Topology: of(subtopology("0", strings.Repeat("x", 250))), Says: []string{"are not valid topic names"}},
		{Name: "a name with a blank", Topology: of(subtopology("0", "in").keeps("a b")), Says: []string{"a b are not valid topic names"}},
		{
			Name: "a topic of the broker", Topology: of(subtopology("0", "in").from("__transaction_state")),
			Says: []string{"internal topics __transaction_state in a Kafka Streams topology is prohibited"},
		},
	}
}

func grouped(s *sub, g topology.CopartitionGroup) *sub {
	s.CopartitionGroups = append(s.CopartitionGroups, g)
	return s
}

func changelog(s *sub, t topology.InternalTopic) *sub {
	s.StateChangelogTopics = append(s.StateChangelogTopics, t)
	return s
}
