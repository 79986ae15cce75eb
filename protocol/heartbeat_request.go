package protocol

import (
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// DecodeHeartbeat reads the body of a StreamsGroupHeartbeatRequest (StreamsGroupHeartbeatRequest.json v0–1) into req,
// every field of which it sets. Strings alias the body, so req is valid as long as the body. The slices of task lists
// and task offsets and the room of InstanceID that req already has are used again: nobody may have kept them. A steady
// heartbeat allocates nothing.
//
// Task lists come out in normal form, repeated subtopologies merged, repeated partitions and empty subtopologies
// dropped; DuplicateTasks then names the first list in which something was repeated.
func DecodeHeartbeat(version int16, body []byte, req *streams.HeartbeatRequest) error {
	if version < 0 || version > 1 {
		return ErrMalformed
	}
	r := reader{src: body}
	req.Version = version
	req.DuplicateTasks = ""
	req.GroupID = r.compactString()
	req.MemberID = r.compactString()
	req.MemberEpoch = r.int32()
	req.EndpointEpoch = r.int32()
	req.InstanceID = readNullable(&r, req.InstanceID)
	req.RackID = readNullable(&r, nil)
	req.RebalanceTimeoutMs = r.int32()
	req.Topology = readTopology(&r)
	req.Active = readTasks(&r, req.Active, "ActiveTasks", &req.DuplicateTasks)
	req.Standby = readTasks(&r, req.Standby, "StandbyTasks", &req.DuplicateTasks)
	req.Warmup = readTasks(&r, req.Warmup, "WarmupTasks", &req.DuplicateTasks)
	req.ProcessID = readNullable(&r, nil)
	req.UserEndpoint = nil
	if present := r.int8(); present != -1 && !r.bad {
		req.UserEndpoint = &record.Endpoint{Host: r.compactString(), Port: uint16(r.int16())}
		r.tags()
	}
	req.ClientTags = readClientTags(&r)
	req.TaskOffsets = readTaskOffsets(&r, req.TaskOffsets)
	req.TaskEndOffsets = readTaskOffsets(&r, req.TaskEndOffsets)
	req.ShutdownApplication = r.bool()
	r.tags()
	return r.err()
}

// readNullable reads a nullable string into room, or into room of its own where room is nil.
func readNullable(r *reader, room *string) *string {
	s, ok := r.compactNullable()
	if !ok {
		return nil
	}
	if room == nil {
		room = new(string)
	}
	*room = s
	return room
}

// firstCap limits what is allocated on the word of a length alone; longer slices grow as elements really come.
const firstCap = 512

func readTasks(r *reader, old topology.Tasks, name string, duplicate *string) topology.Tasks {
	n := r.compactLen(3)
	if n < 0 || r.bad {
		return nil
	}
	tasks := old[:0]
	if tasks == nil {
		tasks = make(topology.Tasks, 0, min(n, firstCap))
	}
	sorted := true
	for range n {
		id := r.compactString()
		var room []int32
		if len(tasks) < cap(tasks) {
			room = tasks[:len(tasks)+1][len(tasks)].Partitions
		}
		partitions, unique := readPartitions(r, room)
		r.tags()
		if r.bad {
			return nil
		}
		if !unique && *duplicate == "" {
			*duplicate = name
		}
		if len(tasks) > 0 && tasks[len(tasks)-1].Subtopology >= id {
			sorted = false
		}
		tasks = append(tasks, topology.SubtopologyTasks{Subtopology: id, Partitions: partitions})
	}
	if !sorted {
		tasks = mergeTasks(tasks, name, duplicate)
	}
	return slices.DeleteFunc(tasks, func(t topology.SubtopologyTasks) bool { return len(t.Partitions) == 0 })
}

// readPartitions reads partition numbers ascending and without repetition; unique is false when there was one.
func readPartitions(r *reader, room []int32) (partitions []int32, unique bool) {
	n := r.compactLen(4)
	if n <= 0 || r.bad {
		return room[:0], true
	}
	partitions = slices.Grow(room[:0], n) // four bytes each were seen to be there
	sorted := true
	for i := range n {
		partitions = append(partitions, r.int32())
		sorted = sorted && (i == 0 || partitions[i-1] < partitions[i])
	}
	if sorted {
		return partitions, true
	}
	slices.Sort(partitions)
	partitions = slices.Compact(partitions)
	return partitions, len(partitions) == n
}

// mergeTasks sorts tasks by subtopology and unites the entries of the same one.
func mergeTasks(tasks topology.Tasks, name string, duplicate *string) topology.Tasks {
	slices.SortStableFunc(tasks, func(a, b topology.SubtopologyTasks) int {
		return strings.Compare(a.Subtopology, b.Subtopology)
	})
	out := tasks[:0]
	for from := 0; from < len(tasks); {
		end := from + 1
		for end < len(tasks) && tasks[end].Subtopology == tasks[from].Subtopology {
			end++
		}
		t := tasks[from]
		if end > from+1 {
			if *duplicate == "" {
				*duplicate = name
			}
			t.Partitions = unite(tasks[from:end])
		}
		out = append(out, t)
		from = end
	}
	clear(tasks[len(out):]) // what the dropped entries held was moved
	return out
}

// unite returns the partitions of all entries, ascending and without repetition. The slice is of its own: the room of a
// dropped entry must not be shared with a live one.
func unite(tasks topology.Tasks) []int32 {
	n := 0
	for i := range tasks {
		n += len(tasks[i].Partitions)
	}
	all := make([]int32, 0, n)
	for i := range tasks {
		all = append(all, tasks[i].Partitions...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func readClientTags(r *reader) []record.KeyValue {
	n := r.compactLen(3)
	if n < 0 || r.bad {
		return nil
	}
	tags := make([]record.KeyValue, 0, min(n, firstCap))
	for range n {
		tags = append(tags, record.KeyValue{Key: r.compactString(), Value: r.compactString()})
		r.tags()
		if r.bad {
			return nil
		}
	}
	return tags
}

func readTaskOffsets(r *reader, old []streams.TaskOffset) []streams.TaskOffset {
	n := r.compactLen(14)
	if n < 0 || r.bad {
		return nil
	}
	offsets := old[:0]
	if offsets == nil {
		offsets = make([]streams.TaskOffset, 0, min(n, firstCap))
	}
	for range n {
		var o streams.TaskOffset
		o.Subtopology = r.compactString()
		o.Partition = r.int32()
		o.Offset = r.int64()
		r.tags()
		if r.bad {
			return nil
		}
		offsets = append(offsets, o)
	}
	return offsets
}

func readTopology(r *reader) *topology.Topology {
	if present := r.int8(); present == -1 || r.bad {
		return nil
	}
	rest := *r // readArray lets its reader escape: only joins shall pay for that
	t := &topology.Topology{Epoch: rest.int32()}
	t.Subtopologies = readArray(&rest, 8, readSubtopology)
	rest.tags()
	*r = rest
	return t
}

func readSubtopology(r *reader) topology.Subtopology {
	s := topology.Subtopology{
		ID:                      r.compactString(),
		SourceTopics:            readArray(r, 1, (*reader).compactString),
		SourceTopicRegex:        readArray(r, 1, (*reader).compactString),
		StateChangelogTopics:    readArray(r, 9, readInternalTopic),
		RepartitionSinkTopics:   readArray(r, 1, (*reader).compactString),
		RepartitionSourceTopics: readArray(r, 9, readInternalTopic),
		CopartitionGroups:       readArray(r, 4, readCopartitionGroup),
	}
	r.tags()
	return s
}

func readInternalTopic(r *reader) topology.InternalTopic {
	t := topology.InternalTopic{
		Name:              r.compactString(),
		Partitions:        r.int32(),
		ReplicationFactor: r.int16(),
		Configs:           readArray(r, 3, readConfig),
	}
	r.tags()
	return t
}

func readConfig(r *reader) topology.Config {
	c := topology.Config{Key: r.compactString(), Value: r.compactString()}
	r.tags()
	return c
}

func readCopartitionGroup(r *reader) topology.CopartitionGroup {
	g := topology.CopartitionGroup{
		SourceTopics:            readArray(r, 2, (*reader).int16),
		SourceTopicRegex:        readArray(r, 2, (*reader).int16),
		RepartitionSourceTopics: readArray(r, 2, (*reader).int16),
	}
	r.tags()
	return g
}

// readArray reads an array whose elements take at least size bytes each; null counts as empty, and both give nil.
func readArray[T any](r *reader, size int, read func(*reader) T) []T {
	n := r.compactLen(size)
	if n <= 0 || r.bad {
		return nil
	}
	out := make([]T, 0, min(n, firstCap))
	for range n {
		v := read(r)
		if r.bad {
			return nil
		}
		out = append(out, v)
	}
	return out
}
