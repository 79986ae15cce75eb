package streams

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// PlanInput is a change of a group that somebody wants to look at before it is made. All of it happens at once: members that come
// or go one after the other may end up with other tasks.
type PlanInput struct {
	// Add is the number of new processes, with Threads members each, the client tags Tags and the rack Rack ("" for none); they have
	// no state. Threads 0 is as many as most processes of the group have.
	Add, Threads int
	Tags         map[string]string
	Rack         string
	// Remove are ids of members, instances or processes that leave. What they had on disk goes with them.
	Remove []string
	// Settings and Assignor are those that the group would have; nil: as they are.
	Settings *coordinator.GroupSettings
	Assignor assignor.Assignor
}

const (
	// maxPlanAdded bounds the members that a plan adds.
	maxPlanAdded = 10_000
	// maxPlanSteps bounds the steps of a plan, and maxPlanMoves the moves that it lists.
	maxPlanSteps = 1000
	maxPlanMoves = 20_000
)

// Plan is what a change of a group would move. It is what the assignor that runs then makes of the same input, so that it can be
// wrong only by what changes until then, and by what clients do not report.
type Plan struct {
	// Epoch is the group epoch for which it was computed, and State the group's state then.
	Epoch, AssignmentEpoch, TopologyEpoch int32
	State                                 GroupState
	// Assignor is the name of the assignor that computed it, and Threads the members of each added process.
	Assignor string
	Threads  int
	// Members are those of before and after, by id. Assignments of before are the stored targets, which members are on the way to.
	Members []PlanMember
	// Steps are the targets, one after the other: the first follows the change, and each further one comes when the warm-ups of
	// the one before have caught up.
	Steps []PlanStep
	// Cut says that further steps follow that were not computed.
	Cut bool
	// Stands says that all members keep what they have until the topics of the group's new topology are complete.
	Stands bool
	// Stateful says that the group has tasks with state. Reporting counts the members of before that have reported offsets of
	// tasks to this leader, and LedForMs is how long it has led, -1 where the group is younger.
	Stateful  bool
	Reporting int
	LedForMs  int64
	// MissingTags are the client tags by which the group spreads standbys and that the added processes lack.
	MissingTags []string
	// Lacking are such tags that members of before, of those that stay, lack.
	Lacking []TagLack
	// OffsetIntervalMs is how often members report offsets.
	OffsetIntervalMs int32
}

// TagLack is a client tag that Members of Of members lack.
type TagLack struct {
	Tag         string
	Members, Of int
}

// PlanMember is a member before and after a plan.
type PlanMember struct {
	ID, ProcessID, InstanceID, ClientID, Host string
	Added, Removed                            bool
	Before, After                             topology.Assignment
}

// PlanStep is one target of a plan.
type PlanStep struct {
	// Moved counts the tasks that somebody gets in a role that he did not have them in, by role, and Dropped those that nobody gets
	// instead of who had them.
	Moved   [3]int
	Dropped int
	// Moves are in the order of roles and tasks; there may be fewer than Moved and Dropped count.
	Moves []PlanMove
	// Underway are the warm-ups that the first step leaves where they are under way before it. They are no moves.
	Underway []PlanMove
	// Records are the changelog records that have to be restored, as far as that is known, and Unknown counts the moves and the
	// warm-ups under way of which it is not. ActiveRecords and ActiveUnknown are the part of active tasks.
	Records, ActiveRecords int64
	Unknown, ActiveUnknown int
}

// PlanMove is one task that gets another holder. From is "" where nobody gives it up, To where nobody gets it.
type PlanMove struct {
	Task     topology.Task
	Role     record.TaskRole
	From, To string
	Restore  Restore
	// Records is how many changelog records the receiving process lacks, -1 where that is not known.
	Records int64
}

// Restore says what the receiver of a task has to restore.
type Restore uint8

// What there is to restore.
const (
	RestoreNothing  Restore = iota // no state, or nobody receives it
	RestoreCaughtUp                // it is within the acceptable recovery lag
	RestoreBehind                  // it has a copy that is further behind
	RestoreScratch                 // it has no copy
	RestoreUnknown                 // it did not report
)

// PlanJob is a plan to be computed from an immutable snapshot of a group.
type PlanJob struct {
	in     PlanInput
	target *TargetJob
	plan   Plan
}

// NewPlanJob takes the snapshot that a plan is computed from. soft may be nil. It refuses with GROUP_ID_NOT_FOUND, with
// STREAMS_INVALID_TOPOLOGY a group whose topology or topics give no tasks, and with COORDINATOR_NOT_AVAILABLE where the topics are
// not known yet.
func NewPlanJob(g *fsm.Group, soft *Soft, env *Env, groupID string, in PlanInput) (*PlanJob, *coordinator.Error) {
	if g == nil {
		return nil, coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", groupID)
	}
	if g.Topology == nil {
		return nil, coordinator.Errorf(coordinator.StreamsInvalidTopology, "Group %s has no topology yet: the first member that joins brings it.", groupID)
	}
	if soft == nil {
		soft = NewSoft()
	}
	changed := *env
	if in.Settings != nil {
		changed.Settings, changed.Assignor = in.Settings, in.Assignor
	}
	topics, err := configured(soft, g, g.Topology, env)
	if err != nil {
		return nil, err
	}
	line := lineageOf(g)
	validated := line.validated(groupMetadata(g).ValidatedTopologyEpoch, topics.Configured)
	_, stands := line.standing(validated, topics.Configured)
	if !stands && !topics.Configured.Ready() {
		return nil, coordinator.Errorf(coordinator.StreamsInvalidTopology, "Group %s has no tasks as long as its topics do not fit: %s", groupID, topics.Configured.Problem.Error())
	}
	j := &PlanJob{in: in, plan: Plan{
		Epoch: g.Epoch(), AssignmentEpoch: g.AssignmentEpoch(), TopologyEpoch: g.Topology.Epoch, State: StateOf(g),
		Assignor: changed.Assignor.Name(), Stands: stands, LedForMs: -1, OffsetIntervalMs: changed.Settings.TaskOffsetIntervalMs,
	}}
	if soft.electedAt != 0 {
		j.plan.LedForMs = max(0, env.Now-soft.electedAt)
	}
	j.target = newTargetJob(targetInput{group: g, groupID: g.ID, soft: soft, env: &changed, topics: topics.Configured, epoch: g.Epoch(),
		line: &line, validated: validated})
	return j, nil
}

// remove finds who leaves.
func (r *planRun) remove(g *fsm.Group, byProcess map[string][]string) *coordinator.Error {
	r.gone = map[string]bool{}
	for _, id := range r.in.Remove {
		if g.Member(id) != nil {
			r.gone[id] = true
		} else if holder, ok := g.Static(id); ok {
			r.gone[holder] = true
		} else if members := byProcess[id]; len(members) > 0 {
			for _, m := range members {
				r.gone[m] = true
			}
		} else {
			return coordinator.Errorf(coordinator.InvalidRequest, "Group %s has no member, instance or process %q; %s.", g.ID, id, processList(byProcess))
		}
	}
	return nil
}

// processes are the ids of the group's members by process.
func processes(g *fsm.Group) map[string][]string {
	list := map[string][]string{}
	for m := range g.Members() {
		list[metaOf(m).ProcessID] = append(list[metaOf(m).ProcessID], m.ID)
	}
	return list
}

// processList tells people which processes a group has, of many only some.
func processList(byProcess map[string][]string) string {
	const maxProcesses, maxMembers = 10, 8
	if len(byProcess) == 0 {
		return "it has no members"
	}
	var texts []string
	for _, p := range slices.Sorted(maps.Keys(byProcess)) {
		if len(texts) == maxProcesses {
			texts = append(texts, fmt.Sprintf("and %d more", len(byProcess)-maxProcesses))
			break
		}
		members := byProcess[p]
		more := ""
		if len(members) > maxMembers {
			more = fmt.Sprintf(" and %d more", len(members)-maxMembers)
			members = members[:maxMembers]
		}
		texts = append(texts, p+" (members "+strings.Join(members, ", ")+more+")")
	}
	return "it has the processes " + strings.Join(texts, "; ")
}

// add makes the members that come.
func (r *planRun) add(g *fsm.Group, byProcess map[string][]string, settings *coordinator.GroupSettings) *coordinator.Error {
	threads := r.in.Threads
	if threads == 0 {
		threads = usualThreads(byProcess)
	}
	switch {
	case r.in.Add < 0 || threads < 1 || r.in.Add > maxPlanAdded || threads > maxPlanAdded || r.in.Add*threads > maxPlanAdded:
		return coordinator.Errorf(coordinator.InvalidRequest, "%d processes of %d threads cannot be added in a plan; allowed are 0 processes or more, 1 thread or more, "+
			"and %d members in all.", r.in.Add, threads, maxPlanAdded)
	case r.in.Threads != 0 && r.in.Add == 0:
		return coordinator.Errorf(coordinator.InvalidRequest, "The number of threads is that of added processes: add at least one.")
	case (len(r.in.Tags) > 0 || r.in.Rack != "") && r.in.Add == 0:
		return coordinator.Errorf(coordinator.InvalidRequest, "Client tags and racks are those of added processes: add at least one.")
	}
	after := g.NumMembers() - len(r.gone) + r.in.Add*threads
	switch {
	case g.NumMembers() == 0 && after == 0:
		return coordinator.Errorf(coordinator.InvalidRequest, "Group %s has no members: add processes to see what they would get.", g.ID)
	case after == 0:
		return coordinator.Errorf(coordinator.InvalidRequest, "Nobody would be left in group %s, and no task would run.", g.ID)
	case settings.MaxSize > 0 && after > int(settings.MaxSize) && r.in.Add > 0:
		return coordinator.Errorf(coordinator.InvalidRequest, "Group %s would have %d members; group.streams.max.size allows %d.", g.ID, after, settings.MaxSize)
	}
	if r.in.Add == 0 {
		return nil
	}
	r.plan.Threads = threads
	r.added = newMembers(g, byProcess, r.in, threads)
	for _, tag := range settings.RackAwareTags {
		if _, ok := r.in.Tags[tag]; !ok {
			r.plan.MissingTags = append(r.plan.MissingTags, tag)
		}
	}
	return nil
}

// usualThreads is how many members most processes have, of two such numbers the larger one.
func usualThreads(byProcess map[string][]string) int {
	counts, usual := map[int]int{}, 1
	for _, members := range byProcess {
		counts[len(members)]++
	}
	for n, often := range counts {
		if often > counts[usual] || often == counts[usual] && n > usual {
			usual = n
		}
	}
	return usual
}

// newMembers are members of processes new-1, new-2 and so on, under names that the group does not have.
func newMembers(g *fsm.Group, byProcess map[string][]string, in *PlanInput, threads int) []assignor.Member {
	prefix := "new-"
	taken := func() bool {
		for m := range g.Members() {
			if strings.HasPrefix(m.ID, prefix) {
				return true
			}
		}
		for p := range byProcess {
			if strings.HasPrefix(p, prefix) {
				return true
			}
		}
		return false
	}
	for taken() {
		prefix = "new" + prefix
	}
	var rack *string
	if in.Rack != "" {
		rack = &in.Rack
	}
	var list []assignor.Member
	for p := range in.Add {
		process := fmt.Sprintf("%s%d", prefix, p+1)
		for t := range threads {
			list = append(list, assignor.Member{ID: fmt.Sprintf("%s-%d", process, t+1), ProcessID: process, RackID: rack, Tags: in.Tags})
		}
	}
	return list
}

// member tells who a member of a plan is.
func (r *planRun) member(m *assignor.Member) PlanMember {
	p := PlanMember{ID: m.ID, ProcessID: m.ProcessID, Removed: r.gone[m.ID]}
	if m.InstanceID != nil {
		p.InstanceID = *m.InstanceID
	}
	if known := r.target.group.Member(m.ID); known != nil {
		p.ClientID, p.Host = metaOf(known).ClientID, metaOf(known).ClientHost
	} else {
		p.Added = true
	}
	return p
}

func compareMoves(a, b PlanMove) int {
	return cmp.Or(cmp.Compare(a.Role, b.Role), topology.CompareIDs(a.Task.Subtopology, b.Task.Subtopology), cmp.Compare(a.Task.Partition, b.Task.Partition),
		cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
}
