package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// Groups lists the group ids of a request that carries several (OffsetFetch from v8, DeleteGroups, DescribeGroups,
// ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe, DescribeShareGroupOffsets) in its order. Other
// requests are malformed here: see [GroupID].
func Groups(key, version int16, body []byte) ([]string, error) {
	var ids []string
	_, err := splitGroups(key, version, body, func(id string) bool { ids = append(ids, id); return true })
	return ids, err
}

// SplitGroups encodes the body of such a request again, with only the groups that keep wants.
func SplitGroups(key, version int16, body []byte, keep func(id string) bool) ([]byte, error) {
	req, err := splitGroups(key, version, body, keep)
	if err != nil {
		return nil, err
	}
	return req.AppendTo(nil), nil
}

func splitGroups(key, version int16, body []byte, keep func(id string) bool) (kmsg.Request, error) {
	req := kmsg.RequestForKey(key)
	if req == nil || key == KeyOffsetFetch && version < 8 {
		return nil, ErrMalformed
	}
	if err := decode(req, version, body); err != nil {
		return nil, err
	}
	same := func(id *string) bool { return keep(*id) }
	switch k := req.(type) {
	case *kmsg.OffsetFetchRequest:
		k.Groups = filter(k.Groups, func(g *kmsg.OffsetFetchRequestGroup) bool { return keep(g.Group) })
	case *kmsg.DeleteGroupsRequest:
		k.Groups = filter(k.Groups, same)
	case *kmsg.DescribeGroupsRequest:
		k.Groups = filter(k.Groups, same)
	case *kmsg.ConsumerGroupDescribeRequest:
		k.Groups = filter(k.Groups, same)
	case *kmsg.ShareGroupDescribeRequest:
		k.GroupIDs = filter(k.GroupIDs, same)
	case *kmsg.StreamsGroupDescribeRequest:
		k.Groups = filter(k.Groups, same)
	case *kmsg.DescribeShareGroupOffsetsRequest:
		k.Groups = filter(k.Groups, func(g *kmsg.DescribeShareGroupOffsetsRequestGroup) bool { return keep(g.GroupID) })
	default:
		return nil, ErrMalformed
	}
	return req, nil
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
