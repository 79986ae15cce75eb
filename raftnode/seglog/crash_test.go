package seglog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// held is what a group holds, with entries told apart by term and size.
type held struct {
	first   uint64
	entries []raft.Log
}

func (h held) last() uint64 { return h.first + uint64(len(h.entries)) - 1 }

// upto is what is left when the entries from i on are gone.
func (h held) upto(i uint64) held {
	if i <= h.first {
		return held{first: i}
	}
	return held{h.first, slices.Clone(h.entries[:i-h.first])}
}

func same(a, b raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && string(a.Data) == string(b.Data)
}

// known is what is known of a group: what it must hold, what may come back in front of it, and what else it may hold
// because of an operation whose outcome is not known.
type known struct {
	must   held
	ghosts []raft.Log
	maybe  []held
	term   uint64
}

// store notes that entries are about to be stored, which is one of several outcomes until done says so.
func (k *known) store(logs []*raft.Log) (done func()) {
	h := k.must
	if len(h.entries) == 0 || logs[0].Index > h.last()+1 {
		h = held{first: logs[0].Index}
		k.maybe = append(k.maybe, h) // the gap is made, and nothing is behind it
	} else {
		h = h.upto(logs[0].Index)
	}
	for _, l := range logs {
		h = held{h.first, append(slices.Clone(h.entries), *l)}
		k.maybe = append(k.maybe, h)
	}
	return func() { k.must, k.maybe, k.ghosts = h, nil, nil }
}

// check compares what a group holds after a crash.
func (k *known) check(got held) error {
	var why error
	for _, want := range append([]held{k.must}, k.maybe...) {
		if why = k.fits(got, want); why == nil {
			return nil
		}
	}
	return why
}

func (k *known) fits(got, want held) error {
	all := append(slices.Clone(k.ghosts), want.entries...)
	n := len(got.entries)
	if n < len(want.entries) || n > len(all) {
		return fmt.Errorf("%d entries from %d on, want %d from %d on, and %d before may be back", n, got.first,
			len(want.entries), want.first, len(k.ghosts))
	}
	for i, e := range all[len(all)-n:] {
		if !same(e, got.entries[i]) {
			return fmt.Errorf("entry %d of term %d, want %d of term %d", got.entries[i].Index, got.entries[i].Term, e.Index, e.Term)
		}
	}
	return nil
}

func readAll(g *Group) (h held, err error) {
	h.first, _ = g.FirstIndex()
	last, _ := g.LastIndex()
	for i := h.first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := g.GetLog(i, &l); err != nil {
			return h, err
		}
		h.entries = append(h.entries, l)
	}
	return h, nil
}

// act does one random thing to a group.
func (k *known) act(g *Group, r *rand.Rand) error {
	var logs []*raft.Log
	add := func(from uint64) {
		for i := range uint64(1 + r.IntN(6)) {
			logs = append(logs, entry(from+i, k.term, r.IntN(700)))
		}
	}
	what := r.IntN(10)
	m := k.must
	switch {
	case len(m.entries) == 0:
		add(m.first + 1)
	case what < 4:
		add(m.last() + 1)
	case what == 4:
		add(m.last() + 2 + r.Uint64N(100))
	case what == 5:
		k.term++
		add(m.first + r.Uint64N(uint64(len(m.entries))))
	case what == 6: // the end goes
		k.term++
		from := m.first + r.Uint64N(uint64(len(m.entries)))
		cut := m.upto(from)
		k.maybe = append(k.maybe, cut)
		err := g.DeleteRange(from, m.last())
		if err == nil {
			k.must, k.maybe = cut, nil
			if len(cut.entries) == 0 {
				k.ghosts = nil
			}
		}
		return err
	default: // the beginning goes
		n := r.IntN(len(m.entries))
		if n == 0 {
			return nil
		}
		err := g.DeleteRange(m.first, m.first+uint64(n)-1)
		k.ghosts = append(k.ghosts, m.entries[:n]...)
		k.must = held{m.first + uint64(n), m.entries[n:]}
		return err
	}
	done := k.store(logs)
	err := g.StoreLogs(logs)
	if err == nil {
		done()
	}
	return err
}

// TestNothingAcknowledgedIsLostInACrash lets several groups work at the same time, takes the power away at a random
// moment, and compares; again and again on the same disk.
func TestNothingAcknowledgedIsLostInACrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		fs := newMemFS()
		groups := make([]known, 3)
		for range rapid.IntRange(1, 6).Draw(t, "crashes") {
			fs.steps = rapid.IntRange(0, 300).Draw(t, "steps")
			l, err := Open(Options{Dir: "d", Groups: len(groups), SegmentSize: minSegmentSize, CacheSize: 1000, FS: fs})
			if err == nil {
				coverAll(l)
				work(l, groups, r)
				_ = l.Close()
			} else if !fs.off {
				t.Fatal(err)
			}
			fs = fs.crash(r)
			if l, err = Open(Options{Dir: "d", Groups: len(groups), SegmentSize: minSegmentSize, FS: fs}); err != nil {
				t.Fatalf("after the crash: %v", err)
			}
			for id := range groups {
				k := &groups[id]
				got, err := readAll(l.Group(uint32(id)))
				if err == nil {
					err = k.check(got)
				}
				if err != nil {
					t.Fatalf("group %d: %v", id, err)
				}
				k.must, k.maybe, k.ghosts = got, nil, nil
				k.term++
			}
			_ = l.Close()
		}
	})
}

// work lets each group act until something fails, or long enough.
func work(l *Log, groups []known, r *rand.Rand) {
	var wg sync.WaitGroup
	for id := range groups {
		own := rand.New(rand.NewPCG(r.Uint64(), 2))
		wg.Go(func() {
			for range 150 {
				if err := groups[id].act(l.Group(uint32(id)), own); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}
