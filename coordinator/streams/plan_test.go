package streams

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// plan shows what a change would move, and changes nothing.
func (s *script) plan(args map[string]string) string {
	in, settings := PlanInput{}, s.settings
	for k, v := range args {
		n, _ := strconv.Atoi(v)
		switch k {
		case "add":
			in.Add = n
		case "threads":
			in.Threads = n
		case "remove":
			in.Remove = strings.Split(v, ",")
		case "tags":
			in.Tags = map[string]string{}
			for tag := range strings.SplitSeq(v, ",") {
				key, value, _ := strings.Cut(tag, ":")
				in.Tags[key] = value
			}
		case "standbys":
			settings.NumStandbyReplicas = int32(n)
		case "warmups":
			settings.NumWarmupReplicas = int32(n)
		case "lag":
			settings.AcceptableRecoveryLag = int64(n)
		default:
			return "unknown field " + k
		}
	}
	in.Settings, in.Assignor = &settings, s.assign
	before := s.state.Digest()
	env := s.env()
	job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, in)
	if refused != nil {
		return refused.Error() + "\n"
	}
	p, err := job.Run(always)
	if err != nil {
		return err.Error() + "\n"
	}
	if s.state.Digest() != before {
		return "the group is another one\n"
	}
	return showPlan(p)
}

func always() bool { return true }

var restores = [...]string{"", "caught up", "behind", "from scratch", "unknown"}

func showPlan(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch=%d %s assignor=%s threads=%d stateful=%v reporting=%d led-for=%d cut=%v stands=%v missing-tags=%s\n", p.Epoch, p.State, p.Assignor, p.Threads,
		p.Stateful, p.Reporting, p.LedForMs, p.Cut, p.Stands, strings.Join(p.MissingTags, ","))
	for _, m := range p.Members {
		what := ""
		switch {
		case m.Added:
			what = " added"
		case m.Removed:
			what = " removed"
		}
		fmt.Fprintf(&b, "  %s of %s%s: %s -> %s\n", m.ID, m.ProcessID, what, planned(m.Before), planned(m.After))
	}
	for _, l := range p.Lacking {
		fmt.Fprintf(&b, "  %d of %d lack tag %s\n", l.Members, l.Of, l.Tag)
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "step %d: moved=%v dropped=%d records=%d unknown=%d\n", i+1, s.Moved, s.Dropped, s.Records, s.Unknown)
		for _, m := range s.Underway {
			fmt.Fprintf(&b, "  %s_%d under way to %s %s %d\n", m.Task.Subtopology, m.Task.Partition, m.To, restores[m.Restore], m.Records)
		}
		for _, m := range s.Moves {
			restore := restores[m.Restore]
			if m.Restore != RestoreNothing {
				restore += fmt.Sprintf(" %d", m.Records)
			}
			fmt.Fprintf(&b, "  %s_%d %s %s -> %s %s\n", m.Task.Subtopology, m.Task.Partition, [...]string{"active", "standby", "warm-up"}[m.Role],
				cmpOr(m.From, "nobody"), cmpOr(m.To, "nobody"), restore)
		}
	}
	return b.String()
}

func planned(a topology.Assignment) string {
	var texts []string
	for role := range record.TaskRole(3) {
		var tasks []string
		for t := range tasksIn(&a, role).All() {
			tasks = append(tasks, fmt.Sprintf("%s_%d", t.Subtopology, t.Partition))
		}
		texts = append(texts, strings.Join(tasks, ","))
	}
	return strings.TrimRight(strings.Join(texts, "/"), "/")
}

func never() bool { return false }

// firstTarget is the first target of a plan, by member; nil where the plan is refused. The group stays as it is.
func (s *simulation) firstTarget(in PlanInput) map[string]topology.Assignment {
	before, soft := s.state.Digest(), AppendHandover(nil, testGroup, s.soft, s.now, true)
	env := s.env()
	job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, in)
	if refused != nil {
		s.t.Skip("refused:", refused)
	}
	p, err := job.Run(never)
	if err != nil {
		s.t.Skip("failed:", err)
	}
	if s.state.Digest() != before || !bytes.Equal(AppendHandover(nil, testGroup, s.soft, s.now, true), soft) {
		s.t.Fatal("a plan changed the group")
	}
	goals := map[string]topology.Assignment{}
	for _, m := range p.Members {
		if !m.Removed {
			goals[m.ID] = m.After
		}
	}
	s.checkPlan(p)
	return goals
}

// checkPlan: the moves of a plan lead from the assignment of before to that of after.
func (s *simulation) checkPlan(p *Plan) {
	held := map[string]map[roleTask]bool{}
	for _, m := range p.Members {
		held[m.ID] = map[roleTask]bool{}
		for role := range record.TaskRole(3) {
			for task := range tasksIn(&m.Before, role).All() {
				held[m.ID][roleTask{role, task}] = true
			}
		}
	}
	for _, step := range p.Steps {
		if n := step.Moved[0] + step.Moved[1] + step.Moved[2] + step.Dropped; n != len(step.Moves) {
			s.t.Fatalf("%d moves are counted, %d listed", n, len(step.Moves))
		}
		for _, m := range step.Moves {
			key := roleTask{m.Role, m.Task}
			if m.From != "" && !held[m.From][key] {
				s.t.Fatalf("%v comes from a member without it", m)
			}
			delete(held[m.From], key)
		}
		for _, m := range step.Moves {
			if m.To != "" {
				held[m.To][roleTask{m.Role, m.Task}] = true
			}
		}
	}
	for _, m := range p.Members {
		for role := range record.TaskRole(3) {
			for task := range tasksIn(&m.After, role).All() {
				if !held[m.ID][roleTask{role, task}] {
					s.t.Fatalf("%s gets %v without a move:\n%s", m.ID, task, showPlan(p))
				}
			}
		}
	}
}

// expectTargets: what is stored is what was planned.
func (s *simulation) expectTargets(what string, want map[string]topology.Assignment) {
	if err := s.takeAll(3); err != nil {
		s.t.Fatal(err)
	}
	g := s.group()
	if g.AssignmentEpoch() != g.Epoch() {
		s.t.Skip("no target yet")
	}
	if g.NumMembers() != len(want) {
		s.t.Fatalf("%s: %d members, %d planned", what, g.NumMembers(), len(want))
	}
	for m := range g.Members() {
		goal, ok := want[m.ID]
		if stored := targetOf(m).Assignment; !ok || !stored.SameTasks(goal) {
			s.t.Errorf("%s: %s gets %s, planned were %s", what, m.ID, planned(stored), planned(goal))
		}
	}
}

// reportOffsets has some members report random positions of tasks.
func (s *simulation) reportOffsets() {
	for m := range s.group().Members() {
		if !rapid.Bool().Draw(s.t, "reports") {
			continue
		}
		change := SoftChange{Member: m.ID, TaskOffsets: []TaskOffset{}, TaskEndOffsets: []TaskOffset{}}
		for p := range s.topics["cl"].Partitions {
			task := topology.Task{Subtopology: "1", Partition: p}
			if rapid.Bool().Draw(s.t, "has") {
				change.TaskOffsets = append(change.TaskOffsets, TaskOffset{Task: task, Offset: rapid.SampledFrom([]int64{0, 5, 9000, 20000}).Draw(s.t, "offset")})
			}
			if rapid.Bool().Draw(s.t, "end") {
				change.TaskEndOffsets = append(change.TaskEndOffsets, TaskOffset{Task: task, Offset: rapid.SampledFrom([]int64{20000, 1 << 40}).Draw(s.t, "at")})
			}
		}
		s.soft.Apply(&change)
	}
}

// TestAPlanIsWhatHappens: for random groups in any state of a rebalance, what a plan says of a join, of a leave and of another
// setting is what the target becomes when that comes.
func TestAPlanIsWhatHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		s.startAll()
		actions := s.actions()
		names := []string{"heartbeat", "applyAndBeat", "loseResponse", "leave", "die", "failover", "advance", "topics", "topicsChanged"}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "action")
			if s.group().NumMembers() > 0 && anyAlive(s) {
				actions[name](t)
			}
		}
		s.t = t
		s.settings.AssignmentIntervalMs, s.settings.InitialRebalanceDelayMs, s.settings.MaxSize = 0, 0, 1<<30
		s.passComputing(20000)
		if s.group().NumMembers() == 0 {
			t.Skip("nobody is left")
		}
		s.assign = rapid.SampledFrom([]assignor.Assignor{assignor.Sticky(), assignor.HighlyAvailable(), assignor.Auto()}).Draw(t, "assignor")
		s.settings.NumWarmupReplicas = rapid.Int32Range(0, 3).Draw(t, "warmups")
		s.reportOffsets()
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			goals := s.firstTarget(PlanInput{Add: 1, Threads: 1})
			c := &simClient{id: "new-1-1", process: "new-1", endpointEpoch: -1, version: s.usualVersion()}
			req := c.request()
			req.Topology = s.topology
			if d, err := s.heartbeat(req, &coordinator.Client{ID: "c", Host: "/h"}); err != nil || d.Reply.Err != nil {
				t.Fatal(err, d.Reply.Err)
			}
			s.lookAtTopics()
			s.expectTargets("a join", goals)
		case 1:
			ids := memberIDs(s.group())
			leaver := s.group().Member(rapid.SampledFrom(ids).Draw(t, "leaver"))
			goals := s.firstTarget(PlanInput{Remove: []string{leaver.ID}})
			leave := &HeartbeatRequest{GroupID: testGroup, MemberID: leaver.ID, MemberEpoch: LeaveEpoch, RebalanceTimeoutMs: -1, InstanceID: metaOf(leaver).InstanceID}
			if d, err := s.heartbeat(leave, &coordinator.Client{ID: "c", Host: "/h"}); err != nil || d.Reply.Err != nil {
				t.Fatal(err, d.Reply.Err)
			}
			s.lookAtTopics()
			s.expectTargets("a leave", goals)
		case 2:
			settings := s.settings
			settings.NumStandbyReplicas = (settings.NumStandbyReplicas + 1) % 3
			goals := s.firstTarget(PlanInput{Settings: &settings, Assignor: s.assign})
			s.settings = settings
			s.lookAtTopics()
			s.expectTargets("another number of standbys", goals)
		case 3:
			settings := s.settings
			settings.AssignorName = "another"
			other := rapid.SampledFrom([]assignor.Assignor{assignor.Sticky(), assignor.HighlyAvailable()}).Draw(t, "other")
			goals := s.firstTarget(PlanInput{Settings: &settings, Assignor: other})
			s.settings, s.assign = settings, other
			s.lookAtTopics()
			s.expectTargets("another assignor", goals)
		}
	})
}

// usualVersion is the version of heartbeats that a plan takes new members to have: the app of the others is theirs.
func (s *simulation) usualVersion() int16 {
	for m := range s.group().Members() {
		if sm := s.soft.Members[m.ID]; sm == nil || !sm.old {
			return 1
		}
	}
	return 0
}

func anyAlive(s *simulation) bool {
	for _, c := range s.clients {
		if c.alive {
			return true
		}
	}
	return false
}

func memberIDs(g *fsm.Group) (ids []string) {
	for m := range g.Members() {
		ids = append(ids, m.ID)
	}
	return ids
}
