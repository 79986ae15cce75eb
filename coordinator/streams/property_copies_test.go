package streams

import (
	"cmp"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// copyRounds bounds how many rounds of heartbeats a group whose assignor uses warm-ups needs to settle once nothing happens and
// members restore any state within a round: each step of its moves takes some.
const copyRounds = 60

// copyModel is the state of tasks on the disks of processes. Members restore some records with each heartbeat, and report with
// every so many heartbeats; those of processes that never report need not.
type copyModel struct {
	ends  map[topology.Task]int64
	disks map[string]map[topology.Task]int64
	rates []int64
	every int
	beats int
	never map[string]bool
}

// useWarmups has the group choose any assignor, and its clients restore and report.
func (s *simulation) useWarmups() {
	s.copies = &copyModel{
		ends: map[topology.Task]int64{}, disks: map[string]map[topology.Task]int64{},
		rates: rapid.SampledFrom([][]int64{{0, 3000, 30000}, {0, 0, 0, 0, 30000}, {3000}, {30000}}).Draw(s.t, "restored"),
		every: rapid.IntRange(1, 3).Draw(s.t, "reported"),
		never: map[string]bool{rapid.SampledFrom([]string{"", "p1", "p2"}).Draw(s.t, "never"): true},
	}
	s.settings.TaskOffsetIntervalMs = rapid.SampledFrom([]int32{2000, 60000}).Draw(s.t, "offsets")
	s.settings.AssignorName = rapid.SampledFrom([]string{"sticky", "highly_available", "highly_available", "auto"}).Draw(s.t, "assignor")
	s.settings.NumWarmupReplicas = rapid.Int32Range(0, 3).Draw(s.t, "warmups")
	s.settings.AcceptableRecoveryLag = rapid.SampledFrom([]int64{0, 10000}).Draw(s.t, "lag")
	s.assign = builtinAssignor(s.settings.AssignorName)
	for _, c := range s.clients {
		c.copies = s.copies
	}
}

// changeCopies changes a setting of warm-ups, has the members process something, or loses a disk.
func (s *simulation) changeCopies() {
	if s.copies == nil {
		return
	}
	switch rapid.IntRange(0, 4).Draw(s.t, "copies") {
	case 0:
		s.settings.NumWarmupReplicas = rapid.Int32Range(0, 3).Draw(s.t, "warmups")
	case 1:
		s.settings.AssignorName = rapid.SampledFrom([]string{"sticky", "highly_available", "auto"}).Draw(s.t, "assignor")
		s.assign = builtinAssignor(s.settings.AssignorName)
	case 2:
		s.settings.AcceptableRecoveryLag = rapid.SampledFrom([]int64{0, 10000}).Draw(s.t, "lag")
	case 3:
		n := rapid.Int64Range(1, 20000).Draw(s.t, "processed")
		for t := range s.copies.ends {
			s.copies.ends[t] += n
		}
	case 4:
		delete(s.copies.disks, s.pick(true).process)
	}
}

// report puts the client's task offsets into a request: of the copies that it runs, and of what its process has on disk besides.
func (m *copyModel) report(c *simClient, req *HeartbeatRequest) {
	if m == nil || c.version < 1 || m.never[c.process[:2]] {
		return
	}
	disk := m.restore(c)
	if m.beats++; req.MemberEpoch != JoinEpoch && req.Active == nil && m.beats%m.every != 0 {
		return
	}
	req.TaskOffsets, req.TaskEndOffsets = []TaskOffset{}, []TaskOffset{}
	for _, t := range slices.SortedFunc(maps.Keys(disk), topology.Task.Compare) {
		req.TaskOffsets = append(req.TaskOffsets, TaskOffset{Task: t, Offset: disk[t]})
		if holdsStateful(&c.running, t) {
			req.TaskEndOffsets = append(req.TaskEndOffsets, TaskOffset{Task: t, Offset: m.ends[t]})
		}
	}
}

// restore takes the client's copies on by what it restores between two heartbeats.
func (m *copyModel) restore(c *simClient) map[topology.Task]int64 {
	disk := m.disks[c.process]
	if disk == nil {
		disk = map[topology.Task]int64{}
		m.disks[c.process] = disk
	}
	rate := m.rates[(m.beats+int(c.process[1]))%len(m.rates)]
	for _, role := range [...]topology.Tasks{c.running.Active, c.running.Standby, c.running.Warmup} {
		for t := range role.All() {
			if t.Subtopology != "1" {
				continue
			}
			m.ends[t] = cmp.Or(m.ends[t], 25000)
			disk[t] = min(m.ends[t], disk[t]+rate)
		}
	}
	return disk
}

// hurry has members restore anything at once and report all the time, until what it returns is called.
func (m *copyModel) hurry(s *coordinator.GroupSettings) func() {
	rates, every, interval := m.rates, m.every, s.TaskOffsetIntervalMs
	m.rates, m.every, s.TaskOffsetIntervalMs = []int64{1 << 40}, 1, 2000
	return func() { m.rates, m.every, s.TaskOffsetIntervalMs = rates, every, interval }
}

func holdsStateful(a *topology.Assignment, t topology.Task) bool {
	return t.Subtopology == "1" && hasTask(a, t)
}

// noMoves says that no task is on its way by a warm-up.
func (s *simulation) noMoves() bool {
	for m := range s.group().Members() {
		if !targetOf(m).Assignment.Warmup.IsEmpty() {
			return false
		}
	}
	return true
}
