package differential

// Minimise makes a failing script shorter, as long as fails says that what is left fails too. It tries at most budget scripts.
func Minimise(s *Script, budget int, fails func(*Script) bool) *Script {
	for size := max(1, len(s.Steps)/2); size >= 1; {
		shorter := false
		for from := 0; from < len(s.Steps) && budget > 0; {
			to := min(from+size, len(s.Steps))
			steps := append(append([]obj{}, s.Steps[:from]...), s.Steps[to:]...)
			budget--
			if len(steps) > 0 && fails(s.with(steps)) {
				s, shorter = s.with(steps), true
				continue
			}
			from = to
		}
		switch {
		case budget <= 0:
			return s
		case size > 1:
			size /= 2
		case !shorter:
			return s
		}
	}
	return s
}
