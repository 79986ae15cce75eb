package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/topology"
)

// crowd are the clients of one big group, all of one rig: each sends its next heartbeat as soon as it was answered with
// something new, and when it is asked to otherwise.
type crowd struct {
	*rig
	group   string
	members []*crowdMember
	ready   []*crowdMember
	longest time.Duration // of a run of inputs
	worst   string        // what that was
	entries int
	largest int // records in an entry
}

type crowdMember struct {
	crowd *crowd
	id    string
	call  *Call
	epoch int32
	tasks topology.Tasks
	told  bool // has to acknowledge
	busy  bool
}

func newCrowd(t testing.TB, members int, tasks int32) *crowd {
	c := &crowd{rig: newRig(t), group: "big"}
	c.topics["in"] = tasks
	c.settings.MaxSize, c.settings.AssignorOffload = int32(members), true
	for i := range members {
		c.members = append(c.members, &crowdMember{crowd: c, id: fmt.Sprintf("member-%05d", i)})
	}
	return c
}

func (m *crowdMember) CallDone(call *Call) {
	m.busy = false
	h := &call.Heartbeat
	if call.Err != nil || h.Err != nil {
		m.crowd.t.Fatalf("%s: %v %v", m.id, call.Err, h.Err)
	}
	changed := h.MemberEpoch != m.epoch || h.Active != nil
	m.epoch = h.MemberEpoch
	if m.told = h.Active != nil; m.told {
		m.tasks = h.Active
	}
	if changed {
		m.crowd.ready = append(m.crowd.ready, m)
	}
}

func (m *crowdMember) submit() {
	if m.busy {
		return
	}
	m.busy = true
	r := beat(m.crowd.group, m.id, m.epoch)
	switch {
	case m.epoch == 0:
		r = join(m.crowd.group, m.id)
	case m.told:
		r = report(m.crowd.group, m.id, m.epoch, m.tasks)
	}
	m.call = &Call{Client: client, Request: r, Done: m}
	m.crowd.Submit(m.crowd.now, m.call)
}

// run is one run of inputs, as the owner of a shard makes it.
func (c *crowd) run(what string, f func()) {
	began := time.Now()
	f()
	c.Flush()
	if took := time.Since(began); took > c.longest {
		c.longest, c.worst = took, what
	}
}

// all has every member send a heartbeat, in runs of at most 512.
func (c *crowd) all(members []*crowdMember) {
	c.proofAt = c.now
	for len(members) > 0 {
		n := min(512, len(members))
		c.run("calls", func() {
			for _, m := range members[:n] {
				m.submit()
			}
		})
		members = members[n:]
	}
}

// step lets one thing happen: a commit, a computed target, answers that are due, or time. It says whether anything did.
func (c *crowd) step() bool {
	c.proofAt = c.now
	switch {
	case c.inflight != nil:
		c.entries++
		c.largest = max(c.largest, len(c.proposed[len(c.proposed)-1].Records))
		c.run("commit", func() { c.Committed(c.now, c.inflight.id) })
	case len(c.foreign) > 0:
		c.foreign = nil
		c.run("foreign", func() { c.ForeignChecked(c.now, c.group, noForeign, nil) })
	case len(c.ready) > 0:
		ready := c.ready
		c.ready = nil
		c.all(ready)
	case c.wakeAt != 0 && c.wakeAt <= c.now:
		c.wakeAt = 0
		c.run("tick", func() { c.Tick(c.now) })
	case len(c.jobs) > 0:
		j := c.jobs[0]
		c.jobs = c.jobs[1:]
		target := j.run.Run()
		c.run("target", func() { c.Computed(c.now, j.op, target) })
	default:
		return false
	}
	return true
}

// settle lets everything happen, with rounds of heartbeats, until the group is Stable.
func (c *crowd) settle() {
	for range 20 {
		for c.step() {
		}
		if g := c.committed.Group(c.group); streams.StateOf(g) == streams.StateStable && g.NumMembers() == len(c.members) {
			return
		}
		c.now += 1000
		c.all(c.members)
	}
	c.t.Fatalf("the group is %s with %d members", streams.StateOf(c.committed.Group(c.group)), c.committed.Group(c.group).NumMembers())
}

// check: every member has its whole share, and every task is active once.
func (c *crowd) check(tasks int) {
	owner := map[topology.Task]string{}
	low, high := tasks, 0
	for m := range c.committed.Group(c.group).Members() {
		if !m.Current.Assigned.SameTasks(m.Target.Assignment) {
			c.t.Fatalf("%s does not have its target", m.ID)
		}
		for task := range m.Current.Assigned.Active.All() {
			if other, ok := owner[task]; ok {
				c.t.Fatalf("%v is active on %s and %s", task, other, m.ID)
			}
			owner[task] = m.ID
		}
		n := m.Current.Assigned.Active.Len()
		low, high = min(low, n), max(high, n)
	}
	if len(owner) != tasks || high-low > 1 {
		c.t.Fatalf("%d of %d tasks are active; %d to %d a member", len(owner), tasks, low, high)
	}
}

func TestFiveThousandMembersJoinAtOnce(t *testing.T) {
	members := 5000
	if testing.Short() {
		members = 1000
	}
	c := newCrowd(t, members, int32(2*members))
	c.all(c.members)
	c.settle()
	c.check(2 * members)
	if state := c.replay(); state.Digest() != c.committed.Digest() {
		t.Fatal("the log gives another state")
	}
	t.Logf("%d entries of at most %d records; longest run of inputs %v (%s)", c.entries, c.largest, c.longest, c.worst)
}

// replay evolves a new state by the log.
func (c *crowd) replay() fsm.State {
	state := fsm.NewState()
	for _, e := range c.proposed {
		next, err := state.EvolveAll(e.Records)
		if err != nil {
			c.t.Fatal(err)
		}
		state = next
	}
	return state
}

// A crowd that waits for its turn leaves half of each batch to others.
func TestCrowdLeavesRoomForOthers(t *testing.T) {
	c := newCrowd(t, 1000, 2000)
	c.joined("other", "x")
	c.all(c.members)
	c.ForeignChecked(c.now, c.group, noForeign, nil)
	c.Flush()
	if len(c.queue) < 500 {
		t.Fatalf("only %d wait", len(c.queue))
	}
	_, joined := c.send(join("other", "y"))
	for range 2 {
		c.Committed(c.now, c.inflight.id)
		c.Flush()
	}
	if !joined.done || len(c.queue) < 500 {
		t.Fatalf("joined %v while %d of the crowd wait", joined.done, len(c.queue))
	}
}
