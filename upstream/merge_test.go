package upstream

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/coordinator/offsets"
)

// Commits that wait for each other are sent as one, but not as more than the upstream takes as one batch.
func TestCommitsThatAreSentAsOne(t *testing.T) {
	chain := func(count, partitions, metadata int) (ops []*op) {
		text := strings.Repeat("m", metadata)
		for n := range count {
			req := &offsets.CommitRequest{GroupID: "g", Topics: []offsets.CommitTopic{{Name: "in"}}}
			for p := range partitions {
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, offsets.CommitPartition{Partition: int32(n*partitions + p), Metadata: &text})
			}
			ops = append(ops, &op{kind: opCommit, commit: req})
		}
		return ops
	}
	for _, c := range []struct{ count, partitions, metadata, most int }{
		{20, 10, 40, 20},
		{20, 10, 4096, 6}, // 6 are 250,000 bytes
		{3, 200, 4096, 1}, // the first goes as it came
	} {
		if got := mergeable(chain(c.count, c.partitions, c.metadata)); got != c.most {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
