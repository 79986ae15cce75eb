package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// disconnectTimeout is group.streams.disconnect.timeout.ms of the test, two heartbeat intervals.
	disconnectTimeout = 2 * time.Second
	// clientPatience is request.timeout.ms of its members: for so long they wait for a node that died without a word.
	clientPatience = 4 * time.Second
	// slack is what a removal may take beside its time-out, the log and the poll of the test included.
	slack = 500 * time.Millisecond
)

// disconnects is a group whose members' processes end while leaders change.
type disconnects struct {
	*simulation
	group *group
}

func (d *disconnects) add() {
	d.ids++
	id := fmt.Sprintf("%s-process-%d", d.group.id, d.ids)
	d.begin(d.group, &member{
		process:  &process{id: id, host: d.cluster.net.Host(clientHost(d.ids % clientHosts))},
		rand:     rand.New(rand.NewPCG(uint64(d.ids), 0)),
		patience: clientPatience,
	})
}

// crash ends a process without a leave: its connections are closed, as an operating system does.
func (d *disconnects) crash() (*member, time.Time) {
	m := d.group.members[0]
	d.group.members = d.group.members[1:]
	m.stop <- crashes
	<-m.done
	return m, time.Now()
}

// awaitRemoval waits until the member is out of the group, and returns when. All others must stay in it.
func (d *disconnects) awaitRemoval(gone *member) time.Time {
	d.t.Helper()
	for deadline := time.Now().Add(2 * sessionTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		g := d.observer.groupState(d.group.id)
		for _, m := range d.group.members {
			if g.Member(m.id) == nil {
				d.t.Fatalf("%v was removed; it lives", m)
			}
		}
		if g.Member(gone.id) == nil {
			return time.Now()
		}
	}
	d.t.Fatalf("%v stays in the group", gone)
	return time.Time{}
}

// TestDisconnectTimeoutOverLeaders: a leader that dies takes with it what it knew of ended connections. The next one cannot
// tell members whose process has ended from those that still wait for an answer of the dead node, and gives all a full
// session time-out: nobody who lives is removed. A planned transfer hands the time over.
func TestDisconnectTimeoutOverLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, rand: rand.New(rand.NewPCG(1, 0)), observer: newObserver(), pausing: map[*member]time.Time{}}
		s.cluster = startCluster(t, dir, s.observer, 1, fmt.Sprintf("group.streams.disconnect.timeout.ms=%d", disconnectTimeout.Milliseconds()))
		defer s.end()
		awaitNodes(t, s.cluster)
		d := &disconnects{s, s.newGroup(0)}
		s.groups = append(s.groups, d.group)
		for range 6 {
			d.add()
		}
		settle := func(after string) {
			t.Helper()
			time.Sleep(30 * time.Second) // leaders are spread over the nodes, and every member has found its own
			if !s.settle(after) {
				t.FailNow()
			}
		}
		settle("the start")
		shard := s.observer.shardOf(d.group.id)

		gone, crashed := d.crash()
		within(t, "with the same leader", d.awaitRemoval(gone).Sub(crashed), disconnectTimeout, disconnectTimeout+slack)

		// The dead node answers nobody and resets no connection for longer than the disconnect time-out.
		settle("a crash")
		gone, _ = d.crash()
		time.Sleep(disconnectTimeout / 4)
		leader, died := s.cluster.leader(shard), time.Now()
		s.cluster.restart(leader, true, 3*disconnectTimeout)
		awaitLeader(t, s.cluster, shard, leader)
		elected := time.Now()
		if elected.Sub(died) > disconnectTimeout {
			t.Fatalf("elected after %v", elected.Sub(died))
		}
		removed := d.awaitRemoval(gone)
		within(t, "after its leader died, too", removed.Sub(died), sessionTimeout, elected.Sub(died)+sessionTimeout+slack)
		s.cluster.heal()
		awaitNodes(t, s.cluster)

		const tries = 5
		for try := 1; ; try++ {
			d.add()
			settle("a join")
			gone, crashed = d.crash()
			time.Sleep(disconnectTimeout / 4) // the leader has seen it
			leader := s.cluster.leader(shard)
			to := (leader + 1) % nodes
			err := s.cluster.node(leader).Transfer(context.Background(), shard, int32(to))
			awaitLeader(t, s.cluster, shard, -1)
			handed := err == nil && s.cluster.leader(shard) == to
			after := d.awaitRemoval(gone).Sub(crashed)
			if handed {
				within(t, "after a planned transfer", after, disconnectTimeout, disconnectTimeout+time.Second+slack)
				break
			}
			if try == tries {
				t.Fatalf("no planned transfer reached the node that was asked to lead: %v", err)
			}
		}
		settle("a transfer")
		if failures := s.observer.broken(); len(failures) > 0 {
			t.Error(failures)
		}
	})
}

func within(t *testing.T, when string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s the member was removed after %v, not between %v and %v", when, took, least, most)
	}
}
