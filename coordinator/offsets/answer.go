package offsets

import (
	"unicode/utf8"

	"github.com/coordd/coordd/coordinator"
)

// CommitFailed answers every partition of a commit with one code.
func CommitFailed(req *CommitRequest, code coordinator.Code) *CommitResponse {
	resp := &CommitResponse{Topics: make([]CommitTopicResult, len(req.Topics))}
	for i := range req.Topics {
		t := &req.Topics[i]
		r := CommitTopicResult{Name: t.Name, ID: t.ID, Partitions: make([]PartitionResult, len(t.Partitions))}
		for j := range t.Partitions {
			r.Partitions[j] = PartitionResult{Partition: t.Partitions[j].Partition, Code: code}
		}
		resp.Topics[i] = r
	}
	return resp
}

// SplitLargeMetadata takes out the partitions whose metadata is longer than limit and returns what is left, and the
// answers of those taken out (OFFSET_METADATA_TOO_LARGE). The request is not changed; it is returned itself when nothing
// is too large. Lengths are Java's: UTF-16 code units (OffsetMetadataManager.isMetadataInvalid).
func SplitLargeMetadata(req *CommitRequest, limit int32) (*CommitRequest, []CommitTopicResult) {
	return splitLarge(req, func(metadata *string) bool { return tooLarge(metadata, limit) })
}

func splitLarge(req *CommitRequest, large func(*string) bool) (*CommitRequest, []CommitTopicResult) {
	if !anyLarge(req, large) {
		return req, nil
	}
	rest := *req
	rest.Topics = nil
	var refused []CommitTopicResult
	for _, t := range req.Topics {
		kept := CommitTopic{Name: t.Name, ID: t.ID}
		taken := CommitTopicResult{Name: t.Name, ID: t.ID}
		for _, p := range t.Partitions {
			if large(p.Metadata) {
				taken.Partitions = append(taken.Partitions, PartitionResult{Partition: p.Partition, Code: coordinator.OffsetMetadataTooLarge})
			} else {
				kept.Partitions = append(kept.Partitions, p)
			}
		}
		if len(kept.Partitions) > 0 {
			rest.Topics = append(rest.Topics, kept)
		}
		if len(taken.Partitions) > 0 {
			refused = append(refused, taken)
		}
	}
	return &rest, refused
}

func anyLarge(req *CommitRequest, large func(*string) bool) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if large(req.Topics[i].Partitions[j].Metadata) {
				return true
			}
		}
	}
	return false
}

func tooLarge(metadata *string, limit int32) bool {
	if metadata == nil || len(*metadata) <= int(limit) {
		return false // never more code units than bytes
	}
	units := utf8.RuneCountInString(*metadata)
	for _, r := range *metadata {
		if r > 0xffff {
			units++
		}
	}
	return units > int(limit)
}

// NoOffset is the answer for a partition without a committed offset, or with a code that hides it.
func NoOffset(partition int32, code coordinator.Code) FetchedOffset {
	return FetchedOffset{Partition: partition, Offset: -1, LeaderEpoch: -1, Metadata: new(string), Code: code}
}

// NoOffsets answers a fetch of a group that does not exist: no offset for each partition asked for, nothing for "all".
func NoOffsets(req *FetchRequest) *FetchResponse {
	return &FetchResponse{Topics: emptyTopics(req.Topics, coordinator.None)}
}

// FetchFailed answers a fetch with an error of the group. Below v2 the response has no room for that, and each partition
// carries the code.
func FetchFailed(req *FetchRequest, err *coordinator.Error) *FetchResponse {
	resp := &FetchResponse{Err: err}
	if req.Version < 2 {
		resp.Topics = emptyTopics(req.Topics, err.Code)
	}
	return resp
}

func emptyTopics(topics []FetchTopic, code coordinator.Code) []FetchTopicResult {
	out := make([]FetchTopicResult, len(topics))
	for i, t := range topics {
		out[i] = FetchTopicResult{Name: t.Name, ID: t.ID, Partitions: make([]FetchedOffset, len(t.Partitions))}
		for j, p := range t.Partitions {
			out[i].Partitions[j] = NoOffset(p, code)
		}
	}
	return out
}

// DeleteFailed answers a whole OffsetDelete request with an error.
func DeleteFailed(err *coordinator.Error) *DeleteResponse { return &DeleteResponse{Err: err} }
