package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// Origins is what the Kafka behind has of groups that coordd takes over.
type Origins interface {
	// Origin tells what is there under a group id.
	Origin(ctx context.Context, group string) (*coordinator.Origin, error)
}

// Origin implements web.Imports.
func (n *Node) Origin(ctx context.Context, group string) (web.GroupOrigin, error) {
	return atLeader(ctx, n, group, func(ctx context.Context) (web.GroupOrigin, error) { return n.LocalOrigin(ctx, group) },
		func(ctx context.Context, leader web.Client) (web.GroupOrigin, error) {
			return leader.Origin(ctx, group)
		})
}

// LocalOrigin implements web.Imports.
func (n *Node) LocalOrigin(ctx context.Context, group string) (web.GroupOrigin, error) {
	in, err := n.originOf(ctx, group)
	if err != nil {
		return web.GroupOrigin{}, err
	}
	return originView(in), nil
}

// originInput is what is known of a group that may be taken over, or given back.
type originInput struct {
	group string
	// held says that coordd has the group, heldState and heldStore how; heldOffsets counts those that coordd keeps itself.
	held                 bool
	heldMembers          int
	heldState, heldStore string
	heldOffsets          int
	origin               *coordinator.Origin
	committed            []offsets.FetchTopicResult
	start, end           map[offsets.TopicPartition]offsets.LogOffset
	topics               topology.Metadata // nil where they are not known
	// own are the settings that coordd has for the group, refused why it does not take some of the upstream's.
	own     config.GroupConfig
	refused map[string]string
	// invalid says why coordd cannot have the topology; nil where it can.
	invalid error
}

// originOf asks the shard, which proves that it is led here, and then the Kafka behind.
func (n *Node) originOf(ctx context.Context, group string) (*originInput, error) {
	in := &originInput{group: group, own: n.groupConfigs.stored(group)}
	if n.parts.Origins == nil || n.parts.Logs == nil {
		return nil, web.Refuse(web.Conflict, "this node has no Kafka behind")
	}
	answer, err := n.askShard(ctx, group, &shard.HoldsRequest{GroupID: group}, "try again")
	if err != nil {
		return nil, err
	}
	if in.held = answer.(*shard.HoldsResponse).Held; in.held {
		if g := n.runnerOf(group).replica.State().Group(group); g != nil {
			in.heldMembers, in.heldState, in.heldOffsets = g.NumMembers(), string(streams.StateOf(g)), g.NumOffsets()
			in.heldStore = g.Store().String()
			if g.Store() == record.StoreRaft {
				in.committed = offsetsInLog(g)
			}
		}
	}
	if in.origin, err = n.parts.Origins.Origin(ctx, group); err != nil {
		return nil, web.Refuse(web.Conflict, "it is not known what the Kafka behind has of group %s: %v; try again", group, err)
	}
	if in.origin.Topology != nil {
		in.invalid = streams.CheckTopology(in.origin.Topology)
	}
	in.refused = n.refusedSettings(in)
	fresh, cancel := context.WithTimeout(ctx, topicsPatience)
	n.watcher.Renew(fresh) // a topic of the app may have been created a moment ago
	cancel()
	if image := n.watcher.Image(); image.Version != 0 {
		in.topics = image
	}
	return in, n.originOffsets(ctx, in)
}

// offsetsInLog are the offsets that coordd keeps itself.
func offsetsInLog(g *fsm.Group) (topics []offsets.FetchTopicResult) {
	for at, v := range g.Offsets() {
		if len(topics) == 0 || topics[len(topics)-1].Name != at.Topic {
			topics = append(topics, offsets.FetchTopicResult{Name: at.Topic})
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, offsets.FetchedOffset{Partition: at.Partition, Offset: v.Offset})
	}
	return topics
}

// originOffsets fetches what is committed where it counts, and where the logs of those partitions start and end.
func (n *Node) originOffsets(ctx context.Context, in *originInput) error {
	if in.heldStore != record.StoreRaft.String() {
		if err := n.fetchUpstream(ctx, in); err != nil {
			return err
		}
	}
	slices.SortFunc(in.committed, func(a, b offsets.FetchTopicResult) int { return strings.Compare(a.Name, b.Name) })
	partitions := map[string][]int32{}
	for i := range in.committed {
		t := &in.committed[i]
		slices.SortFunc(t.Partitions, func(a, b offsets.FetchedOffset) int { return int(a.Partition) - int(b.Partition) })
		for _, p := range t.Partitions {
			partitions[t.Name] = append(partitions[t.Name], p.Partition)
		}
	}
	if len(partitions) == 0 {
		return nil
	}
	found := n.logOffsets(ctx, partitions, offsets.LogEnd, offsets.LogStart)
	in.end, in.start = found[0], found[1]
	return nil
}

// fetchUpstream fetches what is committed in the Kafka behind.
func (n *Node) fetchUpstream(ctx context.Context, in *originInput) error {
	if in.origin.Type == "" {
		return nil
	}
	fetched := make(chan *offsets.FetchResponse, 1)
	n.store.Fetch(&offsets.FetchRequest{GroupID: in.group, MemberEpoch: -1, RequireStable: true}, func(r *offsets.FetchResponse) { fetched <- r })
	var response *offsets.FetchResponse
	select {
	case response = <-fetched:
	case <-ctx.Done():
	}
	if response == nil || response.Err != nil {
		return web.Refuse(web.Conflict, "the Kafka behind does not tell the offsets of group %s; try again", in.group)
	}
	in.committed = response.Topics
	return nil
}

// refusedSettings says which of the group's settings coordd does not take over, and why.
func (n *Node) refusedSettings(in *originInput) map[string]string {
	refused := map[string]string{}
	for name, value := range in.origin.Settings {
		change := config.GroupAlteration{Group: in.group, Changes: []config.GroupChange{{Name: name, Value: &value}}}
		if own, ok := in.own[name]; ok && own != value {
			refused[name] = "coordd has " + own + " for this group, which stays"
		} else if _, err := n.config.Streams.Alter(nil, &change); err != nil {
			refused[name] = err.Message
		}
	}
	return refused
}

// Import implements web.Imports.
func (n *Node) Import(ctx context.Context, r web.ImportRequest) (web.Imported, error) {
	if r.Group == "" {
		return web.Imported{}, web.Refuse(web.NotAllowed, "the group id is empty")
	}
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.Imported, error) { return n.LocalImport(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.Imported, error) { return leader.Import(ctx, r) })
}

// LocalImport implements web.Imports. The settings come first, so that the group never acts by others; each step can be repeated.
func (n *Node) LocalImport(ctx context.Context, r web.ImportRequest) (web.Imported, error) {
	in, err := n.originOf(ctx, r.Group)
	if err != nil {
		return web.Imported{}, err
	}
	view := originView(in)
	if view.NoImport != "" {
		kind := web.Conflict
		if in.origin.Type == "" && !in.held {
			kind = web.NotFound
		}
		return web.Imported{}, web.Refuse(kind, "%s", view.NoImport)
	}
	if view.MayBeHeld && !r.FromCoordd {
		return web.Imported{}, web.Refuse(web.Conflict, "%s", mayBeHeld(r.Group))
	}
	done := web.Imported{Group: r.Group, TopologyEpoch: -1, Settings: []web.OriginSetting{}}
	for _, s := range view.Settings {
		if s.Problem == "" {
			done.Settings = append(done.Settings, s)
		}
	}
	if err := n.setOwn(ctx, web.OwnSettings{Group: r.Group, Settings: done.Settings}); err != nil {
		return web.Imported{}, err
	}
	adopt := &shard.AdoptRequest{GroupID: r.Group, Epoch: in.origin.Epoch}
	if in.invalid == nil {
		adopt.Topology = in.origin.Topology
	}
	answer, err := n.askShard(ctx, r.Group, adopt, "look at 'coordd groups list' before you try again")
	if err != nil {
		return web.Imported{}, err
	}
	if err := answer.(*shard.AdoptResponse).Err; err != nil {
		return web.Imported{}, web.Refuse(web.Conflict, "%s", err.Message)
	}
	done.Epoch = max(in.origin.Epoch, 1)
	if adopt.Topology != nil {
		done.TopologyEpoch = adopt.Topology.Epoch
	}
	done.Offsets = numCommitted(view.Offsets)
	n.log.Info("group taken over from the Kafka behind on an operator's request", "group", cut(r.Group), "type", in.origin.Type, "epoch", done.Epoch,
		"offsets", done.Offsets)
	return done, nil
}

// mayBeHeld says what to do about a group that another coordd cluster may have.
func mayBeHeld(group string) string {
	return fmt.Sprintf("a coordd cluster had group %s last, and may have it still: if it is not this one, give the group back there first "+
		"('coordd export --to-upstream %s'); when no cluster has it any more, add --from-coordd", group, group)
}

func numCommitted(list []web.OriginOffset) (count int) {
	for i := range list {
		if list[i].Committed >= 0 {
			count++
		}
	}
	return count
}

// setOwn has the leader of the system shard store settings of a group.
func (n *Node) setOwn(ctx context.Context, r web.OwnSettings) error {
	if len(r.Settings) == 0 {
		return nil
	}
	for {
		leader, err := n.awaitLeader(ctx, -1)
		if err != nil {
			return err
		}
		if leader == n.config.NodeID {
			err = n.LocalSetOwn(ctx, r)
		} else {
			err = n.askedOf(leader, n.peer(leader).SetOwn(ctx, r))
		}
		var refused *web.Refusal
		if !errors.As(err, &refused) || refused.Kind != web.Elsewhere || ctx.Err() != nil {
			return err
		}
		pause(ctx, leaderPoll)
	}
}

// LocalSetOwn implements web.Imports.
func (n *Node) LocalSetOwn(ctx context.Context, r web.OwnSettings) error {
	wish := config.GroupAlteration{Group: r.Group}
	for i := range r.Settings {
		wish.Changes = append(wish.Changes, config.GroupChange{Name: r.Settings[i].Name, Value: &r.Settings[i].Value})
	}
	altered := make(chan error, 1)
	n.groupConfigs.Alter([]config.GroupAlteration{wish}, false, func(refusals []*coordinator.Error, _ uint64, err *coordinator.Error) {
		switch {
		case err != nil && err.Code == coordinator.NotCoordinator:
			altered <- web.Refuse(web.Elsewhere, "%s", err.Message)
		case err != nil:
			altered <- web.Refuse(web.Conflict, "%s", err.Message)
		case refusals[0] != nil:
			altered <- web.Refuse(web.Conflict, "the settings of the group are refused: %s", refusals[0].Message)
		default:
			altered <- nil
		}
	})
	select {
	case err := <-altered:
		return err
	case <-ctx.Done():
		return web.Refuse(web.Conflict, "the settings of the group were not stored in time; try again")
	}
}

// Export implements web.Imports.
func (n *Node) Export(ctx context.Context, r web.ExportRequest) (web.Exported, error) {
	if r.Group == "" {
		return web.Exported{}, web.Refuse(web.NotAllowed, "the group id is empty; 'coordd groups list' shows the groups")
	}
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.Exported, error) { return n.LocalExport(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.Exported, error) { return leader.Export(ctx, r) })
}

// LocalExport implements web.Imports. It is what makes room for a classic group: offsets that coordd keeps itself are written to the
// Kafka behind before the group goes.
func (n *Node) LocalExport(ctx context.Context, r web.ExportRequest) (web.Exported, error) {
	answer, err := n.askShard(ctx, r.Group, &shard.VacateRequest{GroupID: r.Group}, "look at 'coordd groups list' before you try again")
	if err != nil {
		return web.Exported{}, err
	}
	if held := answer.(*shard.HoldsResponse); held.Held {
		if held.Empty {
			return web.Exported{}, web.Refuse(web.Conflict, "group %s could not be given back just now; try again", r.Group)
		}
		return web.Exported{}, web.Refuse(web.Conflict, "group %s has members; stop the app first", r.Group)
	}
	in, err := n.originOf(ctx, r.Group)
	if err != nil {
		return web.Exported{}, web.Refuse(web.Conflict, "group %s is no longer coordd's, but what the Kafka behind has of it could not be read: %v", r.Group, err)
	}
	done := web.Exported{Group: r.Group, Offsets: numCommitted(originView(in).Offsets)}
	n.log.Info("group given back to the Kafka behind on an operator's request", "group", cut(r.Group), "offsets", done.Offsets)
	return done, nil
}
