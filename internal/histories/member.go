package histories

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// committers is how many commits of a member may be under way at once.
const committers = 2

// member is one life of a member, from a join to its end.
type member struct {
	*client // of its heartbeats
	id      string

	// Owned by live; so are writes of epoch and tasks.
	unanswered time.Duration // when the first heartbeat was sent since the last one that was answered; -1: none
	proven     time.Duration // when the last heartbeat was sent that was answered without an error
	full       bool          // the next heartbeat lists the tasks

	busy chan struct{} // has one for each commit under way

	mu    sync.Mutex
	epoch int32
	tasks map[int32]*task
}

// task is one that the member has.
type task struct {
	tenure Tenure
	epoch  int32 // that the member had last while the task was its own
	told   time.Duration
	// given says that the member was told to give it up, and again that it was given back before it had.
	given, again bool
	reported     time.Duration // when the member first said that it has given it up; 0: it did not
}

// slot has one member after the other.
func (l *Load) slot(ctx context.Context, c *client) {
	id := ""
	for ctx.Err() == nil {
		if id == "" {
			id = fmt.Sprintf("m%d", l.Log.Number())
		}
		m := &member{client: c, id: id, unanswered: -1, tasks: map[int32]*task{}, busy: make(chan struct{}, committers)}
		if !m.live(ctx) || c.oneIn(2) {
			id = "" // who may still be in the group is not joined again: Kafka takes it for the same member
		}
		c.drop()
		c.sleep(ctx, c.about(l.Beat))
	}
}

// live is one life of the member. It says whether the member is known to be out of the group.
func (m *member) live(ctx context.Context) (out bool) {
	l := m.load
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range committers {
		c := l.client()
		l.tasks.Go(func() { m.commits(ctx, c) })
	}
	for ctx.Err() == nil {
		wait, gone := m.beat()
		if gone {
			return true
		}
		if wait == 0 {
			continue
		}
		m.sleep(ctx, wait)
		if m.epoch == 0 || !m.oneIn(l.Calm) {
			continue
		}
		switch m.rand.IntN(3) {
		case 0: // it crashes; its commits go on
			m.haunt(m.tasks, l.Session+5*time.Second)
			return false
		case 1: // its heartbeats stand still, its commits do not
			m.sleep(ctx, l.Session+l.Session/4+time.Second)
		default:
			return m.leave(ctx)
		}
	}
	return false
}

// commits commits the member's tasks until its life is over.
func (m *member) commits(ctx context.Context, c *client) {
	defer c.drop()
	for {
		c.sleep(ctx, c.about(m.load.Pace))
		select {
		case m.busy <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		epoch := m.epoch
		var tasks []held
		some := c.oneIn(3)
		for p := range m.load.Partitions {
			if t := m.tasks[p]; t != nil && !t.given && (!some || !c.oneIn(2)) {
				tasks = append(tasks, held{p, t.tenure})
			}
		}
		m.mu.Unlock()
		if len(tasks) > 0 {
			c.commit(m.id, epoch, tasks)
		}
		<-m.busy
	}
}

// awaitCommits waits for commits under way, and holds back others until it is over.
func (m *member) awaitCommits() {
	for range committers {
		m.busy <- struct{}{}
	}
	for range committers {
		<-m.busy
	}
}

// beat sends a heartbeat and does what its answer says. It returns how long to wait for the next one, or that the member is
// out of the group.
func (m *member) beat() (wait time.Duration, gone bool) {
	l := m.load
	req := m.request()
	sent := l.Log.Now()
	if m.unanswered < 0 {
		m.unanswered = sent
	}
	if req.ActiveTasks != nil {
		m.reports(sent)
	}
	resp, err := m.ask(req)
	back := l.Log.Now()
	if err != nil {
		m.full = true
		return m.about(100 * time.Millisecond), false
	}
	switch r := resp.(*kmsg.StreamsGroupHeartbeatResponse); {
	case r.ErrorCode == 0:
		return m.told(r, req.ActiveTasks != nil, sent, back), false
	case retriable(r.ErrorCode):
		m.drop()
		m.full = true
		return m.about(100 * time.Millisecond), false
	case r.ErrorCode == unknownMemberID:
		m.removed(back)
		return 0, true
	default:
		l.Log.Odd(l.Group, "a heartbeat of %s is answered with code %d", m.id, r.ErrorCode)
		m.full = true
		return time.Second, false
	}
}

func (m *member) request() *kmsg.StreamsGroupHeartbeatRequest {
	l := m.load
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.SetVersion(1)
	req.Group, req.MemberID, req.MemberEpoch, req.EndpointInformationEpoch, req.RebalanceTimeoutMillis = l.Group, m.id, m.epoch, -1, -1
	if m.epoch == 0 {
		req.RebalanceTimeoutMillis = 60_000
		req.ProcessID = &m.id
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", []string{l.Topic}
		top := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		top.Subtopologies = append(top.Subtopologies, sub)
		req.Topology = &top
	}
	if m.epoch == 0 || m.full {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = m.own(), []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	return req
}

// own are the tasks that the member says it has.
func (m *member) own() []kmsg.TaskIDs {
	ids := kmsg.NewTaskIDs()
	ids.SubtopologyID = "0"
	for p := range m.load.Partitions {
		if t := m.tasks[p]; t != nil && !t.given {
			ids.Partitions = append(ids.Partitions, p)
		}
	}
	if len(ids.Partitions) == 0 {
		return []kmsg.TaskIDs{}
	}
	return []kmsg.TaskIDs{ids}
}

// reports notes when the member says for the first time that it has given tasks up.
func (m *member) reports(at time.Duration) {
	for _, t := range m.tasks {
		if t.given && t.reported == 0 {
			t.reported = at
		}
	}
}

// told does what an answer says, and returns when to ask again.
func (m *member) told(r *kmsg.StreamsGroupHeartbeatResponse, reported bool, sent, back time.Duration) time.Duration {
	l := m.load
	call := m.unanswered
	m.unanswered, m.proven = -1, sent
	m.mu.Lock()
	if r.MemberEpoch < m.epoch {
		l.Log.Odd(l.Group, "%s was told epoch %d after %d", m.id, r.MemberEpoch, m.epoch)
	}
	m.epoch = r.MemberEpoch
	left := map[int32]*task{}
	if reported {
		m.full = false
		for p, t := range m.tasks {
			if t.given && t.reported > 0 {
				if t.epoch < m.epoch { // in the epoch that it has, Kafka lets a member commit anything
					left[p] = t
				}
				delete(m.tasks, p)
				l.Log.Add(Op{Kind: Release, Partition: l.partition(p), Call: t.reported, Return: back, Tenure: t.tenure, Epoch: t.epoch})
			}
		}
	}
	granted, taken := m.listed(r, call, back)
	for _, t := range m.tasks {
		if !t.given {
			t.epoch = m.epoch
			if !t.again {
				l.Log.Proved(t.tenure, t.told, sent)
			}
		}
	}
	m.mu.Unlock()
	m.haunt(left, 3*time.Second)
	if taken && m.oneIn(2) { // else it does not wait for commits under way, as one that gave up on them
		m.awaitCommits()
	}
	if granted && m.oneIn(2) {
		m.read(&m.id, m.epoch)
	}
	if granted || taken {
		return 0
	}
	return m.about(l.Beat)
}

// listed compares the tasks of an answer with the member's own, and says what became of it. m.mu is held.
func (m *member) listed(r *kmsg.StreamsGroupHeartbeatResponse, call, back time.Duration) (granted, taken bool) {
	l := m.load
	if r.ActiveTasks == nil {
		return false, false
	}
	now := map[int32]bool{}
	for _, s := range r.ActiveTasks {
		for _, p := range s.Partitions {
			now[p] = true
		}
	}
	for p, t := range m.tasks {
		switch {
		case !now[p] && !t.given:
			t.given, taken = true, true
		case now[p] && t.given:
			// Whether somebody else had it meanwhile is not known: the coordinator may have heard that it was given up.
			t.given, t.again, t.reported, granted = false, true, 0, true
			l.Log.Add(Op{Kind: Grant, Partition: l.partition(p), Call: call, Return: back, Tenure: t.tenure, Epoch: r.MemberEpoch})
		}
	}
	for p := range now {
		if m.tasks[p] == nil {
			t := &task{tenure: Tenure{int(l.Log.Number()), m.id}, told: back}
			m.tasks[p], granted = t, true
			l.Log.Add(Op{Kind: Grant, Partition: l.partition(p), Call: call, Return: back, Tenure: t.tenure, Epoch: r.MemberEpoch})
		}
	}
	m.full = true
	return granted, taken
}

// removed notes that the member is out of the group, and leaves what commits go on as if nothing had happened.
func (m *member) removed(back time.Duration) {
	l := m.load
	m.mu.Lock()
	for p, t := range m.tasks {
		l.Log.Add(Op{Kind: Release, Partition: l.partition(p), Call: m.proven, Return: back, Tenure: t.tenure, Epoch: t.epoch})
	}
	tasks := m.tasks
	m.tasks = map[int32]*task{}
	m.mu.Unlock()
	m.haunt(tasks, 3*time.Second)
}

// leave tells the group that the member leaves, and says whether that was heard.
func (m *member) leave(ctx context.Context) bool {
	for range 10 {
		req := m.request()
		req.MemberEpoch = -1
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = nil, nil, nil
		resp, err := m.ask(req)
		if err == nil {
			switch code := resp.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode; {
			case code == 0 || code == unknownMemberID:
				m.removed(m.load.Log.Now())
				return true
			case !retriable(code):
				m.load.Log.Odd(m.load.Group, "a leave of %s is answered with code %d", m.id, code)
				return false
			}
			m.drop()
		}
		m.sleep(ctx, m.about(100*time.Millisecond))
	}
	return false
}

// haunt leaves zombies behind for some of the tasks: they commit with the epoch that the member had, until they were refused a few times.
func (m *member) haunt(tasks map[int32]*task, most time.Duration) {
	l := m.load
	for p := range l.Partitions {
		t := tasks[p]
		if t == nil || t.epoch == 0 || m.oneIn(3) {
			continue
		}
		c, id, epoch, tenure := l.client(), m.id, t.epoch, t.tenure
		l.tasks.Go(func() {
			defer c.drop()
			end := l.Log.Now() + most
			for refusals := 0; refusals < 3 && l.Log.Now() < end && !l.stopped(); {
				if c.commit(id, epoch, []held{{p, tenure}}) == Refused {
					refusals++
				}
				c.sleep(context.Background(), c.about(l.Pace))
			}
		})
	}
}
