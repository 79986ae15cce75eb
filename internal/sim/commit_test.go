package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// committer is one commit of a member until it is known to have been taken.
type committer struct {
	m      *member
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	rand   *rand.Rand
	tasks  []topology.Task
}

// startCommit commits all active tasks unless a commit is under way.
func (m *member) startCommit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.commits != nil || m.epoch <= 0 || len(m.owned[active]) == 0 {
		return
	}
	c := &committer{m: m, done: make(chan struct{}), tasks: m.owned[active], rand: rand.New(rand.NewPCG(m.rand.Uint64(), 0))}
	c.ctx, c.cancel = context.WithCancel(m.ctx)
	m.commits = c
	go c.run()
}

// awaitCommit waits for the commit under way, and gives it up when it takes too long.
func (m *member) awaitCommit(patience time.Duration) {
	m.mu.Lock()
	c := m.commits
	m.mu.Unlock()
	if c == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
		return
	case <-timer.C:
	case <-m.ctx.Done():
	}
	c.cancel()
	<-c.done
}

func (c *committer) run() {
	defer func() {
		c.cancel()
		c.m.mu.Lock()
		c.m.commits = nil
		c.m.mu.Unlock()
		close(c.done)
	}()
	for try := 0; c.ctx.Err() == nil; try++ {
		if c.once() {
			return
		}
		timer := time.NewTimer(50*time.Millisecond + time.Duration(c.rand.Int64N(int64(100*time.Millisecond))))
		select {
		case <-timer.C:
		case <-c.ctx.Done():
		}
		timer.Stop()
	}
}

// once tries once, and says whether that settled it.
func (c *committer) once() bool {
	w, err := dial(c.ctx, c.m.process.host, c.m.sim.anyNode(c.rand), c.m.clientID(), c.m.patience)
	if err != nil {
		return false
	}
	defer func() { w.close() }()
	if c.rand.IntN(4) > 0 { // else any node will do: it passes the commit on
		address, err := findCoordinator(w, c.m.group.id, c.m.patience)
		if err != nil {
			return false
		}
		w.close()
		if w, err = dial(c.ctx, c.m.process.host, address, c.m.clientID(), c.m.patience); err != nil {
			return false
		}
	}
	req, notes := c.request()
	resp, err := w.do(req, c.m.patience)
	if err != nil {
		return false
	}
	return c.settled(resp.(*kmsg.OffsetCommitResponse), notes)
}

// request commits each task in the epoch that the member has now; notes are the commits' metadata.
func (c *committer) request() (req *kmsg.OffsetCommitRequest, notes []string) {
	m := c.m
	m.mu.Lock()
	m.offset++
	epoch, offset := m.epoch, m.offset
	m.mu.Unlock()
	req = kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(9)
	req.Group, req.Generation, req.MemberID = m.group.id, epoch, m.id
	for _, t := range c.tasks {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = m.group.source(t.Subtopology)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		metadata := fmt.Sprintf("%s/%d/%s_%d", m.id, offset, t.Subtopology, t.Partition)
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = t.Partition, offset, -1, &metadata
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		notes = append(notes, metadata)
		m.sim.observer.committing(metadata, m, t)
	}
	return req, notes
}

func (c *committer) settled(r *kmsg.OffsetCommitResponse, notes []string) bool {
	n := 0
	again := false
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			switch code := coordinator.Code(p.ErrorCode); code {
			case coordinator.None:
				c.m.sim.observer.acknowledged(notes[n])
			case coordinator.CoordinatorLoadInProgress, coordinator.CoordinatorNotAvailable, coordinator.NotCoordinator:
				again = true
			case coordinator.UnknownMemberID, coordinator.StaleMemberEpoch, coordinator.FencedMemberEpoch, coordinator.GroupIDNotFound:
				if c.ctx.Err() == nil {
					c.m.sim.observer.fenced(c.m, p.ErrorCode, "commit "+notes[n])
				}
			default:
				c.m.sim.observer.failf("%v: fatal error %d to a commit", c.m, code)
			}
			n++
		}
	}
	return !again
}
