package differential

import (
	"slices"
	"strings"
)

// topologyUpdates is the rule that coordd takes topology updates by epoch (docs/differences.md, docs/topologies.md): Kafka
// refuses every other topology, and treats members of an earlier epoch like all others.
const topologyUpdates = "topology updates"

// refusesUpdate says that Kafka refused a join because of its topology.
func refusesUpdate(k obj) bool {
	m, _ := k["message"].(string)
	return strings.HasPrefix(m, "Topology updates are not supported yet.")
}

const staleTopology = 0 // status code

// updated judges a join with another topology than the group's; ok is false for every other one.
func (d *duel) updated(kx, cx *exchange, k obj, promised func(string, int16, then) verdict) (v verdict, ok bool) {
	if cx.req.MemberEpoch != 0 || cx.req.Topology == nil {
		return verdict{}, false
	}
	stale := kx.resp.ErrorCode == none && slices.Contains(kx.statusCodes(), int8(staleTopology))
	empty := cx.members == 0
	switch {
	case stale && empty: // the group takes the topology
		if v := promised(topologyUpdates, none, end); v.text != "" || !slices.Contains(cx.statusCodes(), int8(staleTopology)) {
			return v, true
		}
		return wrong("%s: the first member of an empty group is stale", topologyUpdates), true
	case stale: // nobody stale gets anything new
		if v := promised(topologyUpdates, none, end); v.text != "" || slices.Contains(cx.statusCodes(), int8(staleTopology)) {
			return v, true
		}
		return wrong("%s: a member of an earlier topology epoch is not told so", topologyUpdates), true
	case !refusesUpdate(k):
		return verdict{}, false
	case empty || cx.req.Topology.Epoch == topologyEpoch(d.kafka.describe())+1:
		return promised(topologyUpdates, none, end), true
	}
	return promised(topologyUpdates, invalidTopologyEpoch, goOn), true
}

// topologyEpoch is the group's as it is described; -2, which no epoch follows, when it has no topology.
func topologyEpoch(described obj) int32 {
	t, _ := described["topology"].(obj)
	switch e := t["epoch"].(type) {
	case int:
		return int32(e)
	case int32:
		return e
	}
	return -2
}
