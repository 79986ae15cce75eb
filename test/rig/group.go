package rig

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Group is what StreamsGroupDescribe says of a group, comparable with reflect.DeepEqual or cmp.Diff.
type Group struct {
	State           string
	Epoch           int32
	AssignmentEpoch int32
	Members         map[string]GroupMember
}

// GroupMember is a member of a Group; tasks are written as in Kafka Streams, such as 0_1.
type GroupMember struct {
	Client                    string // its client id
	Epoch                     int32
	Active, Standby, Warmup   []string
	TargetActive, TargetStand []string
}

// FindCoordinator asks the bootstrap servers in turn for the coordinator of a group until one names it.
func FindCoordinator(bootstrap, group string, within time.Duration) (id int32, addr string, err error) {
	end := time.Now().Add(within)
	for {
		for _, b := range strings.Split(bootstrap, ",") {
			var c *Conn
			if c, err = Dial(b); err != nil {
				continue
			}
			id, addr, err = c.Coordinator(group, 5*time.Second)
			c.Close()
			if err == nil {
				return id, addr, nil
			}
		}
		if time.Now().After(end) {
			return 0, "", fmt.Errorf("coordinator of %s: %w", group, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// DescribeGroup asks the coordinator of a group, following it where it moves, until it answers.
func DescribeGroup(bootstrap, group string, within time.Duration) (*Group, error) {
	end := time.Now().Add(within)
	for {
		g, err := describeOnce(bootstrap, group)
		if err == nil || time.Now().After(end) {
			return g, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func describeOnce(bootstrap, group string) (*Group, error) {
	_, addr, err := FindCoordinator(bootstrap, group, 0)
	if err != nil {
		return nil, err
	}
	c, err := Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := c.Do(req, 10*time.Second)
	if err != nil {
		return nil, err
	}
	groups := resp.(*kmsg.StreamsGroupDescribeResponse).Groups
	if len(groups) != 1 {
		return nil, fmt.Errorf("describe %s: %d groups in the answer", group, len(groups))
	}
	d := groups[0]
	if d.ErrorCode != 0 {
		return nil, fmt.Errorf("describe %s: %w", group, Code(d.ErrorCode))
	}
	g := &Group{State: d.State, Epoch: d.Epoch, AssignmentEpoch: d.AssignmentEpoch, Members: map[string]GroupMember{}}
	for _, m := range d.Members {
		g.Members[m.MemberID] = GroupMember{
			Client: m.ClientID, Epoch: m.MemberEpoch,
			Active: names(m.Assignment.ActiveTasks), Standby: names(m.Assignment.StandbyTasks), Warmup: names(m.Assignment.WarmupTasks),
			TargetActive: names(m.TargetAssignment.ActiveTasks), TargetStand: names(m.TargetAssignment.StandbyTasks),
		}
	}
	return g, nil
}

func names(tasks []kmsg.TaskIDs) []string {
	out := []string{}
	for _, t := range tasks {
		for _, p := range t.Partitions {
			out = append(out, fmt.Sprintf("%s_%d", t.SubtopologyID, p))
		}
	}
	slices.Sort(out)
	return out
}

// Probe is a member of a streams group of its own that speaks the protocol itself: it shows when which coordinator
// answers, and with what, without the timing of a real client.
type Probe struct {
	Bootstrap []string
	Group     string
	Member    string
	Topic     string // the source topic of its one subtopology
	Instance  *string
	Epoch     int32
	Told      []kmsg.StreamsGroupHeartbeatResponseStatus // by the last answer

	// Joining, when set, changes the request of a join: another topology, tags, an endpoint.
	Joining func(*kmsg.StreamsGroupHeartbeatRequest)
	// Dial, when set, connects in another way, such as by signing in.
	Dial func(addr string) (*Conn, error)

	conn   *Conn
	tasks  [3][]kmsg.TaskIDs
	ack    bool
	nextAt int
}

// NewProbe is a probe that has not joined yet.
func NewProbe(bootstrap, group, topic string) *Probe {
	return &Probe{Bootstrap: strings.Split(bootstrap, ","), Group: group, Topic: topic, Member: fmt.Sprintf("probe-%016x", rand.Uint64())}
}

func (p *Probe) request() *kmsg.StreamsGroupHeartbeatRequest {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.EndpointInformationEpoch = p.Group, p.Member, p.Epoch, -1
	r.InstanceID = p.Instance
	if p.Epoch == 0 {
		r.RebalanceTimeoutMillis = 60_000
		r.ProcessID = kmsg.StringPtr(p.Member)
		r.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{p.Topic}
		topology.Subtopologies = append(topology.Subtopologies, sub)
		r.Topology = &topology
	}
	if p.ack || p.Epoch == 0 {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = notNil(p.tasks[0]), notNil(p.tasks[1]), notNil(p.tasks[2])
	}
	if p.Epoch == 0 && p.Joining != nil {
		p.Joining(r)
	}
	return r
}

func notNil(t []kmsg.TaskIDs) []kmsg.TaskIDs {
	if t == nil {
		return []kmsg.TaskIDs{}
	}
	return t
}

// Beat sends one heartbeat to the coordinator, which it looks up where it has to. A Code that is not Retriable is the
// answer of a coordinator that refuses the member; every other error only says that there is no answer now.
func (p *Probe) Beat(within time.Duration) error {
	if err := p.connect(within); err != nil {
		return err
	}
	resp, err := p.conn.Do(p.request(), within)
	if err != nil {
		p.drop()
		return err
	}
	r := resp.(*kmsg.StreamsGroupHeartbeatResponse)
	if r.ErrorCode != 0 {
		p.drop()
		return Code(r.ErrorCode)
	}
	p.Epoch, p.Told = r.MemberEpoch, r.Status
	p.ack = false
	for i, t := range [][]kmsg.TaskIDs{r.ActiveTasks, r.StandbyTasks, r.WarmupTasks} {
		if t != nil {
			p.tasks[i], p.ack = t, true
		}
	}
	return nil
}

func (p *Probe) connect(within time.Duration) error {
	if p.conn != nil {
		return nil
	}
	boot := p.Bootstrap[p.nextAt%len(p.Bootstrap)]
	p.nextAt++
	dial := p.Dial
	if dial == nil {
		dial = Dial
	}
	c, err := dial(boot)
	if err != nil {
		return err
	}
	_, addr, err := c.Coordinator(p.Group, within)
	c.Close()
	if err != nil {
		return err
	}
	p.conn, err = dial(addr)
	return err
}

func (p *Probe) drop() {
	p.conn.Close()
	p.conn = nil
}

// Settle heartbeats until the member has tasks and has acknowledged them.
func (p *Probe) Settle(within time.Duration) error {
	end := time.Now().Add(within)
	var err error
	for time.Now().Before(end) {
		if err = p.Beat(5 * time.Second); err == nil && p.Epoch > 0 && len(p.tasks[0]) > 0 && !p.ack {
			return nil
		}
		var code Code
		if errors.As(err, &code) && !code.Retriable() {
			break
		}
		if err != nil || !p.ack {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return fmt.Errorf("probe %s did not settle: epoch %d, last error %w", p.Group, p.Epoch, err)
}

// Settled says whether the member has acknowledged its tasks, and owns what it was last told.
func (p *Probe) Settled() bool { return p.Epoch > 0 && !p.ack }

// Active are the active tasks that the member was last told, as partitions by subtopology.
func (p *Probe) Active() map[string][]int32 {
	active := map[string][]int32{}
	for _, t := range p.tasks[0] {
		active[t.SubtopologyID] = append(active[t.SubtopologyID], t.Partitions...)
	}
	return active
}

// Commit commits offsets as a member that has the right to do so.
func (p *Probe) Commit(topic string, offsets map[int32]int64) error {
	if err := p.connect(5 * time.Second); err != nil {
		return err
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = p.Group, p.Member, p.Epoch, p.Instance
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, n := range slices.Sorted(maps.Keys(offsets)) {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.Metadata = n, offsets[n], kmsg.StringPtr("")
		t.Partitions = append(t.Partitions, part)
	}
	r.Topics = append(r.Topics, t)
	resp, err := p.conn.DoVersion(r, 9, 10*time.Second) // the last version that names topics instead of ids
	if err != nil {
		p.drop()
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, part := range t.Partitions {
			if part.ErrorCode != 0 {
				p.drop() // the coordinator may be elsewhere
				return fmt.Errorf("commit of %s-%d: %w", t.Topic, part.Partition, Code(part.ErrorCode))
			}
		}
	}
	return nil
}

// Leave leaves the group; a static member for good.
func (p *Probe) Leave() error {
	p.Epoch, p.ack = -1, false
	err := p.Beat(5 * time.Second)
	p.conn.Close()
	return err
}

// ShardOf is the shard that a group belongs to.
func ShardOf(group string, shards int) int {
	var h int32
	for _, c := range group { // ids of tests are ASCII: a rune is a UTF-16 unit
		h = 31*h + c
	}
	return int(h&0x7fffffff) % shards
}
