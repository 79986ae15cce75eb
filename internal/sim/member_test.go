package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/internal/vnet"
	"github.com/coordd/coordd/topology"
)

// process is one Java process: members on one machine that may not hold two copies of a task.
type process struct {
	id   string
	host *vnet.Host
	// old says that its members send heartbeats of version 0, which tell nothing of their state.
	old bool
	// exactlyOnce loses the state of tasks that are not closed in peace.
	exactlyOnce bool
}

// version is of the heartbeats that its members send.
func (p *process) version() int16 {
	if p.old {
		return 0
	}
	return 1
}

// ending is how a member's life ends, or pauses.
type ending int

const (
	leaves    ending = iota // close(): commits are waited for
	leavesNow               // close() that does not wait for a commit under way
	crashes
	pauses // long enough to be expired, then it goes on
)

// member is one member: it behaves as the Java client's streams membership manager and heartbeat request manager do.
type member struct {
	sim     *simulation
	group   *group
	process *process
	id      string
	rand    *rand.Rand
	// patience is request.timeout.ms.
	patience time.Duration

	// Guarded by observer.mu.
	highest     int32 // epoch that it was told
	mayBeFenced bool
	heardAt     time.Time // when the last heartbeat that was answered without an error was sent
	answers     int       // how many were
	trace       []string

	ctx    context.Context
	cancel context.CancelFunc
	stop   chan ending
	done   chan struct{}

	// Owned by run.
	sent        time.Time // when the last heartbeat was sent
	coordinator string
	beats       *wire
	endpoints   int32
	full        bool // the next heartbeat reports all
	interval    time.Duration
	retries     int
	reports     reporter

	mu      sync.Mutex
	epoch   int32
	owned   held
	commits *committer // under way; nil when none is
	acked   bool       // what it was told last is acknowledged
	offset  int64
}

func (m *member) String() string {
	return fmt.Sprintf("member %s of %s (%s)", m.id, m.group.id, m.process.id)
}

func (m *member) view() (epoch int32, owned held, acked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, m.owned, m.acked
}

func (m *member) jitter(least, most time.Duration) time.Duration {
	return least + time.Duration(m.rand.Int64N(int64(most-least)))
}

// run lives the member's life.
func (m *member) run() {
	defer close(m.done)
	defer m.cancel()
	m.full = true
	beat := time.NewTimer(0)
	commit := time.NewTimer(m.jitter(0, time.Second))
	defer beat.Stop()
	defer commit.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case how := <-m.stop:
			if how != pauses {
				m.end(how)
				return
			}
			m.pause()
			beat.Reset(0)
		case <-commit.C:
			m.startCommit()
			commit.Reset(m.jitter(300*time.Millisecond, 1200*time.Millisecond))
		case <-beat.C:
			beat.Reset(m.beat())
		}
	}
}

// pause is a process that stands still until it is expired.
func (m *member) pause() {
	m.awaitCommit(sessionTimeout)
	m.sim.observer.mu.Lock()
	m.mayBeFenced = true
	m.sim.observer.mu.Unlock()
	m.sleep(sessionTimeout + 2*time.Second)
}

func (m *member) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.ctx.Done():
	}
}

// beat sends one heartbeat, and returns when the next one is due.
func (m *member) beat() time.Duration {
	w, err := m.connection()
	if err != nil {
		return m.lostCoordinator()
	}
	req, reported := m.request()
	m.sim.observer.note(m, "heartbeat to %s: epoch %d, tasks %v%s", m.coordinator, req.MemberEpoch, told(req.ActiveTasks, req.StandbyTasks, req.WarmupTasks), toldPositions(req))
	m.sent = time.Now()
	var resp kmsg.Response
	if m.rand.IntN(4) == 0 { // the consumer commits and fetches offsets over the same connection
		resp, err = w.interrupted(req, m.patience, m.jitter(0, m.interval+time.Millisecond))
	} else {
		resp, err = w.do(req, m.patience)
	}
	if err == errCorrelation {
		m.sim.observer.failf("%v: an answer out of order", m)
	}
	if err != nil {
		m.sim.observer.note(m, "no answer: %v", err)
		return m.lostCoordinator()
	}
	if time.Since(m.sent) > 300*time.Millisecond {
		m.sim.observer.mu.Lock()
		m.sim.observer.counts.held++
		m.sim.observer.mu.Unlock()
	}
	wait := m.answered(resp.(*kmsg.StreamsGroupHeartbeatResponse), reported)
	if wait > 0 && wait == m.interval { // counted from when the last one was sent
		wait = max(0, wait-time.Since(m.sent))
	}
	return wait
}

// lostCoordinator looks for the coordinator anew, and reports everything to it.
func (m *member) lostCoordinator() time.Duration {
	m.beats.close()
	m.beats, m.coordinator, m.full = nil, "", true
	m.retries++
	return m.jitter(50*time.Millisecond, 100*time.Millisecond)
}

// connection is the one to the coordinator.
func (m *member) connection() (*wire, error) {
	if m.beats != nil {
		return m.beats, nil
	}
	address, err := m.find()
	if err != nil {
		return nil, err
	}
	w, err := dial(m.ctx, m.process.host, address, m.clientID(), m.patience)
	if err != nil {
		return nil, err
	}
	serves, err := w.checkVersions(m.patience)
	if err == nil && !serves {
		m.sim.observer.failf("%v: %s does not serve heartbeats", m, address)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	m.coordinator, m.beats = address, w
	return w, nil
}

func (m *member) clientID() string { return "client-" + m.id }

// find asks any node for the coordinator. Some go to any node instead: every one serves every group.
func (m *member) find() (string, error) {
	if m.rand.IntN(6) == 0 {
		return m.sim.anyNode(m.rand), nil
	}
	w, err := dial(m.ctx, m.process.host, m.sim.anyNode(m.rand), m.clientID(), m.patience)
	if err != nil {
		return "", err
	}
	defer w.close()
	return findCoordinator(w, m.group.id, m.patience)
}

// request is the next heartbeat; reported says that it carries the tasks.
func (m *member) request() (req *kmsg.StreamsGroupHeartbeatRequest, reported bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	req = kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.SetVersion(m.process.version())
	req.Group, req.MemberID, req.MemberEpoch, req.EndpointInformationEpoch = m.group.id, m.id, m.epoch, m.endpoints
	req.RebalanceTimeoutMillis = -1
	if m.epoch == 0 {
		req.RebalanceTimeoutMillis = 300_000
		req.Topology = m.group.wire
		req.ProcessID = &m.process.id
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	}
	if m.epoch == 0 || m.full || !m.acked {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = wireTasks(m.owned[active]), wireTasks(m.owned[standby]), wireTasks(m.owned[warmup])
		reported = true
	}
	m.reportPositions(req)
	return req, reported
}

func wireTasks(ts []topology.Task) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for _, t := range ts {
		if n := len(out); n == 0 || out[n-1].SubtopologyID != t.Subtopology {
			ids := kmsg.NewTaskIDs()
			ids.SubtopologyID = t.Subtopology
			out = append(out, ids)
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, t.Partition)
	}
	return out
}

func tasksOf(ids []kmsg.TaskIDs) (ts []topology.Task) {
	for _, s := range ids {
		for _, p := range s.Partitions {
			ts = append(ts, topology.Task{Subtopology: s.SubtopologyID, Partition: p})
		}
	}
	return sortTasks(ts)
}

// told are the tasks of a request or answer; nil where it lists none.
func told(actives, standbys, warmups []kmsg.TaskIDs) *held {
	if actives == nil {
		return nil
	}
	return &held{tasksOf(actives), tasksOf(standbys), tasksOf(warmups)}
}

// answered does what an answer says.
func (m *member) answered(r *kmsg.StreamsGroupHeartbeatResponse, reported bool) time.Duration {
	message := ""
	if r.ErrorMessage != nil {
		message = *r.ErrorMessage
	}
	m.sim.observer.note(m, "answer: error %d, epoch %d, tasks %v", r.ErrorCode, r.MemberEpoch, told(r.ActiveTasks, r.StandbyTasks, r.WarmupTasks))
	switch code := coordinator.Code(r.ErrorCode); code {
	case coordinator.None:
		return m.told(r, reported)
	case coordinator.CoordinatorLoadInProgress:
		m.full = true
		m.retries++
		return min(time.Second, 100*time.Millisecond<<min(m.retries, 4))
	case coordinator.CoordinatorNotAvailable, coordinator.NotCoordinator:
		return m.lostCoordinator()
	case coordinator.UnknownMemberID, coordinator.FencedMemberEpoch:
		m.sim.observer.fenced(m, r.ErrorCode, message)
		m.abandon()
		return m.jitter(0, 100*time.Millisecond)
	default:
		m.sim.observer.failf("%v: fatal error %d: %s", m, code, message)
		m.cancel()
		return time.Hour
	}
}

// told takes an answer without an error: tasks that are gone are given up before the others start, and a change is
// acknowledged at once.
func (m *member) told(r *kmsg.StreamsGroupHeartbeatResponse, reported bool) time.Duration {
	m.full, m.retries = false, 0
	m.interval = time.Duration(r.HeartbeatIntervalMillis) * time.Millisecond
	m.endpoints = r.EndpointInformationEpoch
	m.reports.interval, m.reports.lag = time.Duration(r.TaskOffsetIntervalMillis)*time.Millisecond, r.AcceptableRecoveryLag
	next := told(r.ActiveTasks, r.StandbyTasks, r.WarmupTasks)
	m.sim.observer.replied(m, r.MemberEpoch, next)
	m.sim.observer.mu.Lock()
	m.mayBeFenced, m.heardAt = false, m.sent
	m.answers++
	m.sim.observer.mu.Unlock()
	m.mu.Lock()
	m.epoch = r.MemberEpoch
	if reported {
		m.acked = true
	}
	owned := m.owned
	m.mu.Unlock()
	if next == nil {
		return m.interval
	}
	gone := slices.ContainsFunc(owned[active], func(t topology.Task) bool { return !next.has(active, t) })
	if gone {
		m.awaitCommit(3 * time.Second)
		m.sleep(m.jitter(0, 30*time.Millisecond)) // closing takes a moment
	}
	if m.ctx.Err() != nil {
		return 0
	}
	m.sim.observer.holds(m, *next)
	m.runs(*next)
	m.mu.Lock()
	m.owned, m.acked = *next, false
	m.mu.Unlock()
	return 0
}

// abandon gives everything up and joins anew under the same id.
func (m *member) abandon() {
	m.mu.Lock()
	if m.commits != nil {
		m.commits.cancel()
	}
	m.epoch, m.owned, m.acked = 0, held{}, false
	m.mu.Unlock()
	m.endpoints = -1
	m.loses()
	m.sim.observer.holds(m, held{})
}

// end leaves the group, or crashes.
func (m *member) end(how ending) {
	switch how {
	case leaves:
		m.awaitCommit(3 * time.Second)
	case crashes:
		m.cancel()
		m.loses()
		m.sim.observer.holds(m, held{})
		return
	}
	m.runs(held{})
	m.mu.Lock()
	if m.commits != nil {
		m.commits.cancel()
	}
	joined := m.epoch > 0
	m.mu.Unlock()
	m.sim.observer.holds(m, held{})
	if joined {
		m.leave()
	}
}

// leave tells the group until it is heard; a client gives up after its close time-out.
func (m *member) leave() {
	for m.ctx.Err() == nil {
		w, err := m.connection()
		if err == nil {
			req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
			req.SetVersion(m.process.version())
			req.Group, req.MemberID, req.MemberEpoch, req.EndpointInformationEpoch = m.group.id, m.id, -1, m.endpoints
			req.RebalanceTimeoutMillis = -1
			var resp kmsg.Response
			if resp, err = w.do(req, m.patience); err == nil {
				switch code := coordinator.Code(resp.(*kmsg.StreamsGroupHeartbeatResponse).ErrorCode); code {
				case coordinator.None:
					m.sim.observer.left(m)
					return
				case coordinator.UnknownMemberID:
					return // an earlier try was heard
				case coordinator.CoordinatorLoadInProgress, coordinator.CoordinatorNotAvailable, coordinator.NotCoordinator:
				default:
					m.sim.observer.failf("%v: fatal error %d to its leave", m, code)
					return
				}
			}
		}
		m.sleep(m.lostCoordinator())
	}
}
