package coordinator

import "github.com/coordd/coordd/topology"

// Origin is what the upstream's own coordinator has under the id of a group that coordd is to take over, or to give back. The
// zero value says that there is no group.
type Origin struct {
	// Type is "classic", "consumer" (KIP-848), "share" or "streams"; "" for no group. Protocol is what the members of a classic
	// group call it: "consumer" where they consume, "coordd" where coordd was its only member, "" for offsets that were
	// committed without a member.
	Type, Protocol string
	// State is what Kafka calls the group's state; empty where there is no group.
	State string
	// Members are known of classic and streams groups.
	Members []OriginMember
	// Epoch is the group epoch of a streams group; 0 for others.
	Epoch int32
	// Topology is that of a streams group as StreamsGroupDescribe tells it: without copartition groups and patterns, and with
	// the partition counts that internal topics have. Nil where there is none.
	Topology *topology.Topology
	// Settings are those streams.* that the upstream has for this group.
	Settings map[string]string
}

// OriginMember is a member of a group upstream. InstanceID is empty unless the member is static.
type OriginMember struct{ ID, InstanceID, ClientID, Host string }

// Own says that the group holds the offsets of a streams group of coordd's.
func (o *Origin) Own() bool { return o.Type == "classic" && o.Protocol == "coordd" }

// Empty says that the group has no members.
func (o *Origin) Empty() bool { return o.Type == "" || o.State == "Empty" || o.State == "Dead" }
