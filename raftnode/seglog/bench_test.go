package seglog

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStore appends 300-byte entries, one in flight per group, on the real disk.
func BenchmarkStore(b *testing.B) {
	for _, groups := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			l, err := Open(Options{Dir: b.TempDir(), Groups: groups})
			if err != nil {
				b.Fatal(err)
			}
			data := make([]byte, 300)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for id := range groups {
				wg.Go(func() {
					g := l.Group(uint32(id))
					for i := range uint64(b.N / groups) {
						if err := g.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: data}); err != nil {
							b.Error(err)
							return
						}
						if i%4096 == 4095 {
							_ = g.DeleteRange(1, i-2048)
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
