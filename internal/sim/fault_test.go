package sim

import (
	"context"
	"fmt"
	"time"
)

// partition cuts the leader of a shard off, in one of several ways, and returns what it did.
func (s *simulation) partition(shard int) string {
	leader := s.cluster.leader(shard)
	if leader < 0 {
		leader = s.rand.IntN(nodes)
	}
	name := nodeHost(leader)
	peers := []string{nodeHost((leader + 1) % nodes), nodeHost((leader + 2) % nodes)}
	net := s.cluster.net
	switch s.rand.IntN(6) {
	case 0, 1:
		s.cluster.isolate(leader)
		return name + " from everybody"
	case 2, 3: // clients and the upstream reach it
		for _, p := range peers {
			net.Cut(name, p)
		}
		return name + " from the other nodes"
	case 4:
		for _, p := range peers {
			net.CutOneWay(name, p)
		}
		return name + " to the other nodes"
	default:
		for _, p := range peers {
			net.Refuse(name, p)
		}
		return name + " by resets from the other nodes"
	}
}

// nuisance is another fault beside a partition.
func (s *simulation) nuisance() string {
	i := s.rand.IntN(nodes)
	name := nodeHost(i)
	net := s.cluster.net
	switch s.rand.IntN(9) {
	case 0:
		net.Cut(name, nodeHost((i+1)%nodes))
		return "cut between " + name + " and the next"
	case 1:
		net.CutOneWay(nodeHost((i+1)%nodes), name)
		return "cut towards " + name
	case 2, 3:
		for k := range clientHosts {
			net.ResetConns(clientHost(k), name)
		}
		return "resets of the clients of " + name
	case 4:
		s.cluster.links[i].set(true)
		return "cut between " + name + " and the upstream"
	case 5:
		for k := range clientHosts {
			net.CutOneWay(name, clientHost(k)) // answers are lost
		}
		for k := range clientHosts {
			net.ResetConns(clientHost(k), name)
		}
		return "answers of " + name + " lost"
	case 6:
		s.cluster.restart(i, true, s.between(100*time.Millisecond, 2*time.Second))
		return "kill -9 of " + name
	case 7:
		s.cluster.restart(i, false, s.between(100*time.Millisecond, 2*time.Second))
		return "SIGTERM to " + name
	default:
		s.transfer()
		return "transfer"
	}
}

// delayHops has the inner hops that a node has open deliver late, which may go on over several rounds.
func (s *simulation) delayHops() string {
	i, late := s.rand.IntN(nodes), s.between(5*time.Second, 40*time.Second)
	s.cluster.hops.stall(i, late)
	s.observer.stalled(late)
	return fmt.Sprintf("inner hops of %s %v late", nodeHost(i), late.Round(time.Millisecond))
}

// transfer hands a random shard to another node, as the balancer does.
func (s *simulation) transfer() {
	shard := s.rand.IntN(shards)
	leader := s.cluster.leader(shard)
	to := (leader + 1 + s.rand.IntN(nodes-1)) % nodes
	n := s.cluster.node(max(leader, 0))
	if leader < 0 || n == nil {
		return
	}
	s.tasks.Go(func() { _ = n.Transfer(context.Background(), shard, int32(to)) }) // it may fail, for the network has faults
}
