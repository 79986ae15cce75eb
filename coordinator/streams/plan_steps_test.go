package streams

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// slowly moves task 0_p from the first member to the second one: by a warm-up, until that is caught up, one task after the other.
func slowly(spec assignor.Spec) (assignor.Assignment, error) {
	var first, second topology.TasksBuilder
	var warmup topology.Tasks
	from, to := &spec.Members[0], &spec.Members[1]
	for p := range spec.Subtopologies[0].Tasks {
		task := topology.Task{Subtopology: "0", Partition: p}
		offset, _ := to.Offsets.Of(task)
		end, _ := from.EndOffsets.Of(task)
		caughtUp := to.Ready.Contains(task) && offset >= end
		switch {
		case to.Current.Active.Contains(task) || caughtUp:
			second.Add(task)
		case warmup == nil && p%2 == 0:
			warmup = topology.NewTasks(task)
			fallthrough
		default:
			first.Add(task)
		}
	}
	a, _ := first.Build()
	b, _ := second.Build()
	return assignor.Assignment{from.ID: {Active: a}, to.ID: {Active: b, Warmup: warmup}}, nil
}

// TestAPlanGoesOnUntilTheWarmupsAreDone: each step is what follows when the warm-ups of the one before have caught up.
func TestAPlanGoesOnUntilTheWarmupsAreDone(t *testing.T) {
	s := &script{world: newWorld(), clients: map[string]*scriptClient{}, topologies: map[string]*topology.Topology{"t": {Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}}}}}}
	s.setTopic("in", 4)
	s.setTopic("cl", 4)
	if _, err := s.request("join", []string{"A"}, map[string]string{"offsets": "0_0:100,0_2:7", "ends": "0_0:100"}); err != nil {
		t.Fatal(err)
	}
	run := func(more func() bool) *Plan {
		env := s.env()
		env.Assignor = hostile(slowly)
		job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, PlanInput{Add: 1})
		if refused != nil {
			t.Fatal(refused)
		}
		p, err := job.Run(more)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const want = `  A of PA: 0_0,0_1,0_2,0_3 -> 0_1,0_3
  new-1-1 of new-1 added:  -> 0_0,0_2
step 1: moved=[0 0 1] dropped=0 records=100 unknown=0
  0_0 warm-up nobody -> new-1-1 from scratch 100
step 2: moved=[1 0 1] dropped=0 records=0 unknown=1
  0_0 active A -> new-1-1 caught up 0
  0_2 warm-up nobody -> new-1-1 from scratch -1
step 3: moved=[1 0 0] dropped=0 records=0 unknown=0
  0_2 active A -> new-1-1 caught up 0
`
	p := run(always)
	if _, got, _ := strings.Cut(showPlan(p), "\n"); got != want || p.Cut {
		t.Errorf("cut: %v\n%s\nwant\n%s", p.Cut, got, want)
	}
	if p := run(never); len(p.Steps) != 1 || !p.Cut {
		t.Errorf("not cut after the first step:\n%s", showPlan(p))
	}
}

// TestAPlanGoesOnFromWarmupsUnderWay: where the stored target has a warm-up already, the first step may move nothing, and what
// follows when that has caught up is planned all the same.
func TestAPlanGoesOnFromWarmupsUnderWay(t *testing.T) {
	s := &script{world: newWorld(), clients: map[string]*scriptClient{}, topologies: map[string]*topology.Topology{"t": {Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}}}}}}
	s.setTopic("in", 4)
	s.setTopic("cl", 4)
	if _, err := s.request("join", []string{"A"}, map[string]string{"offsets": "0_0:100,0_2:7", "ends": "0_0:100"}); err != nil {
		t.Fatal(err)
	}
	s.assign = hostile(slowly)
	if _, err := s.request("join", []string{"B"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		in   PlanInput
		want string
	}{
		{PlanInput{}, `  A of PA: 0_0,0_1,0_2,0_3 -> 0_1,0_3
  B of PB: //0_0 -> 0_0,0_2
step 1: moved=[0 0 0] dropped=0 records=0 unknown=1
  0_0 under way to B unknown -1
step 2: moved=[1 0 1] dropped=0 records=0 unknown=1
  0_0 active A -> B caught up 0
  0_2 warm-up nobody -> B unknown -1
step 3: moved=[1 0 0] dropped=0 records=0 unknown=0
  0_2 active A -> B caught up 0
`},
		{PlanInput{Add: 1}, `  A of PA: 0_0,0_1,0_2,0_3 -> 0_1,0_3
  B of PB: //0_0 -> 0_0,0_2
  new-1-1 of new-1 added:  -> 
step 1: moved=[0 0 0] dropped=0 records=0 unknown=1
  0_0 under way to B unknown -1
step 2: moved=[1 0 1] dropped=0 records=0 unknown=1
  0_0 active A -> B caught up 0
  0_2 warm-up nobody -> B unknown -1
step 3: moved=[1 0 0] dropped=0 records=0 unknown=0
  0_2 active A -> B caught up 0
`},
	} {
		env := s.env()
		job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, test.in)
		if refused != nil {
			t.Fatal(refused)
		}
		p, err := job.Run(always)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(showPlan(p), "\n"); got != test.want || p.Cut {
			t.Errorf("cut: %v\n%s\nwant\n%s", p.Cut, got, test.want)
		}
	}
}

// TestAPlanCountsMembersWithoutTags: tags by which standbys would be spread and that members lack are found.
func TestAPlanCountsMembersWithoutTags(t *testing.T) {
	s := &script{world: newWorld(), clients: map[string]*scriptClient{}, topologies: map[string]*topology.Topology{"t": {Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}}}}}}
	s.setTopic("in", 1)
	for name, tags := range map[string]string{"A": "zone:a", "B": ""} {
		args := map[string]string{}
		if tags != "" {
			args["tags"] = tags
		}
		if _, err := s.request("join", []string{name}, args); err != nil {
			t.Fatal(err)
		}
	}
	env, settings := s.env(), s.settings
	settings.RackAwareTags = []string{"zone", "zon"}
	job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, PlanInput{Settings: &settings, Assignor: env.Assignor})
	if refused != nil {
		t.Fatal(refused)
	}
	p, err := job.Run(always)
	if want := []TagLack{{"zone", 1, 2}, {"zon", 2, 2}}; err != nil || !slices.Equal(p.Lacking, want) {
		t.Errorf("%v, %v, want %v", err, p.Lacking, want)
	}
}

// TestAPlanEnds: an assignor that never comes to rest does not keep a plan busy for ever.
func TestAPlanEnds(t *testing.T) {
	s := &script{world: newWorld(), clients: map[string]*scriptClient{}, topologies: map[string]*topology.Topology{"t": {Subtopologies: []topology.Subtopology{
		{ID: "0", SourceTopics: []string{"in"}, StateChangelogTopics: []topology.InternalTopic{{Name: "cl"}}}}}}}
	s.setTopic("in", 1)
	s.setTopic("cl", 1)
	if _, err := s.request("join", []string{"A"}, nil); err != nil {
		t.Fatal(err)
	}
	task := topology.NewTasks(topology.Task{Subtopology: "0"})
	env := s.env()
	turns := 0
	env.Assignor = hostile(func(spec assignor.Spec) (assignor.Assignment, error) {
		turns++
		owner, other := spec.Members[turns%2].ID, spec.Members[(turns+1)%2].ID
		return assignor.Assignment{owner: {Active: task}, other: {Warmup: task}}, nil
	})
	job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, PlanInput{Add: 1})
	if refused != nil {
		t.Fatal(refused)
	}
	if p, err := job.Run(always); err != nil || len(p.Steps) != maxPlanSteps || !p.Cut {
		t.Error(err, len(p.Steps), p.Cut)
	}
}

// keep notes what the processes of all clients have on disk: what they ever had.
func (s *simulation) keep(disk map[processTask]bool) {
	for _, c := range s.clients {
		for _, tasks := range []topology.Tasks{c.running.Active, c.running.Standby, c.running.Warmup} {
			for task := range tasks.All() {
				disk[processTask{c.process, task}] = task.Subtopology == "1"
			}
		}
	}
}

// positions are those of all tasks with state that a client's process has on disk: their ends.
func (s *simulation) positions(disk map[processTask]bool, c *simClient) (offsets, ends []TaskOffset) {
	offsets, ends = []TaskOffset{}, []TaskOffset{}
	for p := range s.topics["cl"].Partitions {
		if task := (topology.Task{Subtopology: "1", Partition: p}); disk[processTask{c.process, task}] {
			offsets = append(offsets, TaskOffset{Task: task, Offset: 20000})
			ends = append(ends, TaskOffset{Task: task, Offset: 20000})
		}
	}
	return offsets, ends
}

// steps lets the group go on, with all that reconciles before anybody reports a position, and returns the targets that there are on
// the way.
func (s *simulation) steps(disk map[processTask]bool) (targets []map[string]topology.Assignment) {
	epoch := s.group().AssignmentEpoch()
	seen := func() {
		if now := s.group().AssignmentEpoch(); now != epoch {
			epoch = now
			goals := map[string]topology.Assignment{}
			for m := range s.group().Members() {
				goals[m.ID] = targetOf(m).Assignment
			}
			targets = append(targets, goals)
		}
	}
	for range 40 {
		for range 8 * quietRounds {
			if s.settled() {
				break
			}
			for _, c := range s.clients {
				c.apply()
				s.beat(c)
				seen()
			}
		}
		before := epoch
		s.keep(disk)
		for _, c := range s.clients {
			req := c.request()
			req.TaskOffsets, req.TaskEndOffsets = s.positions(disk, c)
			if err := c.told(s.send(req)); err != nil {
				s.t.Fatal(err)
			}
			seen()
		}
		if epoch == before && s.settled() {
			return targets
		}
	}
	s.t.Fatalf("no rest: %s", StateOf(s.group()))
	return nil
}

// TestPlannedStepsAreWhatHappens: with one warm-up at a time, a group in which copies catch up goes through the very targets that
// were planned, from the join to the end.
func TestPlannedStepsAreWhatHappens(t *testing.T) {
	longest := 0
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		for _, c := range s.clients {
			c.version, c.instance = 1, ""
		}
		s.offloadFrom, s.settings.AcceptableRecoveryLag = 0, 100
		s.settings.AssignmentIntervalMs, s.settings.InitialRebalanceDelayMs, s.settings.NumWarmupReplicas = 0, 0, 1
		n := rapid.Int32Range(1, 12).Draw(t, "tasks")
		for _, name := range []string{"in2", "cl"} {
			s.setTopic(name, n)
		}
		s.startAll()
		s.assign, s.settings.AssignorName = assignor.HighlyAvailable(), assignor.HighlyAvailableName
		s.lookAtTopics()
		disk := map[processTask]bool{}
		s.steps(disk)

		in := PlanInput{Add: 1, Threads: 1}
		comes := &simClient{id: "new-1-1", process: "new-1", endpointEpoch: -1, version: 1, alive: true}
		if rapid.Bool().Draw(t, "came") { // its first warm-up is under way
			in = PlanInput{}
			s.clients = append(s.clients, comes)
			for range 8 * quietRounds {
				for _, c := range s.clients {
					c.apply()
					s.beat(c)
				}
				if s.settled() {
					break
				}
			}
		}
		env := s.env()
		job, refused := NewPlanJob(s.group(), s.soft, &env, testGroup, in)
		if refused != nil {
			t.Fatal(refused)
		}
		p, err := job.Run(always)
		if err != nil || p.Cut {
			t.Fatal(err, p.Cut)
		}
		if in.Add > 0 {
			s.clients = append(s.clients, comes)
		} else if first := &p.Steps[0]; len(first.Moves) == 0 {
			p.Steps = p.Steps[1:] // the stored target
		}
		happened := s.steps(disk)
		if len(happened) != len(p.Steps) {
			t.Fatalf("%d targets, planned were %d:\n%s", len(happened), len(p.Steps), showPlan(p))
		}
		longest = max(longest, len(happened))
		held := map[string]map[roleTask]bool{}
		for _, m := range p.Members {
			held[m.ID] = tasksByRole(m.Before)
		}
		for i, goals := range happened {
			apply(held, &p.Steps[i])
			for id, goal := range goals {
				if got := tasksByRole(goal); !maps.Equal(got, held[id]) {
					t.Fatalf("step %d: %s gets %s, planned were %v:\n%s", i+1, id, planned(goal), held[id], showPlan(p))
				}
			}
		}
	})
	if longest < 3 {
		t.Errorf("the longest plan had %d steps", longest)
	}
}

func tasksByRole(a topology.Assignment) map[roleTask]bool {
	list := map[roleTask]bool{}
	for role := range record.TaskRole(3) {
		for task := range tasksIn(&a, role).All() {
			list[roleTask{role, task}] = true
		}
	}
	return list
}

// apply makes the moves of a step. Who goes on with a task in another role has it in that one only: moves do not name the end of
// the other.
func apply(held map[string]map[roleTask]bool, s *PlanStep) {
	for _, m := range s.Moves {
		delete(held[m.From], roleTask{m.Role, m.Task})
	}
	for _, m := range s.Moves {
		if m.To == "" {
			continue
		}
		for role := range record.TaskRole(3) {
			delete(held[m.To], roleTask{role, m.Task})
		}
		held[m.To][roleTask{m.Role, m.Task}] = true
	}
}
