package streams

import (
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Soft is what only the leader knows of a group. The shard owns it: decisions read it, [Soft.Apply] changes it. It
// ends with the leadership; [NewSoftOnElection] starts it anew.
type Soft struct {
	// Members holds an entry for each member by member id.
	Members map[string]*SoftMember
	// EndpointEpoch is the version of the interactive-query endpoints. Failover sets it to the unix seconds of the
	// election, which is above all that members have seen.
	EndpointEpoch int32
	// EndpointsStale says that a member with an endpoint is gone, or patterns match other topics, and that the next heartbeat
	// raises EndpointEpoch (Kafka leaves peers with the departed endpoint until something else changes). A failover raises it
	// anyway.
	EndpointsStale bool
	// InitialDelayUntil is when the initial rebalance delay ends, 0 when none runs. The group's marks hold it, too, so
	// that it survives a failover.
	InitialDelayUntil int64
	// AssignmentDue is when a target assignment that the assignment interval held back is to be computed, 0 when none
	// is. Failover sets it to the end of the interval.
	AssignmentDue int64
	// GraceUntil is when the group is to be looked at because its topics have not fitted for long enough, 0 when it goes by
	// the topics as they are. Failover sets it by the log.
	GraceUntil int64
	// WarmupDue is when the group's warm-ups are to be looked at, because nothing may have been reported of some for too long; 0
	// when there are none. Failover starts anew.
	WarmupDue int64
	// restoring are active tasks whose members have lost their state. Failover loses them until they are reported again.
	restoring map[topology.Task]restoring
	// Torn says that the stored targets may be of two computations, of which the later one is not whole: members keep what
	// they have until it is. Failover sets it where the assignment epoch is behind the group epoch.
	Torn bool
	// Topics is the configured topology in memory. Failover loses it; the next heartbeat computes it again.
	Topics *ConfiguredTopics
	// fastEpoch is the group epoch for which members are told the shorter heartbeat interval, fastSince since when.
	// Failover starts anew.
	fastEpoch int32
	fastSince int64
	// failedUntil is how long a failed assignor rests. Failover tries again at once.
	failedUntil int64
	// staleSince is since when computed targets have come too late, 0 when the last one did not. Failover starts anew.
	staleSince int64
	// endpoints caches the endpoint list of endpointsEpoch. Failover loses it.
	endpoints      []EndpointPartitions
	endpointsEpoch int32
	endpointsOf    *topology.Configured
	// endpointsAt is when EndpointEpoch was raised last. Failover loses it.
	endpointsAt int64
	// seenGroup is the group in which members were looked up last, and generation counts such groups: entries of the
	// generation know their member's hard state without a look into the group.
	seenGroup  *fsm.Group
	generation uint64
	// processes are the members of processesOf by process, where a decision has looked for them. Failover loses it.
	processes   map[string][]*fsm.Member
	processesOf *fsm.Group
	// missed are the members that were removed lately because nothing was heard of them, by time. Failover loses them.
	missed []missedMember
	// electedAt is when this leader was elected, 0 for a group that is younger.
	electedAt int64
}

// SoftMember is what only the leader knows of a member.
type SoftMember struct {
	// SessionDeadline is when the member is removed unless a heartbeat comes before. Failover sets it to a full
	// session time-out.
	SessionDeadline int64
	// RebalanceDeadline is when the member is removed if its epoch is still RebalanceEpoch; 0 when it has nothing to
	// revoke. Failover sets it to a full rebalance time-out.
	RebalanceDeadline int64
	RebalanceEpoch    int32
	// HoldCuts is how often a connection of the member closed while its answer was held. Failover starts anew.
	HoldCuts uint8
	// unheard says that the last answer told an epoch or tasks that no heartbeat has come back with. Failover loses it.
	unheard bool
	// Untold says that the member was moved to a newer epoch while its answer was held; its previous epoch is the one that it
	// knows. Failover loses it.
	Untold bool
	// DisconnectDeadline is when the member is removed unless a heartbeat comes before, because the connection of its last
	// one ended; 0 when it did not. Without a time-out for that it is
	// SessionDeadline as it was then. Failover clears it.
	DisconnectDeadline int64
	// lastBeat is when the last heartbeat came, lastJoin when the member joined last. Failover loses them.
	lastBeat, lastJoin int64
	// soon is from when on a heartbeat keeps the interval that the member was told when its held answer had to go before
	// its time; 0 when it was told the configured one. Failover loses it.
	soon int64
	// toldAt is when the member was told tasks that it has not acknowledged yet; 0 when there are none. Failover takes
	// that for so long ago that its next heartbeat is told them once more. repeats counts how often the same was told again since.
	toldAt  int64
	seen    *fsm.Member
	seenIn  uint64
	repeats int32
	// told is what the last answer told the member. Failover loses it; the first heartbeat then is answered at once.
	told told
	// Connection is the connection of the last heartbeat, where its end matters; 0 when it is not known. Failover loses it.
	Connection uint64
	// TaskOffsets and TaskEndOffsets are as reported last. Failover loses them until they are reported again.
	TaskOffsets, TaskEndOffsets []TaskOffset
	// old says that the last heartbeat was of version 0, whose clients report no offsets. Failover loses it.
	old bool
	// warmups are the warm-ups that the member was given. Failover has them begin anew.
	warmups []warmup
}

// ConfiguredTopics is a topology configured against the upstream's topics. It is immutable.
type ConfiguredTopics struct {
	// Topology is the identity of the topology that was configured.
	Topology *topology.Topology
	// Version is the metadata version at which Configured was computed or found still valid.
	Version uint64
	// Configured is what the group goes by, and Hash the metadata hash of the topics that it was made from.
	Hash       int64
	Configured *topology.Configured
	// Resolution is what the patterns of the topology match in Version.
	Resolution *topology.Resolution
	// Found is the topology set against the topics as they are: another one than Configured during a grace.
	Found *topology.Configured
	// Sighted is when the problem of Found was first seen by this leader (ms).
	Sighted int64
	// Since and Until are the begin and the end of the grace (ms); 0 when none runs.
	Since, Until int64
}

// SoftChange is how a decision changes the group's soft state. Zero fields change nothing.
type SoftChange struct {
	// Member is whose entry is changed (or made) by SessionDeadline, the rebalance fields and the offsets.
	Member          string
	SessionDeadline int64
	// Rebalance says what happens to the member's rebalance timer.
	Rebalance         RebalanceTimer
	RebalanceDeadline int64
	RebalanceEpoch    int32
	// TaskOffsets and TaskEndOffsets replace the member's lists unless nil.
	TaskOffsets, TaskEndOffsets []TaskOffset
	// Removed is a member whose entry is dropped, before Member's is changed.
	Removed string
	// Emptied says that the last member is gone: pending computations are dropped, also those of this change.
	Emptied bool
	// EndpointEpoch is the new endpoint epoch where EndpointsChanged.
	EndpointsChanged bool
	EndpointEpoch    int32
	EndpointsStale   bool
	// InitialDelay and Assignment arm (> 0) or clear (< 0) the group's timers.
	InitialDelay, Assignment, Grace, Warmup int64
	// Torn says that a part of a new target is written, TargetDone that the whole is.
	Torn, TargetDone bool
	// Topics replaces the configured topology.
	Topics *ConfiguredTopics

	failedUntil    int64
	staleSince     int64
	endpoints      []EndpointPartitions
	endpointsEpoch int32
	endpointsOf    *topology.Configured
	endpointsAt    int64
	entry          *SoftMember
	arrived        int64
	joins          bool // the heartbeat is a join
	fastEpoch      int32
	fastSince      int64
	told           int64 // sets (> 0) or clears (< 0) toldAt
	repeated       bool  // what was told is the same again
	seen           *fsm.Member
	seenGroup      *fsm.Group
	missed         *missedMember
	old            bool // the heartbeat is of version 0
	// warmups replaces the member's where warmupsChanged; the marks follow.
	warmups        []warmup
	warmupsChanged bool
	warmupMarks    []warmupMark
	restoring      []restoringMark
	processes      map[string][]*fsm.Member
	processesOf    *fsm.Group
}

// RebalanceTimer is what happens to a rebalance timer.
type RebalanceTimer uint8

// What happens to a rebalance timer.
const (
	RebalanceTimerKept RebalanceTimer = iota
	RebalanceTimerStarted
	RebalanceTimerCancelled
)

// NewSoft makes the soft state of a group that this leader's log just created.
func NewSoft() *Soft { return &Soft{Members: make(map[string]*SoftMember)} }

// NewSoftOnElection makes the soft state of a group that a new leader found in its log: full session time-outs for
// all members and full rebalance time-outs for those with tasks to revoke, as Kafka does after it has loaded a
// partition.
func NewSoftOnElection(g *fsm.Group, env *Env) *Soft {
	s := &Soft{
		Members:       make(map[string]*SoftMember, g.NumMembers()),
		EndpointEpoch: int32(env.Now / 1000 & 0x7fffffff),
		electedAt:     env.Now,
	}
	for m := range g.Members() {
		sm := &SoftMember{SessionDeadline: env.Now + int64(env.Settings.SessionTimeoutMs)}
		// Nobody knows whether the member got the last answer of the leader before, and a request that is given to the next
		// leader anew says nothing of its loss: its first heartbeat without a report is told its tasks, once.
		sm.toldAt, sm.repeats = max(1, env.Now-int64(env.Settings.HeartbeatIntervalMs)), maxRepeats-1
		// Who left for a while has nothing to revoke any more, whatever its state was.
		if c := currentOf(m); c.State == record.MemberUnrevokedTasks && c.MemberEpoch != StaticLeaveEpoch {
			sm.RebalanceDeadline = env.Now + int64(metaOf(m).RebalanceTimeoutMs)
			sm.RebalanceEpoch = c.MemberEpoch
		}
		for t := range currentOf(m).Assigned.Warmup.All() {
			sm.warmups = append(sm.warmups, warmup{Task: t, since: env.Now})
			s.WarmupDue = env.Now + warmupPatience(env.Settings)
		}
		s.Members[m.ID] = sm
	}
	if g.NumMembers() > 0 && g.Epoch() > g.AssignmentEpoch() {
		s.Torn = true
	}
	s.resumeAssignment(g, env)
	if since := graceSince(g); since != 0 {
		s.GraceUntil = min(since, env.Now) + int64(env.Settings.TopologyGraceMs)
	}
	return s
}

// resumeAssignment arms the timer that a failover interrupted: the initial delay where it still runs, else, where the
// assignment epoch is behind, the computation that is due now or after the assignment interval.
func (s *Soft) resumeAssignment(g *fsm.Group, env *Env) {
	// A target ends the delay, whatever the clocks say; and where they differ, nobody waits for longer than one delay.
	if until := marksOf(g).DelayUntilMs; until > env.Now && targetTimestamp(g) == 0 {
		s.InitialDelayUntil = min(until, env.Now+int64(env.Settings.InitialRebalanceDelayMs))
	}
	if g.NumMembers() > 0 && g.Epoch() > g.AssignmentEpoch() && s.InitialDelayUntil <= env.Now {
		s.AssignmentDue = max(env.Now, assignmentDue(g, nil, env))
	}
}

// Apply makes the change of a decision. It comes before the next decision of the group.
func (s *Soft) Apply(c *SoftChange) {
	if c.Removed != "" {
		delete(s.Members, c.Removed)
		s.forgetRestoring(c.Removed)
	}
	if c.missed != nil {
		s.addMissed(c.missed)
	}
	if c.Emptied {
		s.AssignmentDue, s.WarmupDue, s.Torn, s.staleSince = 0, 0, false, 0
		s.restoring = nil
	}
	var back *SoftMember
	if c.Member != "" {
		if m := s.applyMember(c); c.arrived != 0 && m.disconnected() {
			back = m
		}
	}
	s.applyCopies(c)
	if c.EndpointsChanged {
		s.EndpointEpoch, s.EndpointsStale, s.endpointsAt = c.EndpointEpoch, false, c.endpointsAt
	}
	if c.EndpointsStale {
		s.EndpointsStale = true
	}
	if c.fastSince != 0 {
		s.fastEpoch, s.fastSince = c.fastEpoch, c.fastSince
	}
	if c.failedUntil != 0 {
		s.failedUntil = c.failedUntil
	}
	if c.staleSince != 0 {
		s.staleSince = c.staleSince
	}
	s.Torn = s.Torn || c.Torn
	if c.TargetDone {
		s.Torn, s.staleSince = false, 0
	}
	s.InitialDelayUntil = timer(s.InitialDelayUntil, c.InitialDelay)
	s.AssignmentDue = timer(s.AssignmentDue, c.Assignment)
	s.GraceUntil = timer(s.GraceUntil, c.Grace)
	s.WarmupDue = timer(s.WarmupDue, c.Warmup)
	if back != nil {
		s.isBack(back, c.arrived)
	}
	if c.Topics != nil {
		s.EndpointsStale = s.EndpointsStale || c.Topics.matchOthers(s.Topics)
		s.Topics = c.Topics
	}
	if c.endpoints != nil {
		s.endpoints, s.endpointsEpoch, s.endpointsOf = c.endpoints, c.endpointsEpoch, c.endpointsOf
	}
}

// Due is what a group waits for, and what its stored targets are worth.
type Due struct {
	initialDelayUntil, assignmentDue, staleSince, graceUntil, warmupDue int64
	torn                                                                bool
}

// Due is what the group waits for now.
func (s *Soft) Due() Due {
	return Due{s.InitialDelayUntil, s.AssignmentDue, s.staleSince, s.GraceUntil, s.WarmupDue, s.Torn}
}

// Restore has the group wait again for what it waited for, since the decisions made meanwhile are not in the log. A
// computation that is due earlier now stays so: it finds out what there is to do.
func (s *Soft) Restore(d Due) {
	s.InitialDelayUntil, s.Torn = d.initialDelayUntil, d.torn
	s.AssignmentDue = earlier(s.AssignmentDue, d.assignmentDue)
	s.GraceUntil = earlier(s.GraceUntil, d.graceUntil)
	s.WarmupDue = earlier(s.WarmupDue, d.warmupDue)
	if s.staleSince == 0 {
		s.staleSince = d.staleSince
	}
}

func timer(old, change int64) int64 {
	switch {
	case change > 0:
		return change
	case change < 0:
		return 0
	}
	return old
}

func (s *Soft) applyMember(c *SoftChange) *SoftMember {
	m := c.entry
	if m == nil {
		m = s.Members[c.Member]
	}
	if m == nil {
		m = &SoftMember{}
		s.Members[c.Member] = m
	}
	if c.seen != nil {
		if s.seenGroup != c.seenGroup {
			s.seenGroup = c.seenGroup
			s.generation++
		}
		m.seen, m.seenIn = c.seen, s.generation
	}
	if c.told != 0 {
		m.toldAt = timer(m.toldAt, c.told)
		m.repeats++
		if !c.repeated {
			m.repeats = 0
		}
	}
	if c.arrived != 0 {
		m.lastBeat, m.unheard, m.Untold = c.arrived, false, false
		m.old = c.old
		if c.joins {
			m.lastJoin = c.arrived
		}
	}
	if c.SessionDeadline != 0 {
		m.SessionDeadline = c.SessionDeadline
	}
	switch c.Rebalance {
	case RebalanceTimerStarted:
		m.RebalanceDeadline, m.RebalanceEpoch = c.RebalanceDeadline, c.RebalanceEpoch
	case RebalanceTimerCancelled:
		m.RebalanceDeadline, m.RebalanceEpoch = 0, 0
	}
	if c.TaskOffsets != nil {
		m.TaskOffsets = c.TaskOffsets
	}
	if c.TaskEndOffsets != nil {
		m.TaskEndOffsets = c.TaskEndOffsets
	}
	return m
}

// HeardBetween says whether a heartbeat of the member came after one time and before another.
func (s *Soft) HeardBetween(member string, after, before int64) bool {
	if s == nil {
		return false
	}
	m := s.Members[member]
	return m != nil && after < m.lastBeat && m.lastBeat < before
}

// JoinedBetween says whether the member's last join came after one time and before another.
func (s *Soft) JoinedBetween(member string, after, before int64) bool {
	if s == nil {
		return false
	}
	m := s.Members[member]
	return m != nil && after < m.lastJoin && m.lastJoin < before
}

// NextDeadline is the earliest moment at which [Expire] has something to do for the member; 0 when there is none.
// Deadlines mostly move later, so that a shard may keep one heap over (group, member) and push an entry again when it
// finds on expiry that the deadline moved. One moves earlier when a rebalance timer is started, when a connection ends, and
// when the session time-out became shorter.
func (m *SoftMember) NextDeadline() int64 {
	return earlier(earlier(m.SessionDeadline, m.RebalanceDeadline), m.DisconnectDeadline)
}

// NextDeadline is the earliest moment at which [Tick] has something to do for the group; 0 when there is none.
func (s *Soft) NextDeadline() int64 {
	return earlier(earlier(s.InitialDelayUntil, s.AssignmentDue), earlier(s.GraceUntil, s.WarmupDue))
}

func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
