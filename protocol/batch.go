package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// Groups lists the group ids of a request that carries several (OffsetFetch from v8, DeleteGroups, DescribeGroups,
// ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe, DescribeShareGroupOffsets) in its order. Other
// requests are malformed here: see [GroupID].
func Groups(key, version int16, body []byte) ([]string, error) {
	_, groups, err := decodeGroups(key, version, body)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range groups.n {
		ids = append(ids, groups.id(i))
	}
	return ids, nil
}

// SplitGroups encodes the body of such a request again, with only the groups that keep wants.
func SplitGroups(key, version int16, body []byte, keep func(id string) bool) ([]byte, error) {
	req, groups, err := decodeGroups(key, version, body)
	if err != nil {
		return nil, err
	}
	groups.filter(keep)
	return req.AppendTo(nil), nil
}

// Part is what a request says of one of its groups: the body of a request about that group alone.
type Part struct {
	ID   string
	Body []byte
}

// SplitEach takes such a request apart: one part for each place where a group is named that keep wants, in the order of
// the request. The work is linear in the request.
func SplitEach(key, version int16, body []byte, keep func(id string) bool) ([]Part, error) {
	req, groups, err := decodeGroups(key, version, body)
	if err != nil {
		return nil, err
	}
	var parts []Part
	for i := range groups.n {
		if id := groups.id(i); keep(id) {
			groups.only(i)
			parts = append(parts, Part{id, req.AppendTo(nil)})
		}
	}
	return parts, nil
}

// groupList is the list of groups in a request.
type groupList struct {
	n      int
	id     func(i int) string
	filter func(keep func(id string) bool) // leaves those that keep wants in the request
	only   func(i int)                     // leaves one in the request
}

func listOf[T any](list *[]T, id func(*T) string) groupList {
	all := *list
	return groupList{
		n: len(all), id: func(i int) string { return id(&all[i]) },
		filter: func(keep func(string) bool) { *list = filter(all, func(g *T) bool { return keep(id(g)) }) },
		only:   func(i int) { *list = all[i : i+1] },
	}
}

func decodeGroups(key, version int16, body []byte) (kmsg.Request, groupList, error) {
	req := kmsg.RequestForKey(key)
	if req == nil || key == KeyOffsetFetch && version < 8 {
		return nil, groupList{}, ErrMalformed
	}
	if err := decode(req, version, body); err != nil {
		return nil, groupList{}, err
	}
	same := func(id *string) string { return *id }
	switch k := req.(type) {
	case *kmsg.OffsetFetchRequest:
		return k, listOf(&k.Groups, func(g *kmsg.OffsetFetchRequestGroup) string { return g.Group }), nil
	case *kmsg.DeleteGroupsRequest:
		return k, listOf(&k.Groups, same), nil
	case *kmsg.DescribeGroupsRequest:
		return k, listOf(&k.Groups, same), nil
	case *kmsg.ConsumerGroupDescribeRequest:
		return k, listOf(&k.Groups, same), nil
	case *kmsg.ShareGroupDescribeRequest:
		return k, listOf(&k.GroupIDs, same), nil
	case *kmsg.StreamsGroupDescribeRequest:
		return k, listOf(&k.Groups, same), nil
	case *kmsg.DescribeShareGroupOffsetsRequest:
		return k, listOf(&k.Groups, func(g *kmsg.DescribeShareGroupOffsetsRequestGroup) string { return g.GroupID }), nil
	}
	return nil, groupList{}, ErrMalformed
}

// filter keeps the elements that keep wants, in place.
func filter[T any](in []T, keep func(*T) bool) []T {
	out := in[:0]
	for i := range in {
		if keep(&in[i]) {
			out = append(out, in[i])
		}
	}
	return out
}

// GroupResult is the outcome for one group of a batch; a nil Err is success.
type GroupResult struct {
	ID  string
	Err *coordinator.Error
}

// AppendDeleteGroups appends the frame of a DeleteGroupsResponse v0–3: own results, then those of upstream, the body of
// the upstream's answer in the same version (nil: none).
func AppendDeleteGroups(dst []byte, h Header, own []GroupResult, upstream []byte) ([]byte, error) {
	k := kmsg.NewPtrDeleteGroupsResponse()
	for _, r := range own {
		g := kmsg.DeleteGroupsResponseGroup{Group: r.ID}
		if r.Err != nil {
			g.ErrorCode, g.ErrorMessage = int16(r.Err.Code), nullable(r.Err.Message)
			if r.Err.Code == coordinator.GroupDeletionFailed && h.Version < 3 {
				g.ErrorCode = int16(coordinator.UnknownServerError)
			}
		}
		k.Groups = append(k.Groups, g)
	}
	if upstream != nil {
		theirs := kmsg.NewPtrDeleteGroupsResponse()
		if err := decodeResponse(theirs, h.Version, upstream); err != nil {
			return dst, err
		}
		k.ThrottleMillis = theirs.ThrottleMillis
		k.Groups = append(k.Groups, theirs.Groups...)
	}
	return AppendResponse(dst, h, k), nil
}

// AppendForeignDescribe appends the frame of the answer to DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe or
// DescribeShareGroupOffsets, requests about groups of another type: own are the streams groups among those asked for,
// which count as not found in Kafka; upstream is the body of the upstream's answer for the rest, in the same version
// (nil: none).
func AppendForeignDescribe(dst []byte, h Header, own []string, upstream []byte) ([]byte, error) {
	results := make([]GroupResult, len(own))
	for i, id := range own {
		results[i] = GroupResult{id, &coordinator.Error{Code: coordinator.GroupIDNotFound, Message: otherType(h.Key, id)}}
	}
	resp := describeFailed(h.Key, h.Version, results)
	if resp == nil {
		return dst, ErrMalformed
	}
	if upstream != nil {
		theirs := kmsg.ResponseForKey(h.Key)
		if err := decodeResponse(theirs, h.Version, upstream); err != nil {
			return dst, err
		}
		mergeDescribed(resp, theirs)
	}
	return AppendResponse(dst, h, resp), nil
}

// describeFailed answers each group of a describe request with its error; nil for other keys.
func describeFailed(key, version int16, results []GroupResult) kmsg.Response {
	switch key {
	case KeyDescribeGroups:
		k := kmsg.NewPtrDescribeGroupsResponse()
		for _, r := range results {
			k.Groups = append(k.Groups, describeClassicFailed(version, r))
		}
		return k
	case KeyConsumerGroupDescribe:
		k := kmsg.NewPtrConsumerGroupDescribeResponse()
		for _, r := range results {
			g := kmsg.NewConsumerGroupDescribeResponseGroup()
			g.Group, g.ErrorCode, g.ErrorMessage = r.ID, int16(r.Err.Code), nullable(r.Err.Message)
			k.Groups = append(k.Groups, g)
		}
		return k
	case KeyShareGroupDescribe:
		k := kmsg.NewPtrShareGroupDescribeResponse()
		for _, r := range results {
			g := kmsg.NewShareGroupDescribeResponseGroup()
			g.GroupID, g.ErrorCode, g.ErrorMessage = r.ID, int16(r.Err.Code), nullable(r.Err.Message)
			k.Groups = append(k.Groups, g)
		}
		return k
	case KeyStreamsGroupDescribe:
		k := kmsg.NewPtrStreamsGroupDescribeResponse()
		for _, r := range results {
			g := kmsg.NewStreamsGroupDescribeResponseGroup()
			g.Group, g.ErrorCode, g.ErrorMessage = r.ID, int16(r.Err.Code), nullable(r.Err.Message)
			k.Groups = append(k.Groups, g)
		}
		return k
	case keyDescribeShareGroupOffsets:
		k := kmsg.NewPtrDescribeShareGroupOffsetsResponse()
		for _, r := range results {
			g := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
			g.GroupID, g.ErrorCode, g.ErrorMessage = r.ID, int16(r.Err.Code), nullable(r.Err.Message)
			k.Groups = append(k.Groups, g)
		}
		return k
	}
	return nil
}

// describeClassicFailed is one group of DescribeGroups: a group that is not found is Dead, and an error only from v6 on.
func describeClassicFailed(version int16, r GroupResult) kmsg.DescribeGroupsResponseGroup {
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.Group = r.ID
	if r.Err.Code == coordinator.GroupIDNotFound {
		g.State = "Dead"
		if version < 6 {
			return g
		}
	}
	g.ErrorCode, g.ErrorMessage = int16(r.Err.Code), nullable(r.Err.Message)
	return g
}

func mergeDescribed(into, from kmsg.Response) {
	switch k := into.(type) {
	case *kmsg.DescribeGroupsResponse:
		f := from.(*kmsg.DescribeGroupsResponse)
		k.ThrottleMillis, k.Groups = f.ThrottleMillis, append(k.Groups, f.Groups...)
	case *kmsg.ConsumerGroupDescribeResponse:
		f := from.(*kmsg.ConsumerGroupDescribeResponse)
		k.ThrottleMillis, k.Groups = f.ThrottleMillis, append(k.Groups, f.Groups...)
	case *kmsg.ShareGroupDescribeResponse:
		f := from.(*kmsg.ShareGroupDescribeResponse)
		k.ThrottleMillis, k.Groups = f.ThrottleMillis, append(k.Groups, f.Groups...)
	case *kmsg.DescribeShareGroupOffsetsResponse:
		f := from.(*kmsg.DescribeShareGroupOffsetsResponse)
		k.ThrottleMillis, k.Groups = f.ThrottleMillis, append(k.Groups, f.Groups...)
	case *kmsg.StreamsGroupDescribeResponse:
		f := from.(*kmsg.StreamsGroupDescribeResponse)
		k.ThrottleMillis, k.Groups = f.ThrottleMillis, append(k.Groups, f.Groups...)
	}
}
