package fsm

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/coordd/coordd/fsm/record"
)

// offsetsOf are the offsets of a group, in entries as a follower gets them. The strings are the records' own, as after
// decoding.
func offsetsOf(group, topics, partitions, metadata int) [][]record.Record {
	id := fmt.Sprintf("mem-g-12345678-%d", group)
	out := make([][]record.Record, topics)
	for t := range out {
		topic := fmt.Sprintf("mem-src-20-%d", t)
		for p := range partitions {
			v := &record.OffsetCommit{
				Offset: int64(1000*p + t), LeaderEpoch: 4, CommitTimestampMs: 1790000000123 + int64(p), ExpireTimestampMs: -1,
				Metadata: strings.Repeat("m", metadata), TopicID: [16]byte{byte(group), byte(t), 1},
			}
			out[t] = append(out[t], record.Record{Key: record.Key{Type: record.TypeOffsetCommit, Group: id, Topic: topic, ID: int32(p)}, Value: v})
		}
	}
	return out
}

// offsetShapes share a million offsets: groups, topics of each, partitions of each of those, metadata bytes.
var offsetShapes = [][4]int{{1000, 10, 100, 0}, {1000, 10, 100, 40}, {1000, 100, 10, 40}, {10, 10, 10000, 40}}

func offsetState(b testing.TB, shape [4]int) State {
	s := NewState()
	for g := range shape[0] {
		for _, records := range offsetsOf(g, shape[1], shape[2], shape[3]) {
			var err error
			if s, err = s.EvolveAll(records); err != nil {
				b.Fatal(err)
			}
		}
	}
	return s
}

func offsetShapesOf(b *testing.B, run func(b *testing.B, shape [4]int)) {
	for _, shape := range offsetShapes {
		b.Run(fmt.Sprintf("%dx%dx%d+%dB", shape[0], shape[1], shape[2], shape[3]), func(b *testing.B) { run(b, shape) })
	}
}

// BenchmarkOffsetMemory prints the live heap of a state per offset.
func BenchmarkOffsetMemory(b *testing.B) {
	offsetShapesOf(b, func(b *testing.B, shape [4]int) {
		for b.Loop() {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			s := offsetState(b, shape)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.NumRecords()), "B/offset")
			runtime.KeepAlive(s)
		}
	})
}

// BenchmarkOffsetSnapshot writes a million offsets, BenchmarkOffsetRestore reads them again.
func BenchmarkOffsetSnapshot(b *testing.B) {
	offsetShapesOf(b, func(b *testing.B, shape [4]int) {
		s := offsetState(b, shape)
		b.ReportAllocs()
		for b.Loop() {
			b.SetBytes(int64(len(snapshotOf(b, s))))
		}
	})
}

func BenchmarkOffsetRestore(b *testing.B) {
	offsetShapesOf(b, func(b *testing.B, shape [4]int) {
		snapshot := snapshotOf(b, offsetState(b, shape))
		b.SetBytes(int64(len(snapshot)))
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := ReadSnapshot(bytes.NewReader(snapshot)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOffsetEvolve commits again what is there: offsets of one topic, by one and by a hundred at once.
func BenchmarkOffsetEvolve(b *testing.B) {
	s := offsetState(b, [4]int{100, 10, 100, 40})
	records := offsetsOf(7, 10, 100, 40)[3]
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.EvolveAll(records[:n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOffsetLookup reads one offset of a million, and all of one group.
func BenchmarkOffsetLookup(b *testing.B) {
	s := offsetState(b, [4]int{1000, 10, 100, 40})
	g := s.Group("mem-g-12345678-321")
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := g.Offset("mem-src-20-7", 55); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("group", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for range g.Offsets() {
				n++
			}
			if n != 1000 {
				b.Fatal(n)
			}
		}
	})
}
