package shard

import "github.com/coordd/coordd/coordinator/streams"

// overtakenMs is by how much a heartbeat must be older than another one of its member that came before it to be refused. Its
// client has given it up, and may have been given tasks since that it does not know of: what it reports as not owned would be
// taken for released. A client that only goes to another node at once is not meant.
const overtakenMs = 10

// late says that a heartbeat was read from its client before another one of its member that came first, a leave before its
// member joined again, or a join before its member left. A leave may follow a heartbeat on the same connection at once, and its
// client does not say it again: only a member that is back is not to be removed by it.
func (m *Machine) late(e *group, c *Call, r *streams.HeartbeatRequest) bool {
	if c.AgeMs <= overtakenMs {
		return false
	}
	asked := c.arrived - c.AgeMs + overtakenMs
	if r.MemberEpoch < streams.JoinEpoch {
		return e.soft.JoinedBetween(r.MemberID, asked, c.arrived)
	}
	return e.soft.HeardBetween(r.MemberID, asked, c.arrived) ||
		r.MemberEpoch == streams.JoinEpoch && e.departed.between(r.MemberID, asked, c.arrived)
}

// departedMs is for how long at least it is known who has left: longer than a join may be on its way.
const departedMs = 5000

// departures are the members that a group lost lately, and when.
type departures struct {
	lately, before map[string]int64
	since          int64
}

func (d *departures) add(member string, at int64) {
	if d.lately == nil || at-d.since > departedMs {
		d.before, d.lately, d.since = d.lately, map[string]int64{}, at
	}
	d.lately[member] = at
}

func (d *departures) between(member string, after, before int64) bool {
	at, ok := d.lately[member]
	if !ok {
		at = d.before[member]
	}
	return after < at && at < before
}
