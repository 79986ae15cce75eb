package topology

import (
	"fmt"
	"testing"
)

// manyTopics are topics with names as they are in use.
type manyTopics struct {
	names   []string
	changed []string
}

func (m *manyTopics) Names() []string                      { return m.names }
func (m *manyTopics) Topic(name string) (Topic, bool)      { return Topic{Name: name, Partitions: 4}, true }
func (m *manyTopics) ChangedSince(uint64) ([]string, bool) { return m.changed, true }

// BenchmarkPatterns has 20 groups with two patterns each over 50,000 topics: what a new leader does of all of them, and what
// all do when a topic comes that none reads, or that one reads.
func BenchmarkPatterns(b *testing.B) {
	const groups, topics = 20, 50_000
	m := &manyTopics{}
	for i := range topics {
		m.names = append(m.names, fmt.Sprintf("team-%03d.service-%02d.%s-%05d", i%250, i%17, []string{"events", "commands", "state"}[i%3], i))
	}
	tops := make([]*Topology, groups)
	all := make([]*Resolution, groups)
	for g := range tops {
		tops[g] = &Topology{Subtopologies: []Subtopology{
			{ID: "0", SourceTopicRegex: []string{fmt.Sprintf(`team-%03d\..*`, g)}},
			{ID: "1", SourceTopicRegex: []string{fmt.Sprintf(`.*\.events-[0-9]*%d7`, g%10)}},
		}}
		all[g] = Resolve(tops[g], m)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			for _, t := range tops {
				Resolve(t, m)
			}
		}
	})
	for name, topic := range map[string]string{"none": "unlike", "one": "team-003.service-01.state-x"} {
		b.Run(name, func(b *testing.B) {
			m.changed = []string{topic}
			affected := 0
			for b.Loop() {
				affected = 0
				for g, t := range tops {
					if !Unaffected(t, m, 0) {
						affected++
						all[g].Resolve(t, m, 0)
					}
				}
			}
			b.ReportMetric(float64(affected), "groups")
		})
	}
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			for _, t := range tops {
				for _, s := range t.Subtopologies {
					clear(compiled.patterns)
					if _, err := compilePattern(s.SourceTopicRegex[0]); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
}
