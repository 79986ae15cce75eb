package topology

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What no topic could make run is found without topics; the messages are those of Configure.
func TestValidateCounts(t *testing.T) {
	repartition := func(name string, n int32) []InternalTopic { return []InternalTopic{{Name: name, Partitions: n}} }
	in := Subtopology{ID: "0", SourceTopics: []string{"in"}}
	for name, c := range map[string]struct {
		subs []Subtopology
		want string
	}{
		"nothing":    {nil, ""},
		"source":     {[]Subtopology{in}, ""},
		"no sources": {[]Subtopology{in, {ID: "1", RepartitionSinkTopics: nil}}, "Subtopology 1 does not contain any source topics"},
		"chain": {[]Subtopology{{ID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"r"}},
			{ID: "1", RepartitionSourceTopics: repartition("r", 0)}}, ""},
		"unwritten": {[]Subtopology{in, {ID: "1", RepartitionSourceTopics: repartition("r", 0)}}, "Failed to compute number of partitions for all " +
			"repartition topics, because a repartition source topic is never used as a sink topic. Topics without a writer and without a fixed count: r."},
		"fixed": {[]Subtopology{in, {ID: "1", RepartitionSourceTopics: repartition("r", 2)}}, ""},
		"own sink": {[]Subtopology{{ID: "0", SourceTopics: []string{"in"}, RepartitionSourceTopics: repartition("r", 0),
			RepartitionSinkTopics: []string{"r"}}}, ""},
		"loop": {[]Subtopology{in, {ID: "1", RepartitionSourceTopics: repartition("a", 0), RepartitionSinkTopics: []string{"b"}},
			{ID: "2", RepartitionSourceTopics: repartition("b", 0), RepartitionSinkTopics: []string{"a"}}},
			"Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved. Topics without a count: a, b."},
	} {
		err := ValidateCounts(&Topology{Subtopologies: c.subs})
		var invalid *InvalidTopology
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.As(err, &invalid) || !strings.HasPrefix(invalid.Message, c.want)):
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Where Configure finds all sources, both agree on what can never run.
func TestValidateCountsAgreesWithConfigure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, m := drawTopology(t)
		for i := range top.Subtopologies {
			for _, name := range top.Subtopologies[i].SourceTopics {
				m[name] = max(m[name], 1)
			}
		}
		c, invalid := Configure(top, m)
		refused := ValidateCounts(top)
		switch {
		case c != nil && c.Problem != nil && c.Problem.Kind == IncorrectlyPartitionedTopics: // looked for before sources are
		case refused != nil && (invalid == nil || invalid.Error() != refused.Error()):
			t.Fatalf("refused for %v, but Configure says %v", refused, invalid)
		case refused == nil && invalid != nil && !strings.HasPrefix(invalid.Error(), "Changelog topic"): // depends on real counts
			t.Fatalf("not refused, but Configure says %v", invalid)
		}
	})
}

func TestValidate(t *testing.T) {
	sub := func(s Subtopology) *Topology { return &Topology{Subtopologies: []Subtopology{s}} }
	long := strings.Repeat("n", 249)
	for name, c := range map[string]struct {
		t    *Topology
		want string // start of the message; "" when valid
	}{
		"sample":      {sampleTopology(), ""},
		"empty":       {&Topology{}, ""},
		"longest":     {sub(Subtopology{ID: "0", SourceTopics: []string{long, "a.b_c-D9", "..."}}), ""},
		"optimised":   {sub(Subtopology{ID: "0", SourceTopics: []string{"a"}, StateChangelogTopics: []InternalTopic{{Name: "a"}}}), ""},
		"reused":      {sub(Subtopology{ID: "0", RepartitionSourceTopics: []InternalTopic{{Name: "a", Partitions: 1}}, StateChangelogTopics: []InternalTopic{{Name: "a"}}}), ""},
		"broker's":    {sub(Subtopology{RepartitionSinkTopics: []string{"__transaction_state", "a b"}}), "Use of Kafka internal topics __transaction_state in a Kafka Streams topology is prohibited."},
		"several":     {sub(Subtopology{SourceTopics: []string{"__share_group_state", "__consumer_offsets"}}), "Use of Kafka internal topics __consumer_offsets,__share_group_state in"},
		"too long":    {sub(Subtopology{SourceTopics: []string{long + "n"}}), "Topic names " + long + "... are not valid topic names."},
		"illegal":     {sub(Subtopology{SourceTopics: []string{"no/slash"}}), "Topic names no/slash are not valid topic names."},
		"empty name":  {sub(Subtopology{StateChangelogTopics: []InternalTopic{{}}}), "Topic names  are not valid"},
		"dots":        {sub(Subtopology{RepartitionSourceTopics: []InternalTopic{{Name: ".."}, {Name: "."}, {Name: "ü"}, {Name: ","}}}), "Topic names ,,.,.. and 1 additional topics are not valid"},
		"changelog":   {sub(Subtopology{StateChangelogTopics: []InternalTopic{{Name: "l", Partitions: 3}}}), "Changelog topic l must have an undefined partition count, but it is set to 3."},
		"epoch":       {&Topology{Epoch: -1}, "Topology epoch -1 is negative"},
		"id":          {&Topology{Subtopologies: []Subtopology{{ID: "7"}, {ID: "8"}, {ID: "7"}}}, "Subtopology id 7 is used more than once"},
		"negative":    {sub(Subtopology{ID: "4", RepartitionSourceTopics: []InternalTopic{{Name: "r", Partitions: -2}}}), "Repartition source topic r of subtopology 4 has Partitions -2"},
		"both":        {&Topology{Subtopologies: []Subtopology{{ID: "4", RepartitionSourceTopics: []InternalTopic{{Name: "r"}}}, {ID: "5", SourceTopics: []string{"r"}}}}, "Repartition source topic r of subtopology 4 is also in SourceTopics of subtopology 5"},
		"twice":       {sub(Subtopology{ID: "4", StateChangelogTopics: []InternalTopic{{Name: "l"}, {Name: "l"}}}), "StateChangelogTopics of subtopology 4 names topic l more than once"},
		"key":         {sub(Subtopology{ID: "4", StateChangelogTopics: []InternalTopic{{Name: "l", Configs: []Config{{"k", "1"}, {"k", "2"}}}}}), "TopicConfigs of topic l of subtopology 4 set key k more than once"},
		"counts":      {&Topology{Subtopologies: []Subtopology{{ID: "4", RepartitionSourceTopics: []InternalTopic{{Name: "r", Partitions: 3}}}, {ID: "5", RepartitionSourceTopics: []InternalTopic{{Name: "r"}}}}}, "Repartition source topic r is declared with Partitions 0 and 3"},
		"index":       {sub(Subtopology{ID: "4", SourceTopics: []string{"a"}, CopartitionGroups: []CopartitionGroup{{SourceTopics: []int16{0, 1}}}}), "CopartitionGroups of subtopology 4 has index 1 into SourceTopics; it must be 0 or more and less than 1."},
		"index < 0":   {sub(Subtopology{ID: "4", SourceTopics: []string{"a"}, CopartitionGroups: []CopartitionGroup{{RepartitionSourceTopics: []int16{-1}}}}), "CopartitionGroups of subtopology 4 has index -1 into RepartitionSourceTopics"},
		"regex index": {sub(Subtopology{ID: "4", SourceTopics: []string{"a"}, CopartitionGroups: []CopartitionGroup{{SourceTopicRegex: []int16{0}}}}), "CopartitionGroups of subtopology 4 has index 0 into SourceTopicRegex"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(c.t)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var invalid *InvalidTopology
			if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Message, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
