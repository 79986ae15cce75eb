package cases

import (
	"testing"

	"github.com/coordd/coordd/assignor"
)

// BenchmarkAssign is for profiles; `make bench SECTION=assignors` compares.
func BenchmarkAssign(b *testing.B) {
	names, err := Names(inputs)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		for _, a := range []assignor.Assignor{assignor.Sticky(), assignor.HighlyAvailable()} {
			b.Run(name+"/"+a.Name(), func(b *testing.B) {
				spec, err := Load(inputs, name)
				if err != nil {
					b.Fatal(err)
				}
				tasks := Measure(spec, nil).Of
				if a.Name() == assignor.HighlyAvailableName {
					spec = WithOffsets(spec)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.Assign(spec); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks), "ns/task")
			})
		}
	}
}
