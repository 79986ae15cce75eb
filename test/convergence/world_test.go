package convergence

import (
	"fmt"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

// The simulated app and its machines. Times are in milliseconds.
const (
	tickMs = 100

	threadsPerProcess = 2

	changelogRecords   = 1_000_000 // in each changelog partition when a scenario begins
	growthPerSecond    = 100       // of a changelog whose task is processed, in an app that has something to do
	restoredPerSecond  = 50_000    // records that a process restores, all its tasks together
	applyMs            = int64(100)
	revokeMs           = int64(500) // to commit and close an active task
	endKnownMs         = 500        // until a thread knows the end of a changelog that it reads
	threadStartMs      = 100        // from the start of a thread to that of the next
	checkpointMs       = 30_000     // commit.interval.ms
	cleanupDelayMs     = 600_000    // state.cleanup.delay.ms
	rebalanceTimeoutMs = 300_000    // max.poll.interval.ms
)

// world is a group with its processes, in virtual time.
type world struct {
	group     *group
	now       int64
	processes []*process
	tasks     []topology.Task // those with state
	ends      map[topology.Task]int64
	growth    int64 // records a second of a changelog whose task is processed
	actives   int   // all tasks
	measured  measures
	// processors is who processes each task with state; changed says that a thread runs other tasks than a moment ago.
	processors map[topology.Task]*member
	changed    bool
}

func newWorld(settings coordinator.GroupSettings, a assignor.Assignor, numStateless, numStateful int32) *world {
	w := &world{
		group: newGroup(settings, a, numStateless, numStateful), now: 1_000_000, ends: map[topology.Task]int64{}, growth: growthPerSecond,
		actives: int(numStateless + numStateful),
	}
	for p := range numStateful {
		t := topology.Task{Subtopology: stateful, Partition: p}
		w.tasks = append(w.tasks, t)
		w.ends[t] = 0
	}
	w.measured.begin(w)
	return w
}

// start starts a process that is new or has ended.
func (w *world) start(p *process, withState bool) {
	if p.starts == 0 {
		w.processes = append(w.processes, p)
	}
	p.start(w.now, withState)
	for _, m := range p.members {
		m.world = w
	}
}

// stop ends a process in good order: its threads commit and leave the group.
func (w *world) stop(p *process) error {
	members := p.members
	p.end(false)
	for _, m := range members {
		if m.epoch == streams.JoinEpoch {
			continue
		}
		r, err := w.group.heartbeat(w.now, &streams.HeartbeatRequest{
			Version: 1, GroupID: groupID, MemberID: m.id, MemberEpoch: streams.LeaveEpoch, EndpointEpoch: -1, RebalanceTimeoutMs: -1,
		})
		if err != nil {
			return err
		}
		if r.Err != nil {
			return fmt.Errorf("%s cannot leave: %w", m.id, r.Err)
		}
	}
	return nil
}

// kill ends a process at once. The leader sees the connections of its members end.
func (w *world) kill(p *process) {
	for _, m := range p.members {
		w.group.disconnected(w.now, m.id)
	}
	p.end(true)
}

// failover gives the group another leader. Clients report all that they have after the error that tells them.
func (w *world) failover() {
	w.group.failover(w.now)
	for m := range w.members() {
		m.report = m.epoch != streams.JoinEpoch
		m.sentOffsets, m.sentEnds = neverSent, neverSent
	}
}

// neverSent are positions that no client has.
var neverSent = positions{topology.Task{Partition: -1}: 0}

// members yields the threads that live.
func (w *world) members() func(yield func(*member) bool) {
	return func(yield func(*member) bool) {
		for _, p := range w.processes {
			for _, m := range p.members {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// run lets time pass.
func (w *world) run(ms int64) error {
	for end := w.now + ms; w.now < end; {
		if err := w.tick(); err != nil {
			return fmt.Errorf("at %d ms: %w", w.now, err)
		}
	}
	return nil
}

func (w *world) tick() error {
	w.now += tickMs
	if err := w.group.timers(w.now); err != nil {
		return err
	}
	for m := range w.members() {
		if err := m.step(w.now); err != nil {
			return err
		}
	}
	w.work()
	w.processors = w.processing()
	return w.measured.look(w)
}

// work lets processes process, restore and write down what they have.
func (w *world) work() {
	for t, m := range w.processors {
		if !m.process.alive || m.process.copies[t] == nil {
			continue
		}
		w.ends[t] += w.growth * tickMs / 1000
		m.process.disk[t].pos = w.ends[t]
	}
	for _, p := range w.processes {
		if !p.alive {
			continue
		}
		w.measured.restored += p.read(restoredPerSecond*tickMs/1000, w.ends)
		p.clean(w.now)
		if w.now%checkpointMs == 0 {
			p.checkpoint()
		}
	}
}

// processing is who processes each task with state now.
func (w *world) processing() map[topology.Task]*member {
	out := make(map[topology.Task]*member, len(w.tasks))
	for m := range w.members() {
		for t := range m.running.Active.All() {
			if t.Subtopology == stateful && m.processes(t) {
				out[t] = m
			}
		}
	}
	return out
}

// settled says whether the group has come to rest: everybody has what the target says, there are no warm-ups, and every copy has
// caught up.
func (w *world) settled() bool {
	g := w.group.hard()
	if g == nil || streams.StateOf(g) != streams.StateStable {
		return false
	}
	n := 0
	for m := range w.members() {
		n++
		h := g.Member(m.id)
		if h == nil || h.Target == nil || m.applyAt != 0 || m.report || !h.Target.Assignment.Warmup.IsEmpty() ||
			!m.running.SameTasks(h.Current.Assigned) || !m.running.SameTasks(h.Target.Assignment) {
			return false
		}
		for t := range m.stateful() {
			if m.process.copies[t].restoring {
				return false
			}
		}
	}
	return n == g.NumMembers()
}

// How long a group must be at rest to count as settled, and how long that may take.
const (
	restMs    = 150_000
	patientMs = 3_600_000
)

// settle lets time pass until the group has been at rest for a while; it returns when that began.
func (w *world) settle() (since int64, err error) {
	var epoch int32
	for end := w.now + patientMs; w.now < end; {
		if err := w.tick(); err != nil {
			return 0, fmt.Errorf("at %d ms: %w", w.now, err)
		}
		g := w.group.hard()
		switch {
		case !w.settled():
			since = 0
		case since == 0 || epoch != g.Epoch():
			since, epoch = w.now, g.Epoch()
		case w.now-since >= restMs:
			return since, nil
		}
	}
	return 0, fmt.Errorf("not settled after %d s: %s", patientMs/1000, w.show())
}

// quiet waits until the group is at rest and shows that its standbys have caught up, as somebody does who restarts one process
// after the other. Where there is nothing to process that is never shown, and he waits for two intervals of reports.
func (w *world) quiet() error {
	since := int64(0)
	for end := w.now + patientMs; w.now < end; {
		if err := w.run(1000); err != nil {
			return err
		}
		switch {
		case !w.settled():
			since = 0
		case since == 0:
			since = w.now
			fallthrough
		default:
			if w.shown() || w.now-since >= 2*int64(w.group.settings.TaskOffsetIntervalMs) {
				return nil
			}
		}
	}
	return fmt.Errorf("not settled after %d s: %s", patientMs/1000, w.show())
}

// shown says whether every standby has reported that it is caught up.
func (w *world) shown() bool {
	for m := range w.group.hard().Members() {
		soft := w.group.soft.Members[m.ID]
		for t := range m.Current.Assigned.Standby.All() {
			at, known := find(soft.TaskOffsets, t)
			end, ok := find(soft.TaskEndOffsets, t)
			if !known || !ok || end-at > w.group.settings.AcceptableRecoveryLag {
				return false
			}
		}
	}
	return true
}

func find(list []streams.TaskOffset, t topology.Task) (int64, bool) {
	for _, o := range list {
		if o.Task == t {
			return o.Offset, true
		}
	}
	return 0, false
}

// show prints who has what, for people.
func (w *world) show() string {
	g := w.group.hard()
	s := fmt.Sprintf("%s, epoch %d", streams.StateOf(g), g.Epoch())
	for m := range g.Members() {
		s += fmt.Sprintf("\n  %s at %d: %s; target %s", m.ID, m.Current.MemberEpoch, showTasks(m.Current.Assigned), showTasks(m.Target.Assignment))
	}
	for _, c := range w.group.causes {
		s += "\n  " + c
	}
	return s
}

func showTasks(a topology.Assignment) (s string) {
	for i, role := range roles(a) {
		if role.IsEmpty() {
			continue
		}
		s += [...]string{"active", " standby", " warmup"}[i]
		for t := range role.All() {
			s += fmt.Sprintf(" %s_%d", t.Subtopology, t.Partition)
		}
	}
	return s
}
