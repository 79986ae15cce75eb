package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/web"
)

// Mover moves the leaders of shards between the steps of tests, as `coordd leaders move` does, and keeps them in place during
// steps: a step that was asked twice, since the leader moved under it, may rightly be answered as a repeated one.
type Mover struct {
	nodes  []web.Client
	shards []sync.RWMutex
	moved  atomic.Int64
}

// moveWithin bounds one move, with the wait until all nodes know of it.
const moveWithin = 10 * time.Second

// NewMover is a mover for the nodes with the given admin addresses.
func NewMover(admins []string, shards int) *Mover {
	m := &Mover{shards: make([]sync.RWMutex, shards)}
	for _, a := range admins {
		m.nodes = append(m.nodes, web.Client{Address: a})
	}
	return m
}

// Moves is how often a leader was moved.
func (m *Mover) Moves() int { return int(m.moved.Load()) }

// Move hands the shards of some groups on, each to the next node, and returns when those serve and all nodes know it.
func (m *Mover) Move(groups []string) error {
	for _, shard := range m.of(groups) {
		if err := m.move(shard); err != nil {
			return err
		}
	}
	return nil
}

// Hold keeps the shards of some groups in place until release is called.
func (m *Mover) Hold(groups []string) (release func()) {
	shards := m.of(groups)
	for _, shard := range shards { // ascending, so that no two wait for each other
		m.shards[shard].RLock()
	}
	return func() {
		for _, shard := range shards {
			m.shards[shard].RUnlock()
		}
	}
}

func (m *Mover) of(groups []string) (shards []int) {
	for _, group := range groups {
		shards = append(shards, ShardOf(group, len(m.shards)))
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

func (m *Mover) move(shard int) error {
	m.shards[shard].Lock()
	defer m.shards[shard].Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), moveWithin)
	defer cancel()
	from, ids, err := m.leader(ctx, shard)
	if err != nil {
		return err
	}
	to := ids[(slices.Index(ids, from)+1)%len(ids)]
	var failure error
	for ctx.Err() == nil {
		_, failure = m.nodes[0].MoveLeader(ctx, web.MoveRequest{Shard: shard, To: to})
		now, _, err := m.leader(ctx, shard)
		switch {
		case err != nil:
			return errors.Join(err, failure)
		case now == to:
			m.moved.Add(1)
			return nil
		}
	}
	return fmt.Errorf("shard %d stays at node %d: %w", shard, from, errors.Join(failure, ctx.Err()))
}

// leader waits until a node serves the shard and all nodes know it: what is asked of a former leader is asked of the new one
// afterwards, and a repeated request may rightly be answered as such. The node must also have taken the memberships upstream
// over, since it gives no task away before. It returns the ids of all nodes, too.
func (m *Mover) leader(ctx context.Context, shard int) (leader int32, ids []int32, err error) {
	for {
		leader, ids, err = m.agreed(ctx, shard)
		if err == nil {
			return leader, ids, nil
		}
		select {
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("shard %d has no leader that all nodes know: %w", shard, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (m *Mover) agreed(ctx context.Context, shard int) (leader int32, ids []int32, err error) {
	leader = -1
	var named []int32
	var roles []string
	for _, n := range m.nodes {
		status, err := n.Node(ctx)
		if err != nil {
			return -1, nil, err
		}
		ids = append(ids, status.Node)
		for _, s := range status.Shards {
			if s.Shard != shard {
				continue
			}
			named = append(named, s.Leader)
			roles = append(roles, fmt.Sprintf("%s, serving %v, taking %d groups over", s.Role, s.Serving, s.TakingOver))
			if s.Role == "leader" && s.Serving && s.TakingOver == 0 {
				leader = status.Node
			}
		}
	}
	if leader < 0 || slices.ContainsFunc(named, func(n int32) bool { return n != leader }) {
		return -1, nil, fmt.Errorf("node %d serves it, and the nodes name %v (%s)", leader, named, strings.Join(roles, "; "))
	}
	return leader, ids, nil
}
