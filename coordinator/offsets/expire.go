package offsets

import (
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Retention says when offsets in the log expire.
type Retention struct {
	// Ms is offsets.retention.minutes in milliseconds.
	Ms int64
	// From is from when on what has no usable time of its own counts: the leader's election.
	From int64
}

// Due is what of a group's offsets is to be deleted.
type Due struct {
	// Records are the tombstones; More says that there are others, which are found once these are committed.
	Records []record.Record
	More    bool
	// Left is the number of offsets that stay beside them.
	Left int
	// Gone are the topics that seem to have been deleted: the upstream is to be asked for them by name, and their offsets deleted
	// once it has said so for long enough.
	Gone []string
}

// Confirmed is what the upstream has said of a topic for long enough, each time that it was asked for it by name.
type Confirmed struct {
	topology.Lookup
	// Since is when it was asked first (ms).
	Since int64
}

// deleted says that an offset is of a topic that does not exist any more.
func (c *Confirmed) deleted(o *record.OffsetCommit, w *World, missed bool) bool {
	if o.CommitTimestampMs >= c.Since && o.CommitTimestampMs <= w.Now {
		return false
	}
	return c.Missing == missed && (missed || differ(c.ID, o.TopicID))
}

// FindDue finds the offsets of a group that have expired, and those of topics whose deletion is confirmed; limit bounds the
// tombstones of one round.
//
// While the group has members the offsets of what they read never expire, and those of other topics do the retention after
// their commit. Without members all expire once both the commit and the end of the last member are that long ago: Kafka counts from
// the commit alone, so that what was idle is lost as soon as the app stops (OffsetMetadataManager.cleanupExpiredOffsets).
func FindDue(g *fsm.Group, w *World, r Retention, confirmed func(topic string) (Confirmed, bool), limit int) Due {
	var d Due
	topic, read, gone := "", false, false
	var said Confirmed
	var sure bool
	for tp, o := range g.Offsets() {
		if tp.Topic != topic {
			topic, gone = tp.Topic, false
			read = g.NumMembers() > 0 && g.ReadsTopic(topic)
		}
		missed := w.missed(topic, &o)
		dead := missed || w.replaced(topic, &o)
		if dead && !gone {
			gone = true
			d.Gone = append(d.Gone, topic)
			said, sure = confirmed(topic)
		}
		deleted := dead && sure && said.deleted(&o, w, missed)
		switch {
		case !deleted && (read || !expired(g, w, r, &o)):
			d.Left++
		case len(d.Records) == limit:
			d.More = true
			d.Left++
		default:
			d.Records = append(d.Records, tombstone(g.ID, topic, tp.Partition))
		}
	}
	return d
}

func expired(g *fsm.Group, w *World, r Retention, o *record.OffsetCommit) bool {
	if o.ExpireTimestampMs >= 0 {
		return w.Now >= o.ExpireTimestampMs
	}
	since := r.usable(o.CommitTimestampMs, w.Now)
	if g.NumMembers() == 0 {
		since = max(since, r.EmptySince(g, w.Now))
	}
	return w.Now-since >= r.Ms
}

// EmptySince is since when a group without members has had none.
func (r Retention) EmptySince(g *fsm.Group, now int64) int64 {
	if g.Marks == nil || g.Marks.EmptySinceMs <= 0 {
		return r.From
	}
	return r.usable(g.Marks.EmptySinceMs, now)
}

// usable is a time that another leader wrote; one of a clock that was ahead says nothing.
func (r Retention) usable(at, now int64) int64 {
	if at > now {
		return r.From
	}
	return at
}
