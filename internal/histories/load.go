package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection of a client, with one request at a time, which has its version. After an error it is of no more use.
type Conn interface {
	Do(req kmsg.Request, patience time.Duration) (kmsg.Response, error)
	Close()
}

// Load is a group under load: members that come and go, what they leave behind, and readers.
type Load struct {
	Log *Log
	// Dial connects one of many clients with a node.
	Dial func(ctx context.Context, client int, address string, patience time.Duration) (Conn, error)
	// Nodes are the addresses of all nodes.
	Nodes []string

	// Group is of its own, and Topic what it reads.
	Group, Topic string
	Partitions   int32
	// Members is how many members there are at most, and Readers how many clients read its offsets.
	Members, Readers int
	Seed             uint64

	// Patience is how long a client waits for an answer, Session the group's session time-out.
	Patience, Session time.Duration
	// Beat is the time between two heartbeats, Pace the one between two commits of a member or two reads of a reader.
	Beat, Pace time.Duration
	// Calm is the number of heartbeats of a member until it comes to an end, on average.
	Calm int

	tasks   sync.WaitGroup
	mu      sync.Mutex
	clients int
	done    <-chan struct{} // of Run's context
}

// Run puts the group under load until the context ends, and returns when every operation has its answer or was given up.
func (l *Load) Run(ctx context.Context) {
	l.done = ctx.Done()
	for range l.Members {
		c := l.client()
		l.tasks.Go(func() { l.slot(ctx, c) })
	}
	for range l.Readers {
		c := l.client()
		l.tasks.Go(func() {
			defer c.drop()
			for ctx.Err() == nil {
				c.read(nil, -1)
				c.sleep(ctx, c.about(l.Pace))
			}
		})
	}
	l.tasks.Wait()
}

// LastRead reads all partitions once more, when all faults are over, and says whether that worked in time.
func (l *Load) LastRead(ctx context.Context) bool {
	c := l.client()
	defer c.drop()
	for ctx.Err() == nil {
		if c.read(nil, -1) {
			return true
		}
		c.sleep(ctx, 100*time.Millisecond)
	}
	return false
}

func (l *Load) stopped() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *Load) client() *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients++
	return &client{load: l, number: l.clients, rand: rand.New(rand.NewPCG(l.Seed, uint64(l.clients)))}
}

func (l *Load) partition(p int32) string { return fmt.Sprintf("%s/%s-%d", l.Group, l.Topic, p) }

// client is one client: it finds the coordinator, or asks any node, and connects anew after an error.
type client struct {
	load   *Load
	number int
	rand   *rand.Rand
	conn   Conn
}

// about is some time around d.
func (c *client) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(c.rand.Int64N(int64(d)))
}

func (c *client) oneIn(n int) bool { return c.rand.IntN(n) == 0 }

func (c *client) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *client) drop() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// ask sends a request and waits for its answer, or until patience is over. What was sent may count all the same.
func (c *client) ask(req kmsg.Request) (kmsg.Response, error) {
	if c.conn != nil && c.oneIn(50) {
		c.drop()
	}
	if c.conn == nil {
		if err := c.connect(); err != nil {
			return nil, err
		}
	}
	resp, err := c.conn.Do(req, c.load.Patience)
	if err != nil {
		c.drop()
	}
	return resp, err
}

func (c *client) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.load.Patience)
	defer cancel()
	conn, err := c.load.Dial(ctx, c.number, c.load.Nodes[c.rand.IntN(len(c.load.Nodes))], c.load.Patience)
	if err != nil {
		return err
	}
	if c.oneIn(3) { // every node serves every group
		c.conn = conn
		return nil
	}
	address, err := coordinator(conn, c.load.Group, c.load.Patience)
	conn.Close()
	if err != nil {
		return err
	}
	c.conn, err = c.load.Dial(ctx, c.number, address, c.load.Patience)
	return err
}

func coordinator(conn Conn, group string, patience time.Duration) (string, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(4)
	req.CoordinatorKeys = []string{group}
	resp, err := conn.Do(req, patience)
	if err != nil {
		return "", err
	}
	found := resp.(*kmsg.FindCoordinatorResponse).Coordinators
	if len(found) != 1 || found[0].ErrorCode != 0 {
		return "", fmt.Errorf("no coordinator: %+v", found)
	}
	return fmt.Sprintf("%s:%d", found[0].Host, found[0].Port), nil
}

// note is the metadata of a commit.
func note(value int64, t Tenure) string {
	return fmt.Sprintf("%s%d/%s/%d", NotePrefix, value, t.Member, t.Number)
}

// NotePrefix begins the metadata of every commit of a load.
const NotePrefix = "history/"

// read reads the offsets of all partitions, as nobody or as a member, and says whether it was answered.
func (c *client) read(member *string, epoch int32) bool {
	l := c.load
	req := kmsg.NewPtrOffsetFetchRequest()
	req.SetVersion(9)
	req.RequireStable = member != nil
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.MemberID, group.MemberEpoch = l.Group, member, epoch
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic = l.Topic
	for p := range l.Partitions {
		topic.Partitions = append(topic.Partitions, p)
	}
	group.Topics = append(group.Topics, topic)
	req.Groups = append(req.Groups, group)
	call := l.Log.Now()
	resp, err := c.ask(req)
	back := l.Log.Now()
	if err != nil {
		return false
	}
	answer := resp.(*kmsg.OffsetFetchResponse)
	if len(answer.Groups) != 1 || answer.Groups[0].ErrorCode != 0 {
		if len(answer.Groups) != 1 || !retriable(answer.Groups[0].ErrorCode) && !refuses(answer.Groups[0].ErrorCode) {
			l.Log.Odd(l.Group, "a read is answered with %+v", answer.Groups)
		}
		c.drop()
		return false
	}
	all := true
	for _, t := range answer.Groups[0].Topics {
		for _, p := range t.Partitions {
			switch {
			case p.ErrorCode == unstable || retriable(p.ErrorCode):
				all = false
				continue
			case p.ErrorCode != 0:
				l.Log.Odd(l.partition(p.Partition), "a read is answered with code %d", p.ErrorCode)
				continue
			}
			if p.Metadata != nil && *p.Metadata != "" {
				var value int64
				if _, err := fmt.Sscanf(*p.Metadata, NotePrefix+"%d/", &value); err != nil || value != p.Offset {
					l.Log.Odd(l.partition(p.Partition), "offset %d has the metadata of another commit: %q", p.Offset, *p.Metadata)
				}
			}
			l.Log.Add(Op{Kind: Read, Partition: l.partition(p.Partition), Call: call, Return: back, Value: p.Offset})
		}
	}
	return all
}

// held is a task that a commit is for.
type held struct {
	partition int32
	tenure    Tenure
}

// commit commits tasks in one request, each at an offset of its own, and returns what the client knows of it.
func (c *client) commit(member string, epoch int32, tasks []held) Outcome {
	l := c.load
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(9)
	req.Group, req.MemberID, req.Generation = l.Group, member, epoch
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = l.Topic
	ops := make([]Op, len(tasks))
	request := int(l.Log.Number())
	for i, t := range tasks {
		value := l.Log.Number()
		metadata := note(value, t.tenure)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = t.partition, value, -1, &metadata
		topic.Partitions = append(topic.Partitions, p)
		ops[i] = Op{Kind: Commit, Partition: l.partition(t.partition), Tenure: t.tenure, Epoch: epoch, Value: value, Request: request}
	}
	req.Topics = append(req.Topics, topic)
	call := l.Log.Now()
	resp, err := c.ask(req)
	back := l.Log.Now()
	how := Unknown
	if err == nil {
		how = c.outcomes(resp.(*kmsg.OffsetCommitResponse), ops)
	}
	for i := range ops {
		ops[i].Call, ops[i].Return = call, back
	}
	l.Log.Add(ops...)
	return how
}

// outcomes notes what is said of each partition, and returns what is said of the last.
func (c *client) outcomes(r *kmsg.OffsetCommitResponse, ops []Op) (how Outcome) {
	answered := 0
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			answered++
			switch code := p.ErrorCode; {
			case code == 0:
				how = Acknowledged
			case refuses(code):
				how = Refused
			case retriable(code):
				how = Unknown
				c.drop()
			default:
				how = Unknown
				c.load.Log.Odd(c.load.partition(p.Partition), "a commit is answered with code %d", code)
			}
			for i := range ops {
				if ops[i].Partition == c.load.partition(p.Partition) {
					ops[i].Outcome = how
				}
			}
		}
	}
	if answered != len(ops) {
		c.load.Log.Odd(c.load.Group, "%d partitions are answered of a commit of %d", answered, len(ops))
	}
	return how
}

// Codes of Kafka's protocol.
const (
	requestTimedOut           = 7
	coordinatorLoadInProgress = 14
	notCoordinator            = 16
	illegalGeneration         = 22
	unknownMemberID           = 25
	groupIDNotFound           = 69
	unstable                  = 88
	fencedMemberEpoch         = 110
	staleMemberEpoch          = 113
)

// retriable says that the code asks to try again.
func retriable(code int16) bool {
	return code >= coordinatorLoadInProgress && code <= notCoordinator || code == requestTimedOut
}

// refuses says that the code is of a member that may not do what it asked for.
func refuses(code int16) bool {
	switch code {
	case illegalGeneration, unknownMemberID, groupIDNotFound, fencedMemberEpoch, staleMemberEpoch:
		return true
	}
	return false
}
