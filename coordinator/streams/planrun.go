package streams

import (
	"cmp"
	"math"
	"slices"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Run computes the plan. It may be called on any goroutine and takes its time: as long as more says so there are further steps.
// What is wrong with the input is an INVALID_REQUEST; other errors are those of the assignor, or of a target that could not be
// stored.
func (j *PlanJob) Run(more func() bool) (*Plan, error) {
	r := planRun{in: &j.in, target: &j.target.input, plan: j.plan}
	byProcess := processes(r.target.group)
	if err := r.remove(r.target.group, byProcess); err != nil {
		return nil, err
	}
	if err := r.add(r.target.group, byProcess, r.target.env.Settings); err != nil {
		return nil, err
	}
	r.begin()
	for {
		goals, err := r.target.assign(&r.spec)
		if err == nil {
			err = r.checkStorable(goals)
		}
		if err != nil {
			return nil, err
		}
		first := len(r.plan.Steps) == 0 // its warm-ups may be under way already, so that it moves nothing and others follow all the same
		moved := r.step(goals)
		if !hasWarmups(goals) || !moved && !first {
			break
		}
		if len(r.plan.Steps) >= maxPlanSteps || !more() {
			r.plan.Cut = true
			break
		}
		r.catchUp(goals)
	}
	for i := range r.plan.Members {
		r.plan.Members[i].After = r.held[r.plan.Members[i].ID]
	}
	return &r.plan, nil
}

// checkStorable refuses what no target could be.
func (r *planRun) checkStorable(goals assignor.Assignment) error {
	for i := range r.spec.Members {
		id := r.spec.Members[i].ID
		if goal := goals[id]; !goal.SameTasks(r.held[id]) {
			if err := checkStorable(r.target.groupID, id, goal); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasWarmups(goals assignor.Assignment) bool {
	for _, a := range goals {
		if !a.Warmup.IsEmpty() {
			return true
		}
	}
	return false
}

// planRun is the working state of a plan.
type planRun struct {
	in     *PlanInput
	target *targetInput
	plan   Plan
	spec   assignor.Spec
	// gone are the members that leave, by id, and added those that come.
	gone  map[string]bool
	added []assignor.Member
	// ids are all members of before and after, sorted, and process their processes.
	ids     []string
	process map[string]string
	// held is the last target.
	held     map[string]topology.Assignment
	stateful map[string]bool
	copies   planCopies
	listed   int
}

// begin takes the assignor's input as a target would, and puts the members that come in the place of those that leave.
func (r *planRun) begin() {
	spec, stored := r.target.spec()
	r.held, r.process, r.stateful = map[string]topology.Assignment{}, map[string]string{}, map[string]bool{}
	for i := range spec.Subtopologies {
		s := &spec.Subtopologies[i]
		r.stateful[s.ID] = s.Stateful
		r.plan.Stateful = r.plan.Stateful || s.Stateful && s.Tasks > 0
	}
	r.copies = copiesOf(spec.Members)
	all := slices.Clone(spec.Members)
	noWarmups := len(spec.Members) > 0
	for i := range spec.Members {
		m := &spec.Members[i]
		noWarmups = noWarmups && m.NoWarmups
		if stored[i] != nil {
			r.held[m.ID] = stored[i].Assignment
		}
		if len(m.Offsets) > 0 { // an empty list may stand for one that a member before reported
			r.plan.Reporting++
		}
	}
	spec.Members = slices.DeleteFunc(spec.Members, func(m assignor.Member) bool { return r.gone[m.ID] })
	for _, tag := range r.target.env.Settings.RackAwareTags {
		lack := TagLack{Tag: tag, Of: len(spec.Members)}
		for i := range spec.Members {
			if _, has := spec.Members[i].Tags[tag]; !has {
				lack.Members++
			}
		}
		if lack.Members > 0 {
			r.plan.Lacking = append(r.plan.Lacking, lack)
		}
	}
	for _, m := range r.added {
		m.NoWarmups = noWarmups // the same app
		spec.Members = append(spec.Members, m)
		all = append(all, m)
	}
	byID := func(a, b assignor.Member) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(spec.Members, byID)
	slices.SortFunc(all, byID)
	for i := range all {
		m := r.member(&all[i])
		m.Before = r.held[m.ID]
		r.plan.Members = append(r.plan.Members, m)
		r.ids, r.process[m.ID] = append(r.ids, m.ID), m.ProcessID
		if m.Added {
			r.copies.reports[m.ProcessID] = true // it has nothing, and says so
		}
	}
	r.spec = spec
}

// step adds the moves from the last target to the next one, and says whether there are any.
func (r *planRun) step(goals assignor.Assignment) bool {
	moves := r.moves(goals)
	if len(moves) > 0 || len(r.plan.Steps) == 0 {
		var s PlanStep
		for i := range moves {
			m := &moves[i]
			if m.To == "" {
				s.Dropped++
				continue
			}
			s.Moved[m.Role]++
			r.count(&s, m)
		}
		if len(r.plan.Steps) == 0 {
			r.underway(&s, goals)
		}
		s.Moves = moves[:min(len(moves), maxPlanMoves-r.listed)]
		r.listed += len(s.Moves)
		r.plan.Steps = append(r.plan.Steps, s)
	}
	for _, id := range r.ids {
		r.held[id] = goals[id]
	}
	return len(moves) > 0
}

// underway lists the warm-ups of before that go on.
func (r *planRun) underway(s *PlanStep, goals assignor.Assignment) {
	for _, id := range r.ids {
		had, has := r.held[id], goals[id]
		for t := range had.Warmup.All() {
			if !has.Warmup.Contains(t) {
				continue
			}
			m := PlanMove{Task: t, Role: record.RoleWarmup, To: id}
			r.count(s, &m)
			if len(s.Underway) < maxPlanMoves {
				s.Underway = append(s.Underway, m)
			}
		}
	}
}

// count finds what the receiver of a task has to restore, and adds it to a step.
func (r *planRun) count(s *PlanStep, m *PlanMove) {
	m.Restore, m.Records = r.restore(m.Task, r.process[m.To])
	active := m.Role == record.RoleActive
	switch {
	case m.Restore == RestoreNothing || m.Restore == RestoreCaughtUp:
	case m.Records < 0:
		s.Unknown++
		if active {
			s.ActiveUnknown++
		}
	default:
		s.Records = addRecords(s.Records, m.Records)
		if active {
			s.ActiveRecords = addRecords(s.ActiveRecords, m.Records)
		}
	}
}

func addRecords(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// moves compares the last target with the next one.
func (r *planRun) moves(goals assignor.Assignment) (moves []PlanMove) {
	lost := map[roleTask][]string{}
	for _, id := range r.ids {
		had, has := r.held[id], goals[id]
		for role := range record.TaskRole(3) {
			for t := range tasksIn(&had, role).Minus(tasksIn(&has, role)).All() {
				key := roleTask{role, t}
				lost[key] = append(lost[key], id)
			}
		}
	}
	for _, id := range r.ids {
		had, has := r.held[id], goals[id]
		for role := range record.TaskRole(3) {
			for t := range tasksIn(&has, role).Minus(tasksIn(&had, role)).All() {
				m := PlanMove{Task: t, Role: role, To: id}
				key := roleTask{role, t}
				if from := lost[key]; len(from) > 0 {
					m.From, lost[key] = from[0], from[1:]
				}
				moves = append(moves, m)
			}
		}
	}
	for key, from := range lost {
		for _, id := range from {
			if has := goals[id]; !hasTask(&has, key.task) { // else it goes on in another role
				moves = append(moves, PlanMove{Task: key.task, Role: key.role, From: id})
			}
		}
	}
	slices.SortFunc(moves, compareMoves)
	return moves
}

// catchUp has every member hold what the target gives it, with all copies caught up.
func (r *planRun) catchUp(goals assignor.Assignment) {
	for i := range r.spec.Members {
		m := &r.spec.Members[i]
		goal := goals[m.ID]
		m.Current, m.Ready, m.Restoring = topology.Assignment{Active: goal.Active.WithoutEpochs(), Standby: goal.Standby, Warmup: goal.Warmup}, goal.Warmup, nil
		offsets, ends := offsetMap(m.Offsets), offsetMap(m.EndOffsets)
		for role := range record.TaskRole(3) {
			for t := range tasksIn(&goal, role).All() {
				if r.stateful[t.Subtopology] {
					end := r.copies.caughtUp(processTask{m.ProcessID, t})
					offsets[t], ends[t] = end, end
				}
			}
		}
		m.Offsets, m.EndOffsets = assignor.OffsetsOf(offsets), assignor.OffsetsOf(ends)
	}
}

func offsetMap(o assignor.Offsets) map[topology.Task]int64 {
	m := make(map[topology.Task]int64, len(o))
	for i := range o {
		m[o[i].Task] = o[i].Offset
	}
	return m
}

// restore is what a process has to restore of a task that it gets.
func (r *planRun) restore(t topology.Task, process string) (Restore, int64) {
	if !r.stateful[t.Subtopology] {
		return RestoreNothing, 0
	}
	key := processTask{process, t}
	end, known := r.copies.ends[t]
	offset, reported := r.copies.offsets[key]
	switch {
	case r.copies.ready[key]:
		return RestoreCaughtUp, 0
	case !reported && (r.copies.held[key] || !r.copies.reports[process]):
		return RestoreUnknown, -1
	case !reported && !known:
		return RestoreScratch, -1
	case !reported:
		return RestoreScratch, end
	case !known:
		return RestoreUnknown, -1
	case end-offset <= r.target.env.Settings.AcceptableRecoveryLag:
		return RestoreCaughtUp, max(0, end-offset)
	}
	return RestoreBehind, end - offset
}

// planCopies is what is known of the copies of tasks that processes have.
type planCopies struct {
	// ends are the largest end offsets that anybody reported, seen the largest positions, and offsets the latest positions of a
	// process.
	ends, seen map[topology.Task]int64
	offsets    map[processTask]int64
	// reports says which processes have reported offsets at all, held which copies processes have in any role, and ready which
	// of these need no report: they are active with their state, or a step is over that waited for them.
	reports     map[string]bool
	held, ready map[processTask]bool
}

func copiesOf(members []assignor.Member) planCopies {
	c := planCopies{ends: map[topology.Task]int64{}, seen: map[topology.Task]int64{}, offsets: map[processTask]int64{}, reports: map[string]bool{},
		held: map[processTask]bool{}, ready: map[processTask]bool{}}
	for i := range members {
		m := &members[i]
		if len(m.Offsets) > 0 { // an empty list may stand for one that a member before reported
			c.reports[m.ProcessID] = true
		}
		for _, e := range m.EndOffsets {
			if t, end := e.Task, e.Offset; end >= 0 && end < math.MaxInt64 {
				c.ends[t] = max(c.ends[t], end)
			}
		}
		for _, o := range m.Offsets {
			t, offset := o.Task, o.Offset
			if key := (processTask{m.ProcessID, t}); offset >= 0 && offset < math.MaxInt64 {
				c.offsets[key], c.seen[t] = max(c.offsets[key], offset), max(c.seen[t], offset)
			} else {
				c.held[key] = true
			}
		}
		for role := range record.TaskRole(3) {
			for t := range tasksIn(&m.Current, role).All() {
				key := processTask{m.ProcessID, t}
				c.held[key] = true
				if role == record.RoleActive && !m.Restoring.Contains(t) {
					c.ready[key] = true
				}
			}
		}
	}
	return c
}

// caughtUp has a process caught up with a task, and returns its position: the end, where that is known, or else as far as
// anybody was seen.
func (c *planCopies) caughtUp(key processTask) int64 {
	c.ready[key] = true
	if end, known := c.ends[key.task]; known {
		return end
	}
	return c.seen[key.task]
}

type processTask struct {
	process string
	task    topology.Task
}
