package streams

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/assignor"
)

// BenchmarkPlan plans one more member of a large group: what the shard waits for, and what is done beside it, up to a hundred
// steps.
func BenchmarkPlan(b *testing.B) {
	for _, members := range []int{1000, 5000} {
		w := statefulWorld(b, members)
		w.assign = assignor.HighlyAvailable()
		// Without a look at the topics, which a group that runs has had.
		env := w.env()
		topics, err := configured(w.soft, w.group(), w.group().Topology, &env)
		if err != nil {
			b.Fatal(err)
		}
		w.soft.Topics = topics
		job := func(b *testing.B) *PlanJob {
			j, err := NewPlanJob(w.group(), w.soft, &env, testGroup, PlanInput{Add: 1})
			if err != nil {
				b.Fatal(err)
			}
			return j
		}
		b.Run(fmt.Sprintf("members=%d/snapshot", members), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				job(b)
			}
		})
		for _, steps := range []int{1, 100} {
			b.Run(fmt.Sprintf("members=%d/steps=%d", members, steps), func(b *testing.B) {
				b.ReportAllocs()
				j, computed := job(b), 0
				for b.Loop() {
					n := 0
					p, err := j.Run(func() bool { n++; return n < steps })
					if err != nil {
						b.Fatal(err)
					}
					computed = len(p.Steps)
				}
				b.ReportMetric(float64(computed), "steps")
			})
		}
	}
}
