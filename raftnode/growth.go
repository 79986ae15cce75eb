package raftnode

// The library counts entries, of which one may be a hundred bytes long or half a MiB. What a start has to read and apply
// again, and what the log takes on disk, is bounded in bytes here: a snapshot is also taken when the entries since
// the last one are as long as half of it, and SnapshotBytes at least, so that with a large state not every few entries cost
// a snapshot. Behind a snapshot stay about TrailingBytes of entries.

// minTrailing is how many entries stay behind a snapshot whatever their size.
const minTrailing = 64

// snapshotBySize begins a snapshot of a group whose log has grown by so much, one group of the node after the other.
func (g *Group) snapshotBySize() {
	in := g.inst.Load()
	if in == nil || g.fsm.grown.Load() < max(g.node.cfg.Timing.SnapshotBytes, g.snap.size.Load()/2) {
		return
	}
	select {
	case g.node.snapshotting <- struct{}{}:
	default:
		return // the next look comes soon
	}
	go func() {
		defer func() { <-g.node.snapshotting }()
		// The library logs what goes wrong. It is tried again when the log has grown by as much again.
		_ = in.raft.Snapshot().Error()
	}()
}

// captured is told on the state machine's goroutine that a snapshot of it begins, and what the entries since the last one
// were: the log is cut after the snapshot, by the bound that is set here.
func (g *Group) captured(entries, bytes uint64) {
	in := g.inst.Load()
	if in == nil || entries == 0 {
		return
	}
	c := in.raft.ReloadableConfig()
	most := g.node.cfg.Timing.TrailingLogs
	keep := min(most, max(g.node.cfg.Timing.TrailingBytes*entries/max(bytes, 1), min(most, minTrailing)))
	if c.TrailingLogs == keep {
		return
	}
	c.TrailingLogs = keep
	if err := in.raft.ReloadConfig(c); err != nil {
		g.log.Warn("the number of entries that stay behind a snapshot cannot be set", "entries", keep, "error", err)
	}
}
