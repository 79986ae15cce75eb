package record_test

import (
	"testing"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
)

// join are the records of one typical join.
func join() record.Entry {
	e := record.Entry{FeatureLevel: 1, LeaderTimeMs: 2, Proposal: 3}
	for _, s := range recordtest.Samples() {
		switch s.Name {
		case "17-full", "19-full", "20-full", "21-full", "22-full":
			e.Records = append(e.Records, s.Record)
		}
	}
	return e
}

func BenchmarkEncodeEntry(b *testing.B) {
	e := join()
	buf := record.EncodeEntry(nil, e)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = record.EncodeEntry(buf[:0], e)
	}
}

func BenchmarkSize(b *testing.B) {
	e := join()
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range e.Records {
			record.Size(r)
		}
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	buf := record.EncodeEntry(nil, join())
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.DecodeEntry(buf); err != nil {
			b.Fatal(err)
		}
	}
}
