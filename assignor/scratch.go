package assignor

// scratch hands out the many short arrays of a run from few pieces of memory, which is what small groups would spend most time
// on. A run keeps nothing of it in its result.
type scratch struct{ free []int32 }

const (
	scratchPiece = 1024
	// scratchMost is from how many numbers on an array has memory of its own.
	scratchMost = scratchPiece / 4
)

// ints is an array of n zeros.
func (s *scratch) ints(n int) []int32 {
	if n > scratchMost {
		return make([]int32, n)
	}
	if n > len(s.free) {
		s.free = make([]int32, scratchPiece)
	}
	of := s.free[:n:n]
	s.free = s.free[n:]
	return of
}
