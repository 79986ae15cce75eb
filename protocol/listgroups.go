package protocol

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Names that a streams group has in ListGroups.
const (
	StreamsProtocolType = "streams"
	StreamsGroupType    = "streams"
)

// GroupFilter is what a ListGroupsRequest asks for; an empty list means all.
type GroupFilter struct{ States, Types []string }

// GroupEntry is one group of a ListGroups answer.
type GroupEntry struct{ ID, ProtocolType, State, Type string }

// DecodeListGroups reads a ListGroupsRequest v0–5.
func DecodeListGroups(version int16, body []byte) (*GroupFilter, error) {
	var k kmsg.ListGroupsRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	return &GroupFilter{States: k.StatesFilter, Types: k.TypesFilter}, nil
}

// Match says whether the filter lets a group pass. Names compare without regard to case, and states without underscores:
// the Java client says NotReady where Kafka's coordinator expects not_ready.
func (f *GroupFilter) Match(state, typ string) bool {
	matches := func(filter []string, name string, spelling func(string) string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(s string) bool { return spelling(s) == spelling(name) })
	}
	return matches(f.States, state, plainState) && matches(f.Types, typ, strings.ToLower)
}

func plainState(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

// AppendListGroups appends the frame of a ListGroupsResponse v0–5: the groups of own that pass the filter, ascending,
// then those of upstream, the body of the upstream's answer in the same version (nil: none), except for groups of own
// and those that hide names. An error of the upstream becomes the answer's.
func AppendListGroups(dst []byte, h Header, filter *GroupFilter, own []GroupEntry, upstream []byte, hide func(id string) bool) ([]byte, error) {
	k := kmsg.NewPtrListGroupsResponse()
	held := make(map[string]bool, len(own))
	for _, g := range own {
		held[g.ID] = true
		if filter.Match(g.State, g.Type) {
			k.Groups = append(k.Groups, kmsg.ListGroupsResponseGroup{Group: g.ID, ProtocolType: g.ProtocolType, GroupState: g.State, GroupType: g.Type})
		}
	}
	slices.SortFunc(k.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	if upstream != nil {
		theirs := kmsg.NewPtrListGroupsResponse()
		if err := decodeResponse(theirs, h.Version, upstream); err != nil {
			return dst, err
		}
		k.ErrorCode, k.ThrottleMillis = theirs.ErrorCode, theirs.ThrottleMillis
		for _, g := range theirs.Groups {
			if !held[g.Group] && (hide == nil || !hide(g.Group)) {
				k.Groups = append(k.Groups, g)
			}
		}
	}
	return AppendResponse(dst, h, k), nil
}
