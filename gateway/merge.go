package gateway

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

// merger puts the answers for the groups of one request together, in the order of the request.
type merger struct {
	h     protocol.Header
	order map[string]int
	resp  kmsg.Response
}

func newMerger(h protocol.Header, ids []string) *merger {
	m := &merger{h: h, order: make(map[string]int, len(ids)), resp: kmsg.ResponseForKey(h.Key)}
	for i, id := range ids {
		if _, ok := m.order[id]; !ok {
			m.order[id] = i
		}
	}
	return m
}

// add takes an answer frame with its length prefix.
func (m *merger) add(answer []byte) error {
	_, body, err := protocol.ResponseBody(m.h.Key, m.h.Version, answer[4:])
	if err != nil {
		return err
	}
	part := kmsg.ResponseForKey(m.h.Key)
	part.SetVersion(m.h.Version)
	if err := part.ReadFrom(body); err != nil {
		return err
	}
	if ms, ok := part.(kmsg.ThrottleResponse); ok {
		throttle, _ := ms.Throttle()
		if sofar, _ := m.resp.(kmsg.ThrottleResponse).Throttle(); throttle > sofar {
			m.resp.(kmsg.SetThrottleResponse).SetThrottle(throttle)
		}
	}
	switch into := m.resp.(type) {
	case *kmsg.OffsetFetchResponse:
		into.Groups = append(into.Groups, part.(*kmsg.OffsetFetchResponse).Groups...)
	case *kmsg.DeleteGroupsResponse:
		into.Groups = append(into.Groups, part.(*kmsg.DeleteGroupsResponse).Groups...)
	case *kmsg.DescribeGroupsResponse:
		into.Groups = append(into.Groups, part.(*kmsg.DescribeGroupsResponse).Groups...)
	case *kmsg.ConsumerGroupDescribeResponse:
		into.Groups = append(into.Groups, part.(*kmsg.ConsumerGroupDescribeResponse).Groups...)
	case *kmsg.ShareGroupDescribeResponse:
		into.Groups = append(into.Groups, part.(*kmsg.ShareGroupDescribeResponse).Groups...)
	case *kmsg.StreamsGroupDescribeResponse:
		into.Groups = append(into.Groups, part.(*kmsg.StreamsGroupDescribeResponse).Groups...)
	case *kmsg.DescribeShareGroupOffsetsResponse:
		into.Groups = append(into.Groups, part.(*kmsg.DescribeShareGroupOffsetsResponse).Groups...)
	}
	return nil
}

// merged is the whole answer.
func (m *merger) merged() kmsg.Response {
	switch r := m.resp.(type) {
	case *kmsg.OffsetFetchResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.OffsetFetchResponseGroup) string { return g.Group })
	case *kmsg.DeleteGroupsResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.DeleteGroupsResponseGroup) string { return g.Group })
	case *kmsg.DescribeGroupsResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.DescribeGroupsResponseGroup) string { return g.Group })
	case *kmsg.ConsumerGroupDescribeResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.ConsumerGroupDescribeResponseGroup) string { return g.Group })
	case *kmsg.ShareGroupDescribeResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.ShareGroupDescribeResponseGroup) string { return g.GroupID })
	case *kmsg.StreamsGroupDescribeResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.StreamsGroupDescribeResponseGroup) string { return g.Group })
	case *kmsg.DescribeShareGroupOffsetsResponse:
		sortBy(r.Groups, m.order, func(g *kmsg.DescribeShareGroupOffsetsResponseGroup) string { return g.GroupID })
	}
	return m.resp
}

func sortBy[T any](groups []T, order map[string]int, id func(*T) string) {
	slices.SortStableFunc(groups, func(a, b T) int { return order[id(&a)] - order[id(&b)] })
}

// batchMoved says whether a group of a batch has a code that gone says is a coordinator's that is one no more.
func batchMoved(resp kmsg.Response, gone func(int16) bool) bool {
	switch r := resp.(type) {
	case *kmsg.DeleteGroupsResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.DeleteGroupsResponseGroup) bool { return gone(g.ErrorCode) })
	case *kmsg.DescribeGroupsResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.DescribeGroupsResponseGroup) bool { return gone(g.ErrorCode) })
	case *kmsg.ConsumerGroupDescribeResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.ConsumerGroupDescribeResponseGroup) bool { return gone(g.ErrorCode) })
	case *kmsg.ShareGroupDescribeResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.ShareGroupDescribeResponseGroup) bool { return gone(g.ErrorCode) })
	case *kmsg.DescribeShareGroupOffsetsResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.DescribeShareGroupOffsetsResponseGroup) bool { return gone(g.ErrorCode) })
	}
	return false
}
