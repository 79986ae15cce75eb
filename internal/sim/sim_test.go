package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/streams"
)

var (
	seedFlag   = flag.Uint64("seed", 1, "seed of the simulation")
	faultsFlag = flag.Int("faults", 200, "leader partitions of the simulation; 10 with -short")
)

const (
	numGroups  = 20
	maxMembers = 6
	// settleWithin bounds the time from the end of the faults until all groups are stable: a crashed member must be
	// expired by a leader that was just elected, and its tasks move.
	settleWithin = 30 * time.Second
)

// group is a streams application.
type group struct {
	id        string
	wire      *kmsg.StreamsGroupHeartbeatRequestTopology
	sources   map[string]string // topic by subtopology
	processes []*process
	members   []*member
	// stateful is the subtopology with state, and standbys how many copies its tasks have beside.
	stateful string
	standbys int
	// state is nil where the assignor needs to know nothing of it.
	state *appState
	calm  map[*member]int // how many heartbeats of its members had been answered when the faults were over for it
}

func (g *group) source(subtopology string) string { return g.sources[subtopology] }

// simulation is one run.
type simulation struct {
	t        *testing.T
	rand     *rand.Rand
	cluster  *cluster
	observer *observer
	groups   []*group
	tasks    sync.WaitGroup // transfers, members
	ids      int
	// mostRounds is how many heartbeats of each member it took at most until a group with warm-ups was at rest.
	mostRounds int
	// pausing are members that stand still, with the time at which they go on.
	pausing map[*member]time.Time
}

func (s *simulation) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rand.Int64N(int64(most-least)))
}

func (s *simulation) anyNode(r *rand.Rand) string { return anyNodeAddress(r) }

// TestSimulation puts the cluster under leader partitions and other faults, while members join, leave, crash and commit.
// After each heal all groups must become stable and balanced, and the observer must have nothing to say. Some groups move their
// tasks by warm-ups, and their members report how far their copies are.
func TestSimulation(t *testing.T) {
	dir, seed, faults := dataDir(t), *seedFlag, *faultsFlag
	if testing.Short() {
		faults = min(faults, 10)
	}
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &simulation{t: t, rand: rand.New(rand.NewPCG(seed, 0)), observer: newObserver(), pausing: map[*member]time.Time{}}
		s.cluster = startClusterByClocks(t, dir, s.observer, seed, rand.New(rand.NewPCG(seed, 1)),
			fmt.Sprintf("group.streams.min.task.offset.interval.ms=%d", offsetInterval.Milliseconds()))
		defer func() {
			s.end()
			if t.Failed() {
				t.Logf("repeat with -seed=%d", seed)
			}
		}()
		s.form()
		for round := range faults {
			if !s.round(round) || (round%50 == 49 || round == faults-1) && !s.resting() {
				return
			}
		}
		s.agree()
		c := s.observer.counts
		if c.held == 0 {
			t.Error("no heartbeat was held")
		}
		if c.warmups == 0 && faults >= 100 {
			t.Error("no task had a warm-up")
		}
		t.Logf("%d partitions, %v of virtual time: %d entries, %d answers, of which %d were held, %d tasks granted, %d commits acknowledged, %d warm-ups, up to %d rounds until rest, %d bytes late on inner hops",
			faults, time.Since(start).Round(time.Second), c.entries, c.replies, c.held, c.grants, c.commits, c.warmups, s.mostRounds, s.cluster.hops.delivered())
	})
	t.Logf("%v of real time", time.Since(began).Round(time.Millisecond))
}

// dataDir is a folder for the nodes: in memory where there is such a place, since what is tested survives processes and
// not power cuts, and syncing a disk would be most of the time.
func dataDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "coordd-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// form waits for the nodes and makes the groups.
func (s *simulation) form() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := range nodes {
		if err := s.cluster.node(i).AwaitReady(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range numGroups {
		s.groups = append(s.groups, s.newGroup(i))
	}
	for _, g := range s.groups {
		for range 1 + s.rand.IntN(4) {
			s.join(g)
		}
	}
	s.settle("the start")
}

// newGroup makes the topics and the topology of an application: one subtopology without state, one with, or two with a
// repartition topic between.
func (s *simulation) newGroup(i int) *group {
	g := &group{id: fmt.Sprintf("app-%02d", i), sources: map[string]string{}, standbys: 1}
	in := g.id + "-in"
	warm := i%2 == 0 && i%3 > 0 // it has state
	partitions := int32(1 + s.rand.IntN(5))
	if warm {
		partitions += 3
	}
	s.cluster.up.addTopic(in, partitions)
	top := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	first := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	first.SubtopologyID, first.SourceTopics = "0", []string{in}
	g.sources["0"] = in
	changelog := func(sub *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
		g.stateful = sub.SubtopologyID
		t := kmsg.NewTopicInfo()
		t.Topic = fmt.Sprintf("%s-%s-changelog", g.id, sub.SubtopologyID)
		sub.StateChangelogTopics = append(sub.StateChangelogTopics, t)
	}
	switch i % 3 {
	case 1:
		changelog(&first)
	case 2:
		between := g.id + "-repartition"
		first.RepartitionSinkTopics = []string{between}
		second := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		t := kmsg.NewTopicInfo()
		t.Topic = between
		second.SubtopologyID, second.RepartitionSourceTopics = "1", []kmsg.TopicInfo{t}
		changelog(&second)
		g.sources["1"] = between
		top.Subtopologies = append(top.Subtopologies, second)
	}
	top.Subtopologies = append([]kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{first}, top.Subtopologies...)
	g.wire = &top
	if warm {
		s.useWarmups(i, g)
	}
	return g
}

// join adds a member to a process of the group, often a new one.
func (s *simulation) join(g *group) {
	if len(g.members) >= maxMembers {
		return
	}
	s.ids++
	if len(g.processes) == 0 || s.rand.IntN(2) == 0 {
		g.processes = append(g.processes, &process{
			id:   fmt.Sprintf("%s-process-%d", g.id, s.ids),
			host: s.cluster.net.Host(clientHost(s.rand.IntN(clientHosts))),
			old:  s.rand.IntN(5) == 0, exactlyOnce: s.rand.IntN(2) == 0,
		})
	}
	m := &member{
		process: g.processes[s.rand.IntN(len(g.processes))],
		rand:    rand.New(rand.NewPCG(s.rand.Uint64(), 0)),
	}
	m.patience = []time.Duration{time.Second, 3 * time.Second, 30 * time.Second}[s.rand.IntN(3)]
	s.begin(g, m)
}

// begin lets a member live of which the process and what is its own are known.
func (s *simulation) begin(g *group, m *member) {
	m.sim, m.group, m.id = s, g, fmt.Sprintf("m%04d", s.ids)
	m.stop, m.done, m.endpoints, m.acked = make(chan ending, 1), make(chan struct{}), -1, true
	m.ctx, m.cancel = context.WithCancel(context.Background())
	g.members = append(g.members, m)
	s.tasks.Go(m.run)
}

// churn lets a member join, or ends one; often in a group of the shard.
func (s *simulation) churn(shard int) {
	g := s.groups[s.rand.IntN(len(s.groups))]
	if s.rand.IntN(4) == 0 {
		g = s.groups[2+6*s.rand.IntN(3)] // with warm-ups
	}
	for try := s.rand.IntN(2) * 10; try > 0 && s.observer.shardOf(g.id) != shard; try-- {
		g = s.groups[s.rand.IntN(len(s.groups))]
	}
	if len(g.members) == 0 || s.rand.IntN(2) == 0 {
		s.join(g)
		return
	}
	m := g.members[s.rand.IntN(len(g.members))]
	if _, pausing := s.pausing[m]; pausing {
		return
	}
	how := leaves
	switch p := s.rand.IntN(40); {
	case p < 1:
		how = pauses
		s.pausing[m] = time.Now().Add(2*sessionTimeout + 5*time.Second)
	case p < 3:
		how = crashes
	case p < 20:
		how = leavesNow
	}
	m.stop <- how
	if how != pauses {
		g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	}
}

// round is one leader partition with what goes on beside it, the heal, and the wait until all is well again.
func (s *simulation) round(n int) bool {
	shard := s.rand.IntN(shards)
	churns, what := s.rand.IntN(4), ""
	if g := s.groups[s.rand.IntN(len(s.groups))]; g.state != nil {
		s.newBudget(g)
	}
	if s.rand.IntN(3) == 0 { // commits are under way when leader and members change
		s.cluster.up.setSlow(true)
		churns, what = 4, "slow upstream, "
		time.Sleep(s.between(200*time.Millisecond, time.Second))
	}
	if s.rand.IntN(4) == 0 {
		what += s.delayHops() + ", "
	}
	what += s.partition(shard)
	if s.rand.IntN(3) == 0 {
		what += ", " + s.nuisance()
	}
	end := time.Now().Add(s.between(300*time.Millisecond, 3*time.Second))
	for range churns {
		time.Sleep(s.between(0, 500*time.Millisecond))
		s.churn(shard)
	}
	time.Sleep(time.Until(end))
	s.cluster.heal()
	if s.rand.IntN(4) == 0 {
		s.transfer()
	}
	return s.settle(fmt.Sprintf("round %d: %s", n, what))
}

// settle waits until every group is stable and every member has what the log says.
func (s *simulation) settle(after string) bool {
	s.t.Helper()
	for _, g := range s.groups {
		g.calm = nil
	}
	deadline := s.observer.settledBy(time.Now().Add(settleWithin))
	for _, until := range s.pausing {
		if until.After(deadline) {
			deadline = until.Add(settleWithin)
		}
	}
	for {
		if broken := s.observer.broken(); len(broken) > 0 {
			for _, failure := range broken {
				s.t.Error(failure)
			}
			s.t.Errorf("after %s", after)
			return false
		}
		why, warm := s.unsettled()
		if why == "" {
			return true
		}
		if time.Now().After(deadline) && !warm || warm && time.Now().After(deadline.Add(time.Duration(warmRounds)*time.Second)) {
			s.t.Errorf("%.3fs: after %s: not settled: %s", time.Since(s.observer.start).Seconds(), after, why)
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// unsettled says what is not as it should be when there are no faults; "" when all is well. warm says that it is a group
// with warm-ups, which may take longer.
func (s *simulation) unsettled() (why string, warm bool) {
	for m, until := range s.pausing {
		if time.Now().Before(until) {
			return fmt.Sprintf("%v stands still", m), false
		}
		delete(s.pausing, m)
	}
	for _, g := range s.groups {
		reason := s.unsettledGroup(g)
		if reason == "" {
			continue
		}
		why, warm = fmt.Sprintf("group %s: %s", g.id, reason), g.state != nil
		if !warm {
			return why, false
		}
		n := s.rounds(g)
		if s.mostRounds = max(s.mostRounds, n); n > warmRounds {
			s.observer.failf("%s, after %d heartbeats of each member: %s", why, n, s.restless(g))
		}
	}
	return why, warm
}

func (s *simulation) unsettledGroup(g *group) string {
	committed := s.observer.groupState(g.id)
	if len(g.members) != committed.NumMembers() {
		return fmt.Sprintf("has %d members, %d run", committed.NumMembers(), len(g.members))
	}
	if len(g.members) == 0 {
		return ""
	}
	for _, m := range g.members {
		hard := committed.Member(m.id)
		if hard == nil || hard.Current == nil {
			return fmt.Sprintf("%v is not in the group", m)
		}
		epoch, owned, acked := m.view()
		if assigned := heldOf(hard.Current.Assigned); epoch != hard.Current.MemberEpoch || owned.String() != assigned.String() || !acked {
			return fmt.Sprintf("%v has %v at epoch %d (acknowledged: %v), should have %v at %d", m, owned, epoch, acked, assigned, hard.Current.MemberEpoch)
		}
	}
	if state := streams.StateOf(committed); state != streams.StateStable {
		return "is " + string(state)
	}
	if why := s.unbalanced(g, committed); why != "" {
		return why
	}
	if last := committed.LastJournal(); last == nil || last.Epoch != committed.Epoch() || last.SettledAtMs == 0 {
		s.observer.failf("group %s is Stable at epoch %d, but its journal ends with %+v", g.id, committed.Epoch(), last)
	}
	return ""
}

// agree waits until all replicas hold the newest committed state.
func (s *simulation) agree() {
	deadline := time.Now().Add(settleWithin)
	for time.Now().Before(deadline) {
		if s.replicasAgree() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Error("replicas do not come to the same state")
}

func (s *simulation) replicasAgree() bool {
	for i := range nodes {
		for _, shard := range s.cluster.node(i).Local().Shards {
			_, digest := s.observer.lastState(uint32(shard.Shard + 1))
			if shard.Digest != fmt.Sprintf("%x", digest) {
				return false
			}
		}
	}
	return true
}

// end lets every member crash and stops the cluster.
func (s *simulation) end() {
	for _, g := range s.groups {
		for _, m := range g.members {
			m.cancel()
		}
	}
	s.cluster.shutdown()
	s.tasks.Wait()
	synctest.Wait()
}
