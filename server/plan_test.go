package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

func TestPlanNotes(t *testing.T) {
	three := []streams.PlanMember{{ID: "a"}, {ID: "b"}, {ID: "new-1-1", Added: true}}
	for name, test := range map[string]struct {
		plan streams.Plan
		want []string
	}{
		"nothing to say":          {streams.Plan{State: streams.StateStable, Members: three, Stateful: true, Reporting: 2, LedForMs: 1000}, nil},
		"no state":                {streams.Plan{State: streams.StateStable, Members: three, LedForMs: 1000}, nil},
		"nobody there":            {streams.Plan{State: streams.StateEmpty, Members: three[2:], Stateful: true, LedForMs: -1}, nil},
		"some offsets":            {streams.Plan{State: streams.StateStable, Members: three, Stateful: true, Reporting: 1}, []string{"1 of 2 members have reported"}},
		"no offsets":              {streams.Plan{State: streams.StateStable, Members: three, Stateful: true, LedForMs: -1}, []string{"no member has reported offsets of tasks: what"}},
		"after a failover":        {streams.Plan{State: streams.StateStable, Members: three, Stateful: true, LedForMs: 12_345, OffsetIntervalMs: 60000}, []string{"within streams.task.offset.interval.ms (60000) of a change of leader, which was 12s ago"}},
		"while it is rebalancing": {streams.Plan{State: streams.StateReconciling, Members: three}, []string{"the group is Reconciling"}},
		"topics to come":          {streams.Plan{State: streams.StateStable, Members: three, Stands: true}, []string{"everybody keeps what he has"}},
		"tags, cut":               {streams.Plan{State: streams.StateStable, Members: three, MissingTags: []string{"zone", "cell"}, Cut: true}, []string{"lack the client tags zone, cell,", "further steps follow"}},
		"one tag":                 {streams.Plan{State: streams.StateStable, Members: three, MissingTags: []string{"zone"}}, []string{"lack the client tag zone,"}},
		"tags of members": {streams.Plan{State: streams.StateStable, Members: three, Lacking: []streams.TagLack{{Tag: "zon", Members: 2, Of: 2}, {Tag: "zone", Members: 1, Of: 2}}},
			[]string{"no member has the client tag zon,", "1 of 2 members lack the client tag zone,"}},
	} {
		got := planNotes(&test.plan)
		if !slices.EqualFunc(got, test.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestNoPlanSetting(t *testing.T) {
	for name, says := range map[string]string{
		"streams.nonsense":                   "is no such setting; settings of assignments are: streams.num.standby",
		"group.streams.num.standby.replicas": "did you mean streams.num.standby.replicas?",
		"num.warmup.replicas":                "did you mean streams.num.warmup.replicas?",
		"streams.session.timeout.ms":         "does not change assignments",
	} {
		if err := noPlanSetting(name); !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := refusedPlan(coordinator.Errorf(coordinator.GroupIDNotFound, "Group %s not found.", "x")); err.Error() != "Group x not found; 'coordd groups list' shows them" {
		t.Error(err)
	}
}

func TestPlanShape(t *testing.T) {
	tasks := func(n int32) (list topology.Tasks) {
		var b topology.TasksBuilder
		for p := range n {
			b.Add(topology.Task{Subtopology: "0", Partition: p})
		}
		list, _ = b.Build()
		return list
	}
	members := []streams.PlanMember{
		{ID: "a", ProcessID: "p", After: topology.Assignment{Active: tasks(2), Standby: tasks(1)}},
		{ID: "b", ProcessID: "p", After: topology.Assignment{Active: tasks(3)}},
		{ID: "c", ProcessID: "q", After: topology.Assignment{Active: tasks(4), Standby: tasks(5)}},
		{ID: "d", ProcessID: "r", Removed: true},
	}
	got := planShape(members, func(m *streams.PlanMember) (*topology.Assignment, bool) { return &m.After, !m.Removed })
	want := web.PlanShape{Members: 3, Processes: 2, ActiveMin: 2, ActiveMax: 4, StandbyMin: 0, StandbyMax: 5, ProcessActiveMin: 4, ProcessActiveMax: 5}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPlanSettingsAreSettingsOfGroups: each is one that can be altered, and everything else by which targets are made is there.
func TestPlanSettingsAreSettingsOfGroups(t *testing.T) {
	known := map[string]bool{}
	for _, s := range config.GroupSettings() {
		known[s.Name] = true
		word := strings.Contains(s.Name, "replicas") || strings.Contains(s.Name, "rack") || strings.Contains(s.Name, "lag") || s.Name == "streams.assignor.name"
		if word != slices.Contains(planSettings, s.Name) {
			t.Errorf("%s", s.Name)
		}
	}
	for _, name := range planSettings {
		if !known[name] {
			t.Errorf("there is no setting %s", name)
		}
	}
}
