package shard

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// BenchmarkLogCommit is a commit of ten partitions from its arrival to its answer, an entry each, in groups of different size.
func BenchmarkLogCommit(b *testing.B) {
	for _, size := range []int32{100, 10_000} {
		b.Run(fmt.Sprint(size, " partitions"), func(b *testing.B) {
			r := newLogRig(b)
			r.topics["in"] = size
			records := []record.Record{{Key: record.Key{Type: record.TypeOffsetsStore, Group: "g"}, Value: &record.OffsetsStore{Store: record.StoreRaft}}}
			for p := range size {
				records = append(records, record.Record{
					Key:   record.Key{Type: record.TypeOffsetCommit, Group: "g", Topic: "in", ID: p},
					Value: &record.OffsetCommit{LeaderEpoch: -1, ExpireTimestampMs: -1},
				})
			}
			state, err := fsm.NewState().EvolveAll(records)
			if err != nil {
				b.Fatal(err)
			}
			r.Lost(r.now)
			r.Elected(r.now, 2, state)
			r.freshProof()
			request := commit("g", "", -1)
			request.Topics[0].Partitions = nil
			for p := range int32(10) {
				request.Topics[0].Partitions = append(request.Topics[0].Partitions, offsets.CommitPartition{Partition: p * 7, Offset: int64(p), LeaderEpoch: -1})
			}
			r.host = quiet{r}
			b.ReportAllocs()
			for b.Loop() {
				a := answer{}
				r.Submit(r.now, &Call{Client: client, Request: request, Done: &a})
				r.Flush()
				r.Committed(r.now, r.inflight.id)
				if !a.done {
					b.Fatal("not answered")
				}
			}
		})
	}
}

// quiet is a rig that remembers nothing of what is proposed and told.
type quiet struct{ *rig }

func (quiet) Propose(uint64, record.Entry, *Change) {}
func (quiet) Observe(Event)                         {}
