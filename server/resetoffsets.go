package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/web"
)

// maxResetChunk bounds the partitions that are committed by one request.
const maxResetChunk = 1000

// ResetOffsets implements web.Offsets.
func (n *Node) ResetOffsets(ctx context.Context, r web.ResetRequest) (web.ResetDone, error) {
	if err := checkReset(&r); err != nil {
		return web.ResetDone{}, err
	}
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.ResetDone, error) { return n.LocalResetOffsets(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.ResetDone, error) {
			return leader.ResetOffsets(ctx, r)
		})
}

// checkReset refuses a request that says nothing clear.
func checkReset(r *web.ResetRequest) error {
	if r.Group == "" {
		return web.Refuse(web.NotAllowed, "the group id is empty; 'coordd groups list' shows the groups")
	}
	seen := map[offsets.TopicPartition]bool{}
	for _, o := range r.Offsets {
		key := offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}
		switch {
		case o.Topic == "" || o.Partition < 0:
			return web.Refuse(web.NotAllowed, "partition %d of topic %q is not allowed (allowed: a topic, and 0 or more)", o.Partition, o.Topic)
		case o.Before < web.NoOffset || o.Offset < web.NoOffset:
			return web.Refuse(web.NotAllowed, "%s: offsets %d and %d are not allowed (allowed: 0 or more, -1 for none)", partitionText(key), o.Before, o.Offset)
		case seen[key]:
			return web.Refuse(web.NotAllowed, "%s stands twice", partitionText(key))
		}
		seen[key] = true
	}
	return nil
}

func partitionText(p offsets.TopicPartition) string {
	return fmt.Sprintf("partition %d of topic %s", p.Partition, p.Topic)
}

// LocalResetOffsets implements web.Offsets. Where its outcome is not known, as the leadership was lost on the way, the request is made
// again at the next leader: what has its new offset already is left alone.
func (n *Node) LocalResetOffsets(ctx context.Context, r web.ResetRequest) (web.ResetDone, error) {
	if err := checkReset(&r); err != nil {
		return web.ResetDone{}, err
	}
	due, err := n.dueOffsets(ctx, &r)
	if err != nil {
		return web.ResetDone{}, err
	}
	var set, drop []web.NewOffset
	for _, o := range due {
		if o.Offset >= 0 {
			set = append(set, o)
		} else {
			drop = append(drop, o)
		}
	}
	done := web.ResetDone{Group: r.Group, Changed: len(r.Offsets) - len(due)}
	for chunk := range slices.Chunk(set, maxResetChunk) {
		if err := n.commitOffsets(ctx, r.Group, chunk); err != nil {
			return done, partlyReset(err, done.Changed, len(r.Offsets))
		}
		done.Changed += len(chunk)
	}
	for chunk := range slices.Chunk(drop, maxResetChunk) {
		if err := n.deleteOffsets(ctx, r.Group, chunk); err != nil {
			return done, partlyReset(err, done.Changed, len(r.Offsets))
		}
		done.Changed += len(chunk)
	}
	n.log.Info("offsets reset on an operator's request", "group", cut(r.Group), "partitions", done.Changed)
	return done, nil
}

// dueOffsets are those that do not have their new value yet. It refuses what changed since it was looked at.
func (n *Node) dueOffsets(ctx context.Context, r *web.ResetRequest) ([]web.NewOffset, error) {
	fetch := &offsets.FetchRequest{GroupID: r.Group, MemberEpoch: -1, RequireStable: true, Topics: topicsOf(r.Offsets)}
	committed, err := n.committedOffsets(ctx, fetch)
	if err != nil {
		return nil, err
	}
	g := n.runnerOf(r.Group).replica.State().Group(r.Group)
	switch {
	case g == nil:
		return nil, noGroup(r.Group)
	case g.NumMembers() > 0:
		return nil, hasMembers(r.Group, g.NumMembers())
	}
	var due []web.NewOffset
	for _, o := range r.Offsets {
		key := offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}
		now := committed[key]
		switch {
		case now.Code != coordinator.None:
			return nil, web.Refuse(web.Conflict, "%s: %s", partitionText(key), codeText(now.Code))
		case now.Offset == o.Offset:
		case now.Offset != o.Before:
			return nil, web.Refuse(web.Conflict, "%s: the committed offset is %d by now, not %d; nothing was changed, try again", partitionText(key), now.Offset, o.Before)
		default:
			due = append(due, o)
		}
	}
	return due, nil
}

func hasMembers(group string, members int) error {
	count := "1 member"
	if members != 1 {
		count = fmt.Sprintf("%d members", members)
	}
	return web.Refuse(web.Conflict, "group %q has %s: stop the app, and wait until 'coordd groups describe' shows none (those that did not leave go when "+
		"their session times out)", group, count)
}

func topicsOf(list []web.NewOffset) []offsets.FetchTopic {
	topics, at := []offsets.FetchTopic{}, map[string]int{}
	for _, o := range list {
		i, ok := at[o.Topic]
		if !ok {
			i = len(topics)
			at[o.Topic] = i
			topics = append(topics, offsets.FetchTopic{Name: o.Topic})
		}
		topics[i].Partitions = append(topics[i].Partitions, o.Partition)
	}
	return topics
}

// commitOffsets commits as Kafka's tools do: without a member, which the shard refuses while the group has some.
func (n *Node) commitOffsets(ctx context.Context, group string, list []web.NewOffset) error {
	none, offset := "", map[offsets.TopicPartition]int64{}
	for _, o := range list {
		offset[offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
	}
	request := &offsets.CommitRequest{Version: 9, GroupID: group, MemberEpoch: -1}
	for _, t := range topicsOf(list) {
		topic := offsets.CommitTopic{Name: t.Name}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, offsets.CommitPartition{
				Partition: p, Offset: offset[offsets.TopicPartition{Topic: t.Name, Partition: p}], LeaderEpoch: -1, Metadata: &none,
			})
		}
		request.Topics = append(request.Topics, topic)
	}
	answer, err := n.askShard(ctx, group, request, "look at 'coordd groups offsets' before you try again")
	if err != nil {
		return err
	}
	return refusedPartition(answer.(*offsets.CommitResponse).Topics)
}

func (n *Node) deleteOffsets(ctx context.Context, group string, list []web.NewOffset) error {
	answer, err := n.askShard(ctx, group, &offsets.DeleteRequest{GroupID: group, Topics: topicsOf(list)}, "look at 'coordd groups offsets' before you try again")
	if err != nil {
		return err
	}
	response := answer.(*offsets.DeleteResponse)
	if response.Err != nil {
		return web.Refuse(web.Conflict, "the offsets of group %q are not deleted: %s", group, strings.TrimSuffix(response.Err.Message, "."))
	}
	return refusedPartition(response.Topics)
}

// refusedPartition is why the first partition of an answer that was refused was.
func refusedPartition(topics []offsets.CommitTopicResult) error {
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Code != coordinator.None {
				return web.Refuse(web.Conflict, "%s: %s", partitionText(offsets.TopicPartition{Topic: t.Name, Partition: p.Partition}), codeText(p.Code))
			}
		}
	}
	return nil
}

// partlyReset says how far a change came that failed on the way.
func partlyReset(err error, changed, of int) error {
	var refused *web.Refusal
	if errors.As(err, &refused) && refused.Kind != web.Elsewhere {
		return web.Refuse(refused.Kind, "%s; %d of %d partitions have their new offset", refused.Text, changed, of)
	}
	return err
}
