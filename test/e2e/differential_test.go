//go:build e2e

package e2e

import (
	"flag"
	"testing"
	"time"

	"github.com/coordd/coordd/test/differential"
)

var (
	differentialSeed  = flag.Uint64("differential.seed", 1, "seed of the first random script")
	differentialCount = flag.Int("differential.count", 250, "how many random scripts")
)

// TestDifferential plays random scripts of requests on a real Kafka 4.4 and on three nodes of coordd, step by step, and compares
// every answer. Both have the same topics: the nodes stand in front of that Kafka, and the groups have other names.
func TestDifferential(t *testing.T) {
	const folder = "../conformance/"
	k, c := startConformant(t, folder+"broker.properties")
	kafka, coordd := k.Bootstrap(), c.Nodes[0].Client
	r := differential.Run{
		Servers: differential.Servers{Kafka: kafka, Coordd: coordd, Patience: 20 * time.Second},
		First:   *differentialSeed, Count: *differentialCount, Width: 4, Budget: 150,
		Failed: func(short *differential.Script, result differential.Result, long *differential.Script) {
			b, err := short.YAML()
			if err != nil {
				t.Error(err)
			}
			t.Errorf("seed %d, made short from %d steps\n%v\n%s", short.Seed, len(long.Steps), result.Failure, b)
		},
	}
	sum, err := r.Do(t.Context())
	if err != nil {
		t.Error(err)
	}
	t.Log(sum)
}
