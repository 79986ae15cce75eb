package topology_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coordd/coordd/internal/topologies"
	"github.com/coordd/coordd/topology"
)

// existing maps topics to partition counts.
type existing map[string]int32

func (m existing) Topic(name string) (topology.Topic, bool) {
	n, ok := m[name]
	return topology.Topic{Name: name, Partitions: n}, ok
}

func (m existing) Names() []string { return slices.Sorted(maps.Keys(m)) }

// outcome looks twice, before and after internal topics are created, and returns what is said the first time too.
func outcome(top *topology.Topology, topics topologies.Counts) (topologies.Outcome, string) {
	m := existing{}
	for name, n := range topics {
		m[name] = n
	}
	err := topology.Validate(top)
	if err == nil {
		err = topology.ValidateCounts(top)
	}
	var c *topology.Configured
	if err == nil {
		c, err = topology.Configure(top, m)
	}
	if err != nil {
		var invalid *topology.InvalidTopology
		if !errors.As(err, &invalid) {
			return topologies.Outcome{Error: topologies.UnknownServerError}, err.Error()
		}
		return topologies.Outcome{Error: topologies.InvalidTopology}, err.Error()
	}
	if c.Problem != nil && c.Problem.Kind != topology.MissingInternalTopics {
		return topologies.Outcome{Problem: c.Problem.Kind}, c.Problem.Detail
	}
	out, says := topologies.Outcome{}, ""
	if c.Problem != nil {
		says, out.Create = c.Problem.Detail, topologies.Counts{}
		for _, t := range c.Create {
			out.Create[t.Name] = t.Partitions
			m[t.Name] = t.Partitions
		}
	}
	again, err := topology.Configure(top, m)
	switch {
	case err != nil:
		return topologies.Outcome{Error: topologies.InvalidTopology}, err.Error()
	case again.Problem != nil:
		out.After = again.Problem.Kind
	default:
		out.Tasks = topologies.Counts{}
		for i := range again.Subtopologies {
			s := &again.Subtopologies[i]
			out.Tasks[s.ID] = s.NumTasks
		}
	}
	return out, says
}

func allCases() []topologies.Case {
	return slices.Concat(topologies.Runnable(), topologies.Waiting(), topologies.Malformed())
}

// TestSizing holds sizing to counts and problems worked out by hand.
func TestSizing(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allCases() {
		t.Run(c.Name, func(t *testing.T) {
			if seen[c.Name] {
				t.Fatal("two cases of this name")
			}
			seen[c.Name] = true
			got, says := outcome(&c.Topology, c.Topics)
			if d := cmp.Diff(c.Want, got); d != "" {
				t.Errorf("(-want +got):\n%s%s", d, says)
			}
			for _, part := range c.Says {
				if !strings.Contains(says, part) {
					t.Errorf("%q says nothing of %q", says, part)
				}
			}
			if (c.Kafka == nil) != (c.Why == "") {
				t.Error("a difference has a reason, and a reason a difference")
			}
		})
	}
}

// TestSizingDoesNotDependOnOrder puts subtopologies, topics and copartition groups in other orders.
func TestSizingDoesNotDependOnOrder(t *testing.T) {
	for _, c := range slices.Concat(topologies.Runnable(), topologies.Waiting()) {
		t.Run(c.Name, func(t *testing.T) {
			want, says := outcome(&c.Topology, c.Topics)
			check := func(t *rapid.T) {
				got, others := outcome(topology.Shuffled(t, &c.Topology), c.Topics)
				if d := cmp.Diff(fmt.Sprintf("%v\n%s", want, says), fmt.Sprintf("%v\n%s", got, others)); d != "" {
					t.Fatalf("(-in the order of the case +in another order):\n%s", d)
				}
			}
			rapid.Check(t, check)
		})
	}
}
