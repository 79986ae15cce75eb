package offsets

// MaxCommitBytes is how large a commit may be as records: Kafka writes one as one batch, of at most max.message.bytes of
// __consumer_offsets.
const MaxCommitBytes = 1_048_588

// Bytes that Kafka writes for a commit beside names and metadata: of the batch, and of each partition at most.
const (
	batchBytes  = 61
	offsetBytes = 72
)

// CommitBytes is about how many bytes Kafka writes for a commit.
func CommitBytes(req *CommitRequest) int {
	size := batchBytes
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			size += partitionBytes(req.GroupID, t.Name, t.Partitions[j].Metadata)
		}
	}
	return size
}

func partitionBytes(group, topic string, metadata *string) int {
	size := offsetBytes + len(group) + len(topic)
	if metadata != nil {
		size += len(*metadata)
	}
	return size
}

// Halves are two commits with what is in one of several partitions; ok is false for one that has no more than one.
func Halves(req *CommitRequest) (halves [2]*CommitRequest, ok bool) {
	count := 0
	for i := range req.Topics {
		count += len(req.Topics[i].Partitions)
	}
	if count < 2 {
		return halves, false
	}
	first, second := *req, *req
	first.Topics, second.Topics = nil, nil
	for left, i := count/2, 0; i < len(req.Topics); i++ {
		t := req.Topics[i]
		n := min(left, len(t.Partitions))
		left -= n
		if n > 0 {
			first.Topics = append(first.Topics, CommitTopic{Name: t.Name, ID: t.ID, Partitions: t.Partitions[:n:n]})
		}
		if n < len(t.Partitions) {
			second.Topics = append(second.Topics, CommitTopic{Name: t.Name, ID: t.ID, Partitions: t.Partitions[n:]})
		}
	}
	return [2]*CommitRequest{&first, &second}, true
}
