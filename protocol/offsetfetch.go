package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// FetchedGroup is one group of an OffsetFetch request, with the topics that were refused before (unknown ids).
type FetchedGroup struct {
	Request *offsets.FetchRequest
	Refused []offsets.FetchTopicResult
}

// DecodeOffsetFetch reads an OffsetFetchRequest v1–10 into one request for each group; below v8 there is exactly one.
// Nothing aliases the body.
func DecodeOffsetFetch(version int16, body []byte, names TopicNames) ([]FetchedGroup, error) {
	var k kmsg.OffsetFetchRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	if version < 8 {
		req := &offsets.FetchRequest{Version: version, GroupID: k.Group, MemberEpoch: -1, RequireStable: k.RequireStable}
		if k.Topics != nil {
			req.Topics = make([]offsets.FetchTopic, 0, len(k.Topics))
		}
		for _, t := range k.Topics {
			req.Topics = append(req.Topics, offsets.FetchTopic{Name: t.Topic, Partitions: t.Partitions})
		}
		return []FetchedGroup{{Request: req}}, nil
	}
	groups := make([]FetchedGroup, 0, len(k.Groups))
	for i := range k.Groups {
		groups = append(groups, fetchedGroup(version, k.RequireStable, &k.Groups[i], names))
	}
	return groups, nil
}

func fetchedGroup(version int16, stable bool, k *kmsg.OffsetFetchRequestGroup, names TopicNames) FetchedGroup {
	req := &offsets.FetchRequest{Version: version, GroupID: k.Group, MemberEpoch: -1, RequireStable: stable}
	if version >= 9 {
		req.MemberID, req.MemberEpoch = k.MemberID, k.MemberEpoch
	}
	g := FetchedGroup{Request: req}
	if k.Topics != nil {
		req.Topics = make([]offsets.FetchTopic, 0, len(k.Topics))
	}
	for _, t := range k.Topics {
		name, ok := t.Topic, true
		if version >= offsetFetchTopicIDs {
			name, ok = names(t.TopicID)
		}
		if ok {
			req.Topics = append(req.Topics, offsets.FetchTopic{Name: name, ID: t.TopicID, Partitions: t.Partitions})
			continue
		}
		r := offsets.FetchTopicResult{ID: t.TopicID, Partitions: make([]offsets.FetchedOffset, len(t.Partitions))}
		for i, p := range t.Partitions {
			r.Partitions[i] = offsets.NoOffset(p, coordinator.UnknownTopicID)
		}
		g.Refused = append(g.Refused, r)
	}
	return g
}

// FetchAnswer is the answer for one group of an OffsetFetch request.
type FetchAnswer struct {
	GroupID  string
	Response *offsets.FetchResponse
	Refused  []offsets.FetchTopicResult
}

// AppendOffsetFetch appends the frame of an OffsetFetchResponse v1–10: own answers, then the groups of upstream, the body
// of the upstream's answer for the rest of the batch in the same version (nil: none). Below v8 own has exactly one
// element and there is no rest.
func AppendOffsetFetch(dst []byte, h Header, own []FetchAnswer, upstream []byte) ([]byte, error) {
	k := kmsg.NewPtrOffsetFetchResponse()
	if h.Version < 8 {
		if len(own) != 1 || upstream != nil {
			return dst, ErrMalformed
		}
		fetchSingle(h.Version, k, &own[0])
		return AppendResponse(dst, h, k), nil
	}
	for i := range own {
		k.Groups = append(k.Groups, fetchGroup(&own[i]))
	}
	if upstream != nil {
		theirs := kmsg.NewPtrOffsetFetchResponse()
		if err := decodeResponse(theirs, h.Version, upstream); err != nil {
			return dst, err
		}
		k.ThrottleMillis = theirs.ThrottleMillis
		k.Groups = append(k.Groups, theirs.Groups...)
	}
	return AppendResponse(dst, h, k), nil
}

func fetchGroup(a *FetchAnswer) kmsg.OffsetFetchResponseGroup {
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group = a.GroupID
	if a.Response.Err != nil {
		g.ErrorCode = int16(a.Response.Err.Code)
		return g
	}
	for _, list := range [...][]offsets.FetchTopicResult{a.Response.Topics, a.Refused} {
		for _, t := range list {
			kt := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Name, TopicID: t.ID}
			for _, p := range t.Partitions {
				kt.Partitions = append(kt.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
					Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: metadata(p.Metadata), ErrorCode: int16(p.Code),
				})
			}
			g.Topics = append(g.Topics, kt)
		}
	}
	return g
}

// fetchSingle fills the layout of v1–7. v1 has no error of the group: OffsetFetchResponse.java puts it on each partition
// that was asked for, which is what [offsets.FetchFailed] prepares.
func fetchSingle(version int16, k *kmsg.OffsetFetchResponse, a *FetchAnswer) {
	if e := a.Response.Err; e != nil && version >= 2 {
		k.ErrorCode = int16(e.Code)
		return
	}
	for _, t := range a.Response.Topics {
		kt := kmsg.OffsetFetchResponseTopic{Topic: t.Name}
		for _, p := range t.Partitions {
			kt.Partitions = append(kt.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: metadata(p.Metadata), ErrorCode: int16(p.Code),
			})
		}
		k.Topics = append(k.Topics, kt)
	}
}

var emptyMetadata string

// metadata returns an empty string for null: Kafka never answers null, and clients do not expect it.
func metadata(m *string) *string {
	if m == nil {
		return &emptyMetadata
	}
	return m
}
