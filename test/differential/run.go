package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Run says which scripts to play.
type Run struct {
	Servers
	First uint64 // seed of the first script
	Count int    // 0: until the context ends
	// Width is how many scripts are played at a time.
	Width int
	// Budget is how many scripts the minimiser of a failing one may play; 0: it is reported as it is.
	Budget int
	// Suffix is a part of the names of all groups, so that seeds can be played again on the same servers.
	Suffix string
	// Failed is called with each failing script, made short, how that went, and the longest form. Not at the same time twice.
	Failed func(short *Script, r Result, long *Script)
}

// Summary adds up what was played.
type Summary struct {
	Scripts, Steps, Failed int
	Rules, Ended           map[string]int
}

// String implements fmt.Stringer.
func (s *Summary) String() string {
	var sb strings.Builder
	_, _ = fmt.Fprintf(&sb, "%d scripts, %d steps, %d failed", s.Scripts, s.Steps, s.Failed)
	for _, rule := range slices.Sorted(maps.Keys(s.Rules)) {
		_, _ = fmt.Fprintf(&sb, "\n  %6d answers by rule: %s", s.Rules[rule], rule)
		if n := s.Ended[rule]; n > 0 {
			_, _ = fmt.Fprintf(&sb, " (%d scripts ended there)", n)
		}
	}
	return sb.String()
}

// Do plays the scripts. The error is of a server that does not answer; failing scripts are counted.
func (r Run) Do(ctx context.Context) (*Summary, error) {
	sum := &Summary{Rules: map[string]int{}, Ended: map[string]int{}}
	if err := Prepare(r.Servers); err != nil {
		return sum, err
	}
	var mu sync.Mutex
	var failure error
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range max(1, r.Width) {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				if r.Count > 0 && n >= uint64(r.Count) {
					return
				}
				long := Generate(r.First + n)
				result, err := Play(long, r.Suffix, r.Servers)
				short := long
				if err == nil && result.Failure != nil {
					short, result = r.shorten(long, result)
				}
				mu.Lock()
				if err != nil {
					failure = err
					mu.Unlock()
					return
				}
				sum.add(result)
				if result.Failure != nil && r.Failed != nil {
					r.Failed(short, result, long)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return sum, failure
}

// shorten minimises a failing script and returns how the short one went.
func (r Run) shorten(long *Script, result Result) (*Script, Result) {
	upTo := long.with(long.Steps[:result.Failure.Step])
	tries := 0
	short := Minimise(upTo, r.Budget, func(s *Script) bool {
		tries++
		got, err := Play(s, fmt.Sprintf("%s-m%d", r.Suffix, tries), r.Servers)
		if err != nil || got.Failure == nil {
			return false
		}
		result = got
		return true
	})
	return short, result
}

func (s *Summary) add(r Result) {
	s.Scripts++
	s.Steps += r.Steps
	for rule, n := range r.Rules {
		s.Rules[rule] += n
	}
	if r.Ended != "" {
		s.Ended[r.Ended]++
	}
	if r.Failure != nil {
		s.Failed++
	}
}
