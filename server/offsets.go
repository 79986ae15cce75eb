package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// tryAgain says what to do when a shard did not answer a request that changes nothing.
const tryAgain = "try again"

// Offsets implements web.Offsets.
func (n *Node) Offsets(ctx context.Context, r web.OffsetsRequest) (web.GroupOffsets, error) {
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.GroupOffsets, error) { return n.LocalOffsets(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.GroupOffsets, error) { return leader.Offsets(ctx, r) })
}

// LocalOffsets implements web.Offsets. What is committed is read first: logs only grow, so that no lag is negative but where records
// were lost.
func (n *Node) LocalOffsets(ctx context.Context, r web.OffsetsRequest) (web.GroupOffsets, error) {
	committed, err := n.committedOffsets(ctx, &offsets.FetchRequest{GroupID: r.Group, MemberEpoch: -1})
	if err != nil {
		return web.GroupOffsets{}, err
	}
	number := shardOf(r.Group, len(n.shards))
	g := n.shards[number].replica.State().Group(r.Group)
	if g == nil {
		return web.GroupOffsets{}, noGroup(r.Group)
	}
	view := web.GroupOffsets{GroupSummary: n.summary(int(number), g), Store: g.Store().String(), Notes: []string{}}
	var topics topology.Metadata
	if image := n.watcher.Image(); image.Version != 0 {
		topics = image
	}
	rows := groupPartitions(g, topics, committed)
	n.addLogOffsets(ctx, rows, r.TimeMs)
	view.Partitions = rows.list
	view.Lag, view.LagUnknown = totalLag(rows.list, g.Topology != nil)
	view.Stateful = g.Topology != nil && slices.ContainsFunc(g.Topology.Subtopologies, func(s topology.Subtopology) bool { return s.Stateful() })
	view.Notes = append(view.Notes, rows.notes...)
	return view, nil
}

func noGroup(id string) error {
	return web.Refuse(web.NotFound, "group %q is %v; 'coordd groups list' shows the groups", id, web.ErrNoGroup)
}

// committedOffsets reads committed offsets as they are for everybody who asks.
func (n *Node) committedOffsets(ctx context.Context, r *offsets.FetchRequest) (map[offsets.TopicPartition]offsets.FetchedOffset, error) {
	answer, err := n.askShard(ctx, r.GroupID, r, tryAgain)
	if err != nil {
		return nil, err
	}
	response := answer.(*offsets.FetchResponse)
	if response.Err != nil {
		return nil, web.Refuse(web.Conflict, "the offsets of group %q cannot be read: %s; try again", r.GroupID, codeText(response.Err.Code))
	}
	committed := map[offsets.TopicPartition]offsets.FetchedOffset{}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			committed[offsets.TopicPartition{Topic: t.Name, Partition: p.Partition}] = p
		}
	}
	return committed, nil
}

// codeText says for people what a code of Kafka's means here.
func codeText(code coordinator.Code) string {
	switch code {
	case coordinator.UnknownTopicOrPartition, coordinator.UnknownTopicID:
		return "the partition does not exist"
	case coordinator.CoordinatorNotAvailable:
		return "the Kafka cluster behind does not answer"
	case coordinator.CoordinatorLoadInProgress:
		return "the coordinator is still loading the group"
	case coordinator.NotCoordinator:
		return "the leadership of the group's shard has just moved"
	case coordinator.UnstableOffsetCommit:
		return "a transaction of the app is open on it; it ends by itself within the app's transaction.timeout.ms"
	case coordinator.UnknownMemberID:
		return "the group has members, in coordd or in the Kafka behind"
	case coordinator.TopicAuthorizationFailed:
		return "coordd lacks the right DESCRIBE on the topic"
	}
	return fmt.Sprintf("error %d", code)
}

// partitionRows are the partitions of a group that are shown.
type partitionRows struct {
	list  []web.PartitionOffsets
	notes []string
}

// groupPartitions lists what the tasks of a group read, and what else has a committed offset. topics is nil while none are known.
func groupPartitions(g *fsm.Group, topics topology.Metadata, committed map[offsets.TopicPartition]offsets.FetchedOffset) *partitionRows {
	rows := &partitionRows{list: []web.PartitionOffsets{}}
	read := map[offsets.TopicPartition]bool{}
	if g.Topology != nil {
		rows.addTasks(g, topics, committed, read)
	}
	for key := range committed {
		if !read[key] && committed[key].Offset >= 0 {
			rows.add(committed, web.PartitionOffsets{Topic: key.Topic, Partition: key.Partition, Kind: "other"})
		}
	}
	slices.SortFunc(rows.list, func(a, b web.PartitionOffsets) int {
		switch {
		case a.Subtopology != b.Subtopology && (a.Subtopology == "" || b.Subtopology == ""):
			return -cmp.Compare(a.Subtopology, b.Subtopology)
		case a.Subtopology != b.Subtopology:
			return topology.CompareIDs(a.Subtopology, b.Subtopology)
		}
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return rows
}

func (rows *partitionRows) add(committed map[offsets.TopicPartition]offsets.FetchedOffset, p web.PartitionOffsets) {
	p.Committed, p.Start, p.End, p.Lag = web.NoOffset, web.NoOffset, web.NoOffset, web.NoOffset
	if o, ok := committed[offsets.TopicPartition{Topic: p.Topic, Partition: p.Partition}]; ok {
		p.Committed = max(web.NoOffset, o.Offset)
		if o.Code != coordinator.None {
			p.Problem = codeText(o.Code)
		}
	}
	rows.list = append(rows.list, p)
}

// addTasks lists what each task reads. The number of partitions is that of the topics as they are.
func (rows *partitionRows) addTasks(g *fsm.Group, topics topology.Metadata, committed map[offsets.TopicPartition]offsets.FetchedOffset, read map[offsets.TopicPartition]bool) {
	if topics == nil {
		rows.notes = append(rows.notes, "the topics of the Kafka cluster behind are not known yet")
		return
	}
	resolved := topology.Resolve(g.Topology, topics).Resolved
	owners := taskOwners(g)
	for i := range resolved.Subtopologies {
		s := &resolved.Subtopologies[i]
		kinds := map[string]string{}
		for _, name := range s.SourceTopics {
			kinds[name] = "source"
		}
		for _, t := range s.RepartitionSourceTopics {
			kinds[t.Name] = "repartition"
		}
		for name, kind := range kinds {
			topic, ok := topics.Topic(name)
			if !ok {
				rows.notes = append(rows.notes, fmt.Sprintf("topic %s does not exist", name))
			}
			for p := range topic.Partitions {
				read[offsets.TopicPartition{Topic: name, Partition: p}] = true
				row := web.PartitionOffsets{Subtopology: s.ID, Topic: name, Partition: p, Kind: kind}
				setOwner(&row, owners[topology.Task{Subtopology: s.ID, Partition: p}])
				rows.add(committed, row)
			}
		}
	}
	slices.Sort(rows.notes)
	rows.notes = slices.Compact(rows.notes)
}

func setOwner(row *web.PartitionOffsets, m *fsm.Member) {
	if m == nil {
		return
	}
	row.Member = m.ID
	if m.Meta == nil {
		return
	}
	row.ClientID, row.Host = m.Meta.ClientID, m.Meta.ClientHost
	if m.Meta.InstanceID != nil {
		row.InstanceID = *m.Meta.InstanceID
	}
}

// taskOwners are the members that have a task as active, those that are giving it up among them.
func taskOwners(g *fsm.Group) map[topology.Task]*fsm.Member {
	owners := map[topology.Task]*fsm.Member{}
	for m := range g.Members() {
		if m.Current == nil {
			continue
		}
		for _, tasks := range []topology.Tasks{m.Current.Revoking.Active, m.Current.Assigned.Active} {
			for i := range tasks {
				for _, p := range tasks[i].Partitions {
					owners[topology.Task{Subtopology: tasks[i].Subtopology, Partition: p}] = m
				}
			}
		}
	}
	return owners
}

// totalLag sums the lags that are known, -1 for none, and counts the partitions of which it is not. A log without records leaves
// nothing to read, wherever the app begins; with a topology, what no task reads does not count as unknown.
func totalLag(list []web.PartitionOffsets, topology bool) (lag int64, unknown int) {
	var sum lagSum
	for i := range list {
		p := &list[i]
		switch {
		case p.Lag >= 0:
			sum.add(p.Lag)
		case p.Start >= 0 && p.Start == p.End:
			sum.add(0)
		case p.Subtopology != "" || !topology:
			sum.unknown++
		}
	}
	return sum.total()
}

// addLogOffsets asks the upstream for what the logs say, of each partition once.
func (n *Node) addLogOffsets(ctx context.Context, rows *partitionRows, timeMs int64) {
	if n.parts.Logs == nil || len(rows.list) == 0 {
		return
	}
	partitions, asked := map[string][]int32{}, map[offsets.TopicPartition]bool{}
	for i := range rows.list {
		p := &rows.list[i]
		if key := (offsets.TopicPartition{Topic: p.Topic, Partition: p.Partition}); !asked[key] {
			asked[key] = true
			partitions[p.Topic] = append(partitions[p.Topic], p.Partition)
		}
	}
	ats := []int64{offsets.LogEnd, offsets.LogStart}
	if timeMs != web.NoOffset {
		ats = append(ats, timeMs)
	}
	found := n.logOffsets(ctx, partitions, ats...)
	for i := range rows.list {
		p := &rows.list[i]
		key := offsets.TopicPartition{Topic: p.Topic, Partition: p.Partition}
		for k := range found {
			if code := found[k][key].Code; code != coordinator.None && p.Problem == "" {
				p.Problem = codeText(code)
			}
		}
		p.End, p.Start = found[0][key].Offset, found[1][key].Offset
		if len(found) > 2 {
			at := found[2][key].Offset
			p.AtTime = &at
		}
		p.Lag = lagOf(p.Committed, p.End)
	}
}
