package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/raftnode"
	"github.com/coordd/coordd/topicctl"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

var _ web.Cluster = (*Node)(nil)

// kindStatus is the protocol between nodes in which a node tells its status: HTTP over the raft port.
const kindStatus byte = 'A'

// serveStatus answers other nodes until the node stops.
func (n *Node) serveStatus() {
	s := &http.Server{Handler: web.NodeHandler(n), ReadHeaderTimeout: deadAfter, IdleTimeout: time.Minute}
	ln := n.raft.Listener(kindStatus)
	n.run(func() {
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !n.draining.Load() {
			n.log.Error("other nodes can no longer ask for the status", "error", err)
		}
	})
	n.run(func() {
		<-n.ctx.Done()
		_ = s.Close()
	})
}

// Version is the module version of the binary.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Local implements web.Cluster.
func (n *Node) Local() web.NodeStatus {
	image, upstream := n.watcher.Image(), n.watcher.Status()
	s := web.NodeStatus{
		Node: n.config.NodeID, Reachable: true, Version: Version(),
		ClientAddress: n.clientAddress(), RaftAddress: n.config.RaftAdvertised, Drained: n.raft.Evacuated(),
		FeatureLevel: n.level(), OffsetsLogHindrance: n.offsetsHindrance(),
		UptimeMs: n.clock.elapsed().Milliseconds(),
		Upstream: web.UpstreamStatus{Reachable: upstream.Reachable, ClusterID: image.ClusterID,
			Brokers: len(image.Brokers), Topics: image.NumTopics()},
	}
	if upstream.Err != nil {
		s.Upstream.Error = upstream.Err.Error()
	}
	s.Shards = append(s.Shards, shardStatus(-1, n.system.group.Status(), n.system.replica))
	for i, r := range n.shards {
		status := r.group.Status()
		status.Serving = status.Serving && r.began.Load() == status.Term // the machine begins a moment later
		view := shardStatus(i, status, r.replica)
		view.TakingOver = int(r.takingOver.Load())
		s.Shards = append(s.Shards, view)
	}
	return s
}

func (n *Node) clientAddress() string {
	r := n.registration()
	return net.JoinHostPort(r.ClientHost, fmt.Sprint(r.ClientPort))
}

func shardStatus(number int, s raftnode.Status, r *replica) web.ShardStatus {
	state := r.State()
	view := web.ShardStatus{
		Shard: number, Role: s.Role.String(), Serving: s.Serving, Kept: s.Kept, Leader: s.Leader, Term: s.Term,
		LastIndex: s.LastIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex,
		Groups: state.NumGroups(), Digest: fmt.Sprintf("%x", state.Digest()),
	}
	for _, f := range s.Followers {
		view.Followers = append(view.Followers, web.FollowerView{
			Node: f.Node, Live: f.Live, Lag: s.LastIndex - min(s.LastIndex, f.LastIndex),
		})
	}
	return view
}

// peerTimeout bounds the wait for another node's status.
const peerTimeout = time.Second

// Status implements web.Cluster.
func (n *Node) Status(ctx context.Context) web.ClusterStatus {
	status := web.ClusterStatus{AskedNode: n.config.NodeID, Nodes: n.askNodes(ctx), Quorum: true}
	if c := n.system.replica.State().Cluster(); c != nil {
		status.ClusterID = c.ID
	}
	for number := -1; number < len(n.shards); number++ {
		view := viewOf(number, status.Nodes)
		status.Quorum = status.Quorum && view.Leader >= 0
		status.Shards = append(status.Shards, view)
	}
	return status
}

func (n *Node) askNodes(ctx context.Context) []web.NodeStatus {
	ids := []int32{n.config.NodeID}
	for _, p := range n.config.Peers {
		if p.ID != n.config.NodeID {
			ids = append(ids, p.ID)
		}
	}
	slices.Sort(ids)
	nodes := make([]web.NodeStatus, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		if id == n.config.NodeID {
			nodes[i] = n.Local()
			continue
		}
		wg.Go(func() { nodes[i] = n.askNode(ctx, id) })
	}
	wg.Wait()
	return nodes
}

func (n *Node) askNode(ctx context.Context, id int32) web.NodeStatus {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	s, err := n.peer(id).Node(ctx)
	if err != nil {
		return web.NodeStatus{Node: id, Error: reason(err).Error()}
	}
	return s
}

// reason is why a call to another node failed, without the client's advice on the admin port: it went to the Raft port.
func reason(err error) error {
	var call *url.Error
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}

// peer reads another node's status over the Raft port.
func (n *Node) peer(id int32) web.Client {
	return web.Client{Address: fmt.Sprintf("node-%d", id), Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return n.raft.DialPeer(ctx, id, kindStatus)
		},
	}}
}

// viewOf puts together what the nodes say of a shard; the leader of the newest term counts.
func viewOf(number int, nodes []web.NodeStatus) web.ShardView {
	view := web.ShardView{Shard: number, Leader: -1, Followers: []web.FollowerView{}}
	for _, node := range nodes {
		for _, s := range node.Shards {
			if s.Shard != number || s.Term < view.Term {
				continue
			}
			if s.Serving {
				view = web.ShardView{Shard: number, Leader: node.Node, Term: s.Term, CommitIndex: s.CommitIndex,
					AppliedIndex: s.AppliedIndex, Kept: s.Kept, Followers: s.Followers}
			} else if s.Term > view.Term {
				view = web.ShardView{Shard: number, Leader: -1, Term: s.Term, CommitIndex: s.CommitIndex,
					AppliedIndex: s.AppliedIndex, Followers: []web.FollowerView{}}
			}
		}
	}
	return view
}

// Ready implements web.Cluster: every shard has a leader, the upstream was seen, and clients are shown this node.
func (n *Node) Ready() error {
	if n.draining.Load() {
		return errors.New("the node is stopping")
	}
	if err := n.raft.Storage(); Outdated(err) {
		return fmt.Errorf("the node takes part in nothing: %w", err)
	} else if err != nil {
		return fmt.Errorf("the node can store nothing and leads no shard: %w", err)
	}
	if !n.raft.Ready() {
		return errors.New("the node has not caught up with the logs of all shards yet")
	}
	if n.watcher.Image().Version == 0 {
		return errors.New("the Kafka cluster behind has not answered yet")
	}
	if n.system.leaderNode() < 0 {
		return errors.New("the system shard has no leader; a quorum of nodes must be up")
	}
	for i := range n.shards {
		if _, ok := (coordinators{n}).Leader(uint32(i)); !ok {
			return fmt.Errorf("shard %d has no leader; a quorum of nodes must be up", i)
		}
	}
	for _, node := range n.cluster.Nodes() {
		if node.ID == n.config.NodeID && node.Live {
			return nil
		}
	}
	return errors.New("the node is not registered in the system shard yet")
}

// AwaitReady returns when the node is ready, or with the reason why it is not when ctx ends.
func (n *Node) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := n.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d is not ready: %w", n.config.NodeID, err)
		case <-tick.C:
		}
	}
}

// Groups implements web.Cluster.
func (n *Node) Groups() []web.GroupSummary {
	var list []web.GroupSummary
	for number, r := range n.shards {
		for g := range r.replica.State().Groups() {
			list = append(list, n.summary(number, g))
		}
	}
	slices.SortFunc(list, func(a, b web.GroupSummary) int { return compareText(a.Group, b.Group) })
	return list
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (n *Node) summary(number int, g *fsm.Group) web.GroupSummary {
	leader, ok := (coordinators{n}).Leader(uint32(number))
	if !ok {
		leader = -1
	}
	s := web.GroupSummary{
		Group: g.ID, State: string(streams.StateOf(g)), Shard: number, Coordinator: leader,
		Epoch: g.Epoch(), AssignmentEpoch: g.AssignmentEpoch(), TopologyEpoch: -1, Members: g.NumMembers(),
	}
	if g.Topology != nil {
		s.TopologyEpoch = g.Topology.Epoch
	}
	return s
}

// Group implements web.Cluster. The shard's leader knows the group's state now, and its members are judged by the topics
// that it sees; where it does not answer this node's replica and topics have to do.
func (n *Node) Group(ctx context.Context, id string) (web.GroupDetail, bool) {
	leader, ok := (coordinators{n}).Leader(shardOf(id, len(n.shards)))
	if !ok || leader == n.config.NodeID {
		return n.LocalGroup(id)
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	detail, err := n.peer(leader).Group(ctx, id)
	if err != nil && !errors.Is(err, web.ErrNoGroup) {
		return n.LocalGroup(id)
	}
	return detail, err == nil
}

// LocalGroup implements web.Cluster.
func (n *Node) LocalGroup(id string) (web.GroupDetail, bool) {
	number := shardOf(id, len(n.shards))
	g := n.shards[number].replica.State().Group(id)
	if g == nil {
		return web.GroupDetail{}, false
	}
	detail := web.GroupDetail{GroupSummary: n.summary(int(number), g), MemberList: []web.GroupMember{}}
	if image := n.watcher.Image(); image.Version != 0 && g.NumMembers() > 0 {
		env := n.viewEnv(id, image)
		detail.Problem = streams.TopicsProblem(g, &env)
		detail.GraceLeftMs = streams.GraceLeft(g, &env)
	}
	for m := range g.Members() {
		detail.MemberList = append(detail.MemberList, memberView(m))
	}
	return detail, true
}

// viewEnv is what shows groups to people see of the world.
func (n *Node) viewEnv(id string, image *topicctl.Image) streams.Env {
	return streams.Env{
		Now: n.clock.now(), Settings: n.groupConfigs.of(id), Metadata: image, MetadataVersion: image.Version, CreationErrors: n.creator.Error,
		Leaders: n.leaders(),
	}
}

// leaders tells where the leaders of partitions are, where the source of the topics can.
func (n *Node) leaders() topology.Leaders {
	leaders, _ := n.parts.Topics.(topology.Leaders)
	return leaders
}

func memberView(m *fsm.Member) web.GroupMember {
	v := web.GroupMember{Member: m.ID}
	if meta := m.Meta; meta != nil {
		v.ClientID, v.Host, v.ProcessID = meta.ClientID, meta.ClientHost, meta.ProcessID
		if meta.InstanceID != nil {
			v.InstanceID = *meta.InstanceID
		}
	}
	var assigned, revoking, target topology.Assignment
	if c := m.Current; c != nil {
		v.Epoch, v.State = c.MemberEpoch, stateText(c.State)
		assigned, revoking = c.Assigned, c.Revoking
	}
	if m.Target != nil {
		target = m.Target.Assignment
	}
	v.Active, v.Standby, v.Warmup = taskNames(assigned.Active), taskNames(assigned.Standby), taskNames(assigned.Warmup)
	v.Revoking = slices.Concat(taskNames(revoking.Active), taskNames(revoking.Standby), taskNames(revoking.Warmup))
	v.TargetActive, v.TargetStandby, v.TargetWarmup = taskNames(target.Active), taskNames(target.Standby), taskNames(target.Warmup)
	return v
}

func stateText(s record.MemberState) string {
	switch s {
	case record.MemberStable:
		return "Stable"
	case record.MemberUnrevokedTasks:
		return "UnrevokedTasks"
	case record.MemberUnreleasedTasks:
		return "UnreleasedTasks"
	}
	return "Unknown"
}

func taskNames(tasks topology.Tasks) []string {
	names := []string{}
	for _, s := range tasks {
		for _, p := range s.Partitions {
			names = append(names, fmt.Sprintf("%s_%d", s.Subtopology, p))
		}
	}
	return names
}
