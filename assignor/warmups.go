package assignor

// refining is what assignors implement that give warm-ups.
type refining interface{ UsesWarmups() bool }

// UsesWarmups says whether assignments of the assignor depend on what members report of their copies of tasks: whether
// these are caught up, ready, or restoring. Others need no such reports.
func UsesWarmups(a Assignor) bool {
	r, ok := a.(refining)
	return ok && r.UsesWarmups()
}
