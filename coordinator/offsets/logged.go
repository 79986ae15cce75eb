package offsets

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// World is what decisions about offsets in the log see beside the group. Times are milliseconds since 1970.
type World struct {
	// Now is the leader's time.
	Now int64
	// Topics are the topics of the cluster behind; nil where nothing is known of any.
	Topics topology.Metadata
	// TopicsAsOf is a time at which the cluster was asked of whose answer, or a later one, Topics is.
	TopicsAsOf int64
	// TopicsCurrent says that Topics is no older than the leadership.
	TopicsCurrent bool

	// last is the topic that was looked for last: partitions of one follow each other.
	last struct {
		name   string
		topic  topology.Topic
		exists bool
	}
}

// replaced says that an offset is of a topic that was deleted: there is another one of that name now.
func (w *World) replaced(topic string, o *record.OffsetCommit) bool {
	known, exists := w.look(topic)
	return exists && differ(known.ID, o.TopicID) && w.youngerThan(o)
}

// missed says that the topic of an offset is not among those that coordd is shown. It may exist all the same.
func (w *World) missed(topic string, o *record.OffsetCommit) bool {
	_, exists := w.look(topic)
	return !exists && w.youngerThan(o)
}

// youngerThan says that the picture of the topics is younger than the offset's commit. A commit from the future is an earlier
// leader's, whose clock was ahead.
func (w *World) youngerThan(o *record.OffsetCommit) bool {
	return w.Topics != nil && w.TopicsCurrent && (o.CommitTimestampMs < w.TopicsAsOf || o.CommitTimestampMs > w.Now)
}

func (w *World) look(topic string) (topology.Topic, bool) {
	if w.Topics != nil && w.last.name != topic {
		w.last.name = topic
		w.last.topic, w.last.exists = w.Topics.Topic(topic)
	}
	return w.last.topic, w.last.exists
}

// differ says that two topic ids are known and not the same (OffsetMetadataManager.isMismatchedTopicId).
func differ(a, b [16]byte) bool { return a != b && a != [16]byte{} && b != [16]byte{} }

// maxMetadata is the longest metadata that a record holds, in bytes, as in Kafka.
const maxMetadata = 32767

// AdmitLogged is [Admit] for offsets in the log: nobody else judges what exists, so that partitions that do not are
// refused whatever else is right. What is left is refused as a whole where Kafka could not write it as one batch
// (INVALID_COMMIT_OFFSET_SIZE).
func AdmitLogged(g *fsm.Group, req *CommitRequest, topics topology.Metadata, metadataLimit int32) (kept *CommitRequest, refused []CommitTopicResult) {
	kept = req
	if anyAbsent(req, topics) {
		if kept, refused = splitAbsent(req, topics); len(kept.Topics) == 0 {
			return nil, refused
		}
	}
	if code := CheckCommit(g, kept); code != coordinator.None {
		return nil, Joined(refused, CommitFailed(kept, code).Topics)
	}
	kept, large := splitLarge(kept, func(metadata *string) bool {
		return metadata != nil && len(*metadata) > maxMetadata || tooLarge(metadata, metadataLimit)
	})
	refused = Joined(refused, large)
	switch {
	case len(kept.Topics) == 0:
		kept = nil
	case CommitBytes(kept) > MaxCommitBytes:
		return nil, Joined(refused, CommitFailed(kept, coordinator.InvalidCommitOffsetSize).Topics)
	}
	return kept, refused
}

func anyAbsent(req *CommitRequest, topics topology.Metadata) bool {
	if topics == nil {
		return false
	}
	for i := range req.Topics {
		known, ok := topics.Topic(req.Topics[i].Name)
		for j := range req.Topics[i].Partitions {
			if p := req.Topics[i].Partitions[j].Partition; !ok || p < 0 || p >= known.Partitions {
				return true
			}
		}
	}
	return false
}

// CommitRecords are the records of a commit that was admitted: one for each partition, the last one of those that the
// request names twice. A partition whose topic was named has the id that the topic has now. The records share no memory
// with the request.
func CommitRecords(req *CommitRequest, w *World) []record.Record {
	count := 0
	for i := range req.Topics {
		count += len(req.Topics[i].Partitions)
	}
	records := make([]record.Record, 0, count)
	values := make([]record.OffsetCommit, count)
	group := strings.Clone(req.GroupID)
	var at map[TopicPartition]int
	if count > 1 {
		at = make(map[TopicPartition]int, count)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		name, id := strings.Clone(t.Name), t.ID
		if id == ([16]byte{}) && w.Topics != nil {
			if known, ok := w.Topics.Topic(name); ok {
				id = known.ID
			}
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			n, again := at[TopicPartition{Topic: name, Partition: p.Partition}]
			if !again {
				n = len(records)
				records = append(records, record.Record{
					Key:   record.Key{Type: record.TypeOffsetCommit, Group: group, Topic: name, ID: p.Partition},
					Value: &values[n],
				})
				if at != nil {
					at[TopicPartition{Topic: name, Partition: p.Partition}] = n
				}
			}
			values[n] = record.OffsetCommit{
				Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, CommitTimestampMs: w.Now, ExpireTimestampMs: -1, TopicID: id,
			}
			if p.Metadata != nil {
				values[n].Metadata = strings.Clone(*p.Metadata)
			}
		}
	}
	return records
}

// Committed answers every partition of a request with success.
func Committed(req *CommitRequest) *CommitResponse { return CommitFailed(req, coordinator.None) }

// Fetch answers a fetch that [CheckFetch] allows by the offsets in the log. Offsets of another topic of the same name than the
// request asks for are not shown (OffsetMetadataManager.fetchOffsets): than that of the id, or where it has none the one that
// there is now. A topic that is missed hides nothing.
func Fetch(g *fsm.Group, req *FetchRequest, w *World) *FetchResponse {
	if req.Topics == nil {
		return fetchAll(g, w)
	}
	resp := &FetchResponse{Topics: make([]FetchTopicResult, len(req.Topics))}
	for i, t := range req.Topics {
		result := FetchTopicResult{Name: t.Name, ID: t.ID, Partitions: make([]FetchedOffset, len(t.Partitions))}
		for j, p := range t.Partitions {
			o, ok := g.Offset(t.Name, p)
			if !ok || differ(t.ID, o.TopicID) || t.ID == [16]byte{} && w.replaced(t.Name, &o) {
				result.Partitions[j] = NoOffset(p, coordinator.None)
				continue
			}
			result.Partitions[j] = fetched(p, &o)
		}
		resp.Topics[i] = result
	}
	return resp
}

func fetchAll(g *fsm.Group, w *World) *FetchResponse {
	resp := &FetchResponse{Topics: []FetchTopicResult{}}
	for tp, o := range g.Offsets() {
		if w.replaced(tp.Topic, &o) {
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Name != tp.Topic {
			resp.Topics = append(resp.Topics, FetchTopicResult{Name: tp.Topic})
		}
		last := &resp.Topics[len(resp.Topics)-1]
		last.Partitions = append(last.Partitions, fetched(tp.Partition, &o))
	}
	return resp
}

func fetched(partition int32, o *record.OffsetCommit) FetchedOffset {
	return FetchedOffset{Partition: partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: &o.Metadata}
}

// DeletionRecords are the tombstones of the partitions of an admitted request that have an offset; to delete others
// succeeds without one (OffsetMetadataManager.deleteOffsets).
func DeletionRecords(g *fsm.Group, req *DeleteRequest) []record.Record {
	var records []record.Record
	seen := map[TopicPartition]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			key := TopicPartition{Topic: t.Name, Partition: p}
			if _, ok := g.Offset(t.Name, p); ok && !seen[key] {
				seen[key] = true
				records = append(records, tombstone(g.ID, strings.Clone(t.Name), p))
			}
		}
	}
	return records
}

// Deleted answers every partition of a request with success.
func Deleted(req *DeleteRequest) *DeleteResponse {
	resp := &DeleteResponse{Topics: make([]CommitTopicResult, len(req.Topics))}
	for i, t := range req.Topics {
		result := CommitTopicResult{Name: t.Name, ID: t.ID, Partitions: make([]PartitionResult, len(t.Partitions))}
		for j, p := range t.Partitions {
			result.Partitions[j].Partition = p
		}
		resp.Topics[i] = result
	}
	return resp
}

func tombstone(group, topic string, partition int32) record.Record {
	return record.Record{Key: record.Key{Type: record.TypeOffsetCommit, Group: group, Topic: topic, ID: partition}}
}

// AsCommits are all offsets of the group that a fetch shows, as requests to commit them elsewhere without a member, each of
// at most limit partitions and about as many bytes ([CommitBytes]), but of one partition. Those of topics that are missed are among them: whether these exist is for the other side to say.
func AsCommits(g *fsm.Group, w *World, limit, bytes int) []*CommitRequest {
	var commits []*CommitRequest
	count, size := 0, 0
	for tp, o := range g.Offsets() {
		if w.replaced(tp.Topic, &o) {
			continue
		}
		more := partitionBytes(g.ID, tp.Topic, &o.Metadata)
		if len(commits) == 0 || count == limit || count > 0 && size+more > bytes {
			commits = append(commits, &CommitRequest{Version: memberEpochCommits, GroupID: g.ID, MemberEpoch: -1})
			count, size = 0, batchBytes
		}
		req := commits[len(commits)-1]
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Name != tp.Topic {
			req.Topics = append(req.Topics, CommitTopic{Name: tp.Topic})
		}
		last := &req.Topics[len(req.Topics)-1]
		metadata := o.Metadata
		last.Partitions = append(last.Partitions, CommitPartition{
			Partition: tp.Partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: &metadata,
		})
		count++
		size += more
	}
	return commits
}
