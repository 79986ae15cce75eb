package topologies

import (
	"fmt"

	"github.com/coordd/coordd/topology"
)

// Runnable are topologies that run, at once or when their internal topics have been created.
func Runnable() []Case {
	cases := append(chains(), joins()...)
	cases = append(cases, fixedCounts()...)
	cases = append(cases, cycles()...)
	cases = append(cases, tables()...)
	return append(cases, existing()...)
}

func chains() []Case {
	return []Case{
		{
			Name: "source", Topics: Counts{"in": 4}, Topology: of(subtopology("0", "in")),
			Want: Outcome{Tasks: Counts{"0": 4}},
		},
		{
			Name: "sources of different size", Topics: Counts{"a": 2, "b": 5}, Topology: of(subtopology("0", "a", "b").keeps("l")),
			Want: Outcome{Create: Counts{"l": 5}, Tasks: Counts{"0": 5}},
			Says: []string{"l with 5 partitions, changelog of subtopology 0"},
		},
		{
			Name: "a source read twice", Topics: Counts{"in": 3}, Topology: of(subtopology("0", "in"), subtopology("1", "in").keeps("l")),
			Want: Outcome{Create: Counts{"l": 3}, Tasks: Counts{"0": 3, "1": 3}},
		},
		{
			Name: "chain", Topics: Counts{"in": 3},
			Topology: of(subtopology("0", "in").to("r1"), subtopology("1").from("r1").to("r2"), subtopology("2").from("r2").keeps("l")),
			Want:     Outcome{Create: Counts{"r1": 3, "r2": 3, "l": 3}, Tasks: Counts{"0": 3, "1": 3, "2": 3}},
			Says:     []string{"r1 with 3 partitions, repartition topic of subtopology 1", "l with 3 partitions, changelog of subtopology 2"},
		},
		{
			Name: "chain against the ids", Topics: Counts{"in": 3},
			Topology: of(subtopology("2", "in").to("r1"), subtopology("1").from("r1").to("r2"), subtopology("0").from("r2").keeps("l")),
			Want:     Outcome{Create: Counts{"r1": 3, "r2": 3, "l": 3}, Tasks: Counts{"0": 3, "1": 3, "2": 3}},
		},
		{
			// 0 writes both sides; 2 has a source of its own, which is larger.
			Name: "diamond", Topics: Counts{"in": 3, "other": 8},
			Topology: of(subtopology("0", "in").to("a", "b"), subtopology("1").from("a").to("l"), subtopology("2", "other").from("b").to("r"),
				subtopology("3").from("l", "r").to("out"), subtopology("4").from("out")),
			Want: Outcome{Create: Counts{"a": 3, "b": 3, "l": 3, "r": 8, "out": 8}, Tasks: Counts{"0": 3, "1": 3, "2": 8, "3": 8, "4": 8}},
		},
		{
			Name: "diamond against the ids", Topics: Counts{"in": 3, "other": 8},
			Topology: of(subtopology("4", "in").to("a", "b"), subtopology("3").from("a").to("l"), subtopology("2", "other").from("b").to("r"),
				subtopology("1").from("l", "r").to("out"), subtopology("0").from("out")),
			Want: Outcome{Create: Counts{"a": 3, "b": 3, "l": 3, "r": 8, "out": 8}, Tasks: Counts{"4": 3, "3": 3, "2": 8, "1": 8, "0": 8}},
		},
		{
			// 0 knows one of its sources at once, and the larger one only from 1.
			Name: "a source that is known late", Topics: Counts{"small": 2, "big": 9},
			Topology: of(subtopology("0", "small").from("r1").to("r2"), subtopology("1", "big").to("r1"), subtopology("2").from("r2")),
			Want:     Outcome{Create: Counts{"r1": 9, "r2": 9}, Tasks: Counts{"0": 9, "1": 9, "2": 9}},
			Kafka:    &Outcome{Create: Counts{"r1": 9, "r2": 2}, Tasks: Counts{"0": 9, "1": 9, "2": 2}},
			Why:      "Counts of repartition topics are decided first from subtopologies all of whose sources are known",
		},
		{
			// 2 knows its count in the first round, 0 only in the second.
			Name: "two writers", Topics: Counts{"a": 3, "b": 5},
			Topology: of(subtopology("0").from("r").to("s"), subtopology("1", "a").to("r"), subtopology("2", "b").to("s"), subtopology("3").from("s")),
			Want:     Outcome{Create: Counts{"r": 3, "s": 5}, Tasks: Counts{"0": 3, "1": 3, "2": 5, "3": 5}},
		},
		{
			Name: "written and never read", Topics: Counts{"in": 3}, Topology: of(subtopology("0", "in").to("r")),
			Want: Outcome{Tasks: Counts{"0": 3}},
		},
		{
			Name: "ids that are no numbers", Topics: Counts{"in": 3},
			Topology: of(subtopology("write", "in").to("r"), subtopology("read").from("r").keeps("l")),
			Want:     Outcome{Create: Counts{"r": 3, "l": 3}, Tasks: Counts{"write": 3, "read": 3}},
		},
		{
			Name: "settings of topics", Topics: Counts{"in": 2},
			Topology: of(
				subtopology("0", "in").to("r"),
				subtopology("1").from("r").with(1, "cleanup.policy", "delete", "message.timestamp.type", "CreateTime", "retention.ms", "-1", "segment.bytes", "52428800"),
				subtopology("2", "in").keeps("kv").with(0, "cleanup.policy", "compact", "message.timestamp.type", "CreateTime"),
				subtopology("3", "in").keeps("windowed").with(-1, "cleanup.policy", "compact,delete", "retention.ms", "86400000"),
				subtopology("4", "in").keeps("versioned").with(1, "cleanup.policy", "compact", "min.compaction.lag.ms", "3600000"),
			),
			Want: Outcome{Create: Counts{"r": 2, "kv": 2, "windowed": 2, "versioned": 2}, Tasks: Counts{"0": 2, "1": 2, "2": 2, "3": 2, "4": 2}},
		},
		long(200),
	}
}

// long is a chain of n subtopologies, of which the last one by id reads the source.
func long(n int) Case {
	c := Case{Name: fmt.Sprint("chain of ", n), Topics: Counts{"in": 2}, Want: Outcome{Create: Counts{"l": 2}, Tasks: Counts{}}}
	for i := range n {
		s := subtopology(fmt.Sprint(n - 1 - i))
		if i == 0 {
			s.SourceTopics = []string{"in"}
		} else {
			s.from(fmt.Sprint("r", i))
			c.Want.Create[fmt.Sprint("r", i)] = 2
		}
		if i == n-1 {
			s.keeps("l")
		} else {
			s.to(fmt.Sprint("r", i+1))
		}
		c.Want.Tasks[s.ID] = 2
		c.Topology.Subtopologies = append(c.Topology.Subtopologies, s.Subtopology)
	}
	return c
}

func joins() []Case {
	return []Case{
		{
			Name: "repartitioned with plain", Topics: Counts{"left": 3, "right": 6},
			Topology: of(subtopology("0", "left").to("r"), subtopology("1", "right").from("r").joins("right", "r").keeps("l")),
			Want:     Outcome{Create: Counts{"r": 6, "l": 6}, Tasks: Counts{"0": 3, "1": 6}},
		},
		{
			Name: "repartitioned with smaller plain", Topics: Counts{"left": 6, "right": 3},
			Topology: of(subtopology("0", "left").to("r"), subtopology("1", "right").from("r").joins("right", "r").keeps("l")),
			Want:     Outcome{Create: Counts{"r": 3, "l": 3}, Tasks: Counts{"0": 6, "1": 3}},
		},
		{
			Name: "two repartitioned", Topics: Counts{"left": 3, "right": 6},
			Topology: of(subtopology("0", "left").to("rl"), subtopology("1", "right").to("rr"), subtopology("2").from("rl", "rr").joins("rl", "rr").keeps("l")),
			Want:     Outcome{Create: Counts{"rl": 6, "rr": 6, "l": 6}, Tasks: Counts{"0": 3, "1": 6, "2": 6}},
		},
		{
			// What a join writes was sized before the plain topic made its sources smaller.
			Name: "behind a join", Topics: Counts{"big": 8, "table": 4},
			Topology: of(subtopology("0", "big").to("r"), subtopology("1", "table").from("r").joins("table", "r").to("out"), subtopology("2").from("out").keeps("l")),
			Want:     Outcome{Create: Counts{"r": 4, "out": 8, "l": 8}, Tasks: Counts{"0": 8, "1": 4, "2": 8}},
		},
		{
			Name: "two unrelated joins in a subtopology", Topics: Counts{"a": 4, "b": 2, "c": 2, "d": 4},
			Topology: of(subtopology("0", "a", "b", "c", "d").joins("a", "d").joins("b", "c").keeps("l")),
			Want:     Outcome{Create: Counts{"l": 4}, Tasks: Counts{"0": 4}},
		},
		{
			Name: "two unrelated joins", Topics: Counts{"x": 3, "y": 5, "z": 2, "w": 7},
			Topology: of(subtopology("0", "x").to("rx"), subtopology("1", "y").to("ry"), subtopology("2", "z").to("rz"), subtopology("3", "w").to("rw"),
				subtopology("4").from("rx", "ry").joins("rx", "ry"), subtopology("5").from("rz", "rw").joins("rz", "rw")),
			Want: Outcome{Create: Counts{"rx": 5, "ry": 5, "rz": 7, "rw": 7}, Tasks: Counts{"0": 3, "1": 5, "2": 2, "3": 7, "4": 5, "5": 7}},
		},
		{
			Name: "a join of a join", Topics: Counts{"x": 2, "y": 3, "z": 5},
			Topology: of(subtopology("0", "x").to("a"), subtopology("1", "y").to("b"), subtopology("2", "z").to("c"),
				subtopology("3").from("a", "b", "c").joins("a", "b").joins("a", "b", "c")),
			Want: Outcome{Create: Counts{"a": 5, "b": 5, "c": 5}, Tasks: Counts{"0": 2, "1": 3, "2": 5, "3": 5}},
		},
		{
			// b is in both joins, so all three need the same.
			Name: "two joins of one stream", Topics: Counts{"x": 2, "y": 3, "z": 5},
			Topology: of(subtopology("0", "x").to("a"), subtopology("1", "y").to("b"), subtopology("2", "z").to("c"),
				subtopology("3").from("a", "b", "c").joins("a", "b").joins("b", "c")),
			Want:  Outcome{Create: Counts{"a": 5, "b": 5, "c": 5}, Tasks: Counts{"0": 2, "1": 3, "2": 5, "3": 5}},
			Kafka: &Outcome{Create: Counts{"a": 3, "b": 5, "c": 5}, After: topology.IncorrectlyPartitionedTopics},
			Why:   "Copartition groups that share topics are decided together",
		},
		{
			Name: "one stream with plain and repartitioned", Topics: Counts{"x": 8, "y": 6, "table": 4},
			Topology: of(subtopology("0", "x").to("a"), subtopology("1", "y").to("b"),
				subtopology("2", "table").from("a", "b").joins("table", "a").joins("a", "b")),
			Want: Outcome{Create: Counts{"a": 4, "b": 4}, Tasks: Counts{"0": 8, "1": 6, "2": 4}},
			// a is made 4 and then the larger of 4 and 6.
			Kafka: &Outcome{Create: Counts{"a": 6, "b": 6}, Tasks: Counts{"0": 8, "1": 6, "2": 6}},
			Why:   "Copartition groups that share topics are decided together",
		},
		{
			// p and q cannot both have the count of a: the groups are taken one after the other, as in Kafka.
			Name: "joins that contradict each other", Topics: Counts{"x": 2, "p": 4, "q": 5},
			Topology: of(subtopology("0", "x").to("a"), subtopology("1", "p", "q").from("a").joins("p", "a").joins("q", "a")),
			Want:     Outcome{Create: Counts{"a": 5}, Tasks: Counts{"0": 2, "1": 5}},
		},
	}
}

func fixedCounts() []Case {
	return []Case{
		{
			Name: "fixed", Topics: Counts{"in": 4}, Topology: of(subtopology("0", "in").to("r"), subtopology("1").fixed("r", 2).keeps("l")),
			Want: Outcome{Create: Counts{"r": 2, "l": 2}, Tasks: Counts{"0": 4, "1": 2}},
		},
		{
			Name: "fixed and passed on", Topics: Counts{"in": 4},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1").fixed("r", 2).to("s"), subtopology("2").from("s")),
			Want:     Outcome{Create: Counts{"r": 2, "s": 2}, Tasks: Counts{"0": 4, "1": 2, "2": 2}},
		},
		{
			Name: "fixed and never written", Topics: Counts{"in": 3}, Topology: of(subtopology("0", "in"), subtopology("1").fixed("r", 2)),
			Want: Outcome{Create: Counts{"r": 2}, Tasks: Counts{"0": 3, "1": 2}},
		},
		{
			Name: "fixed in a join", Topics: Counts{"left": 3, "right": 6},
			Topology: of(subtopology("0", "left").to("rl"), subtopology("1", "right").to("rr"), subtopology("2").fixed("rl", 5).from("rr").joins("rl", "rr")),
			Want:     Outcome{Create: Counts{"rl": 5, "rr": 5}, Tasks: Counts{"0": 3, "1": 6, "2": 5}},
		},
		{
			Name: "plain, fixed and repartitioned", Topics: Counts{"in": 3, "table": 4},
			Topology: of(subtopology("0", "in").to("r", "s"), subtopology("1", "table").fixed("r", 4).from("s").joins("table", "r", "s")),
			Want:     Outcome{Create: Counts{"r": 4, "s": 4}, Tasks: Counts{"0": 3, "1": 4}},
		},
		{
			Name: "fixed elsewhere", Topics: Counts{"left": 3, "right": 6},
			Topology: of(subtopology("0", "left").to("rl", "x"), subtopology("1", "right").to("rr"), subtopology("2").from("rl", "rr").joins("rl", "rr"),
				subtopology("3").fixed("x", 2)),
			Want:  Outcome{Create: Counts{"rl": 6, "rr": 6, "x": 2}, Tasks: Counts{"0": 3, "1": 6, "2": 6, "3": 2}},
			Kafka: &Outcome{Create: Counts{"rl": 2, "rr": 2, "x": 2}, Tasks: Counts{"0": 3, "1": 6, "2": 2, "3": 2}},
			Why:   "Only the fixed repartition topics of a copartition group decide its count",
		},
		{
			Name: "fixed elsewhere with different counts", Topics: Counts{"left": 3, "right": 6},
			Topology: of(subtopology("0", "left").to("rl", "x", "y"), subtopology("1", "right").to("rr"), subtopology("2").from("rl", "rr").joins("rl", "rr"),
				subtopology("3").fixed("x", 2), subtopology("4").fixed("y", 11)),
			Want:  Outcome{Create: Counts{"rl": 6, "rr": 6, "x": 2, "y": 11}, Tasks: Counts{"0": 3, "1": 6, "2": 6, "3": 2, "4": 11}},
			Kafka: &Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Why:   "Only the fixed repartition topics of a copartition group decide its count",
		},
	}
}

func cycles() []Case {
	return []Case{
		{
			Name: "fed cycle", Topics: Counts{"in": 3},
			Topology: of(subtopology("0", "in").from("back").to("out"), subtopology("1").from("out").to("back")),
			Want:     Outcome{Create: Counts{"back": 3, "out": 3}, Tasks: Counts{"0": 3, "1": 3}},
		},
		{
			// 0 is entered with what it knows, a; 1 then knows all.
			Name: "cycle with two feeds", Topics: Counts{"a": 3, "b": 5},
			Topology: of(subtopology("0", "a").from("back").to("out"), subtopology("1", "b").from("out").to("back")),
			Want:     Outcome{Create: Counts{"back": 5, "out": 3}, Tasks: Counts{"0": 5, "1": 5}},
		},
		{
			Name: "into itself", Topics: Counts{"in": 3}, Topology: of(subtopology("0", "in").from("r").to("r")),
			Want: Outcome{Create: Counts{"r": 3}, Tasks: Counts{"0": 3}},
		},
		{
			Name: "cycle broken by a fixed count", Topics: Counts{"in": 3},
			Topology: of(subtopology("0", "in"), subtopology("1").fixed("a", 4).to("b"), subtopology("2").from("b").to("a")),
			Want:     Outcome{Create: Counts{"a": 4, "b": 4}, Tasks: Counts{"0": 3, "1": 4, "2": 4}},
		},
	}
}

func tables() []Case {
	return []Case{
		{
			Name: "optimised table", Topics: Counts{"table": 4}, Topology: of(subtopology("0", "table").keeps("table")),
			Want: Outcome{Tasks: Counts{"0": 4}},
		},
		{
			Name: "optimised table in a join", Topics: Counts{"table": 4, "left": 8},
			Topology: of(subtopology("0", "left").to("r"), subtopology("1", "table").from("r").joins("table", "r").keeps("table", "l")),
			Want:     Outcome{Create: Counts{"r": 4, "l": 4}, Tasks: Counts{"0": 8, "1": 4}},
		},
		{
			Name: "optimised table beside a larger source", Topics: Counts{"table": 4, "other": 6},
			Topology: of(subtopology("0", "table", "other").keeps("table", "l")),
			Want:     Outcome{Create: Counts{"l": 6}, Tasks: Counts{"0": 6}},
			Kafka:    &Outcome{Problem: topology.IncorrectlyPartitionedTopics},
			Why:      "A source topic that doubles as a changelog keeps its real count and is never created",
		},
		{
			Name: "repartition topic that doubles as a changelog", Topics: Counts{"in": 4, "more": 6},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1", "more").from("r").keeps("r", "l")),
			Want:     Outcome{Create: Counts{"r": 6, "l": 6}, Tasks: Counts{"0": 4, "1": 6}},
		},
		{
			Name: "changelog that another subtopology reads", Topics: Counts{"in": 4, "l": 4},
			Topology: of(subtopology("0", "in").keeps("l"), subtopology("1", "l")),
			Want:     Outcome{Tasks: Counts{"0": 4, "1": 4}},
		},
	}
}

func existing() []Case {
	return []Case{
		{
			Name: "all there", Topics: Counts{"in": 4, "r": 4, "l": 4},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1").from("r").keeps("l")),
			Want:     Outcome{Tasks: Counts{"0": 4, "1": 4}},
		},
		{
			Name: "some there", Topics: Counts{"in": 4, "r": 4},
			Topology: of(subtopology("0", "in").to("r"), subtopology("1").from("r").keeps("l")),
			Want:     Outcome{Create: Counts{"l": 4}, Tasks: Counts{"0": 4, "1": 4}},
		},
		{
			// The larger one that is there makes the other one as large.
			Name: "one side of a join is there", Topics: Counts{"left": 3, "right": 4, "rl": 6},
			Topology: of(subtopology("0", "left").to("rl"), subtopology("1", "right").to("rr"), subtopology("2").from("rl", "rr").joins("rl", "rr")),
			Want:     Outcome{Create: Counts{"rr": 6}, Tasks: Counts{"0": 3, "1": 4, "2": 6}},
		},
		{
			// Together, the table would make both 4; as it is, the app runs with Kafka.
			Name: "topics as Kafka makes them for two joins", Topics: Counts{"x": 8, "y": 6, "table": 4, "a": 6, "b": 6},
			Topology: of(subtopology("0", "x").to("a"), subtopology("1", "y").to("b"),
				subtopology("2", "table").from("a", "b").joins("table", "a").joins("a", "b")),
			Want: Outcome{Tasks: Counts{"0": 8, "1": 6, "2": 6}},
		},
	}
}
