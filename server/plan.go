package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// planPatience bounds the work on the steps of a plan.
const planPatience = 10 * time.Second

// planSettings are the settings of groups by which assignments are made.
var planSettings = []string{
	"streams.num.standby.replicas", "streams.num.warmup.replicas", "streams.acceptable.recovery.lag", "streams.assignor.name",
	"streams.rack.aware.assignment.tags", "streams.rack.aware.assignment.strategy",
}

// Plan implements web.Plans.
func (n *Node) Plan(ctx context.Context, r web.PlanRequest) (web.GroupPlan, error) {
	return atLeader(ctx, n, r.Group, func(ctx context.Context) (web.GroupPlan, error) { return n.LocalPlan(ctx, r) },
		func(ctx context.Context, leader web.Client) (web.GroupPlan, error) { return leader.Plan(ctx, r) })
}

// LocalPlan implements web.Plans. The shard only takes the snapshot; one plan at a time is computed on a node.
func (n *Node) LocalPlan(ctx context.Context, r web.PlanRequest) (web.GroupPlan, error) {
	in := streams.PlanInput{Add: r.Add, Threads: r.Threads, Remove: r.Remove, Rack: r.Rack}
	var err error
	if in.Tags, err = pairs("tag", r.Tags); err != nil {
		return web.GroupPlan{}, err
	}
	if in.Settings, err = n.plannedSettings(r.Group, r.Set); err != nil {
		return web.GroupPlan{}, err
	}
	in.Assignor = n.assignors.named(in.Settings.AssignorName)
	select {
	case n.planning <- struct{}{}:
	case <-ctx.Done():
		return web.GroupPlan{}, web.Refuse(web.Conflict, "node %d, which leads the group, computes another plan; try again", n.config.NodeID)
	}
	defer func() { <-n.planning }()
	answer, err := n.askShard(ctx, r.Group, &shard.PlanRequest{GroupID: r.Group, Input: in}, "try again")
	if err != nil {
		return web.GroupPlan{}, err
	}
	response := answer.(*shard.PlanResponse)
	if response.Err != nil {
		return web.GroupPlan{}, refusedPlan(response.Err)
	}
	began := time.Now()
	p, err := response.Job.Run(func() bool { return ctx.Err() == nil && time.Since(began) < planPatience })
	var refused *coordinator.Error
	if errors.As(err, &refused) {
		return web.GroupPlan{}, refusedPlan(refused)
	} else if err != nil {
		return web.GroupPlan{}, web.Refuse(web.Conflict, "the assignor makes no assignment of it: %v", err)
	}
	view := planView(p)
	number := int(shardOf(r.Group, len(n.shards)))
	view.Group, view.Shard, view.Coordinator = r.Group, number, n.config.NodeID
	return view, nil
}

func refusedPlan(err *coordinator.Error) error {
	switch err.Code {
	case coordinator.GroupIDNotFound:
		return web.Refuse(web.NotFound, "%s; 'coordd groups list' shows them", strings.TrimSuffix(err.Message, "."))
	case coordinator.InvalidRequest:
		return web.Refuse(web.NotAllowed, "%s", err.Message)
	case coordinator.CoordinatorNotAvailable:
		return web.Refuse(web.Conflict, "%s Try again in a moment.", err.Message)
	}
	return web.Refuse(web.Conflict, "%s", err.Message)
}

// pairs reads key=value; nil for none.
func pairs(what string, list []string) (map[string]string, error) {
	var m map[string]string
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, web.Refuse(web.NotAllowed, "%s %q is not allowed (allowed: name=value)", what, text)
		}
		if _, twice := m[key]; twice {
			return nil, web.Refuse(web.NotAllowed, "%s %s stands twice", what, key)
		}
		if m == nil {
			m = map[string]string{}
		}
		m[key] = value
	}
	return m, nil
}

// plannedSettings are what the settings of a group would be, by the rules by which they can be changed.
func (n *Node) plannedSettings(group string, set []string) (*coordinator.GroupSettings, error) {
	values, err := pairs("setting", set)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return n.groupConfigs.of(group), nil
	}
	var changes []config.GroupChange
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(planSettings, name) {
			return nil, noPlanSetting(name)
		}
		value := values[name]
		changes = append(changes, config.GroupChange{Name: name, Op: config.GroupSet, Value: &value})
	}
	after, refused := n.config.Streams.Alter(n.groupConfigs.stored(group), &config.GroupAlteration{Group: group, Changes: changes})
	if refused != nil {
		return nil, web.Refuse(web.NotAllowed, "%s", refused.Message)
	}
	settings, _ := n.config.Streams.Effective(after)
	return settings, nil
}

// noPlanSetting refuses a setting by which no assignments are made.
func noPlanSetting(name string) error {
	list := strings.Join(planSettings, ", ")
	for _, meant := range []string{strings.TrimPrefix(name, "group."), "streams." + name} {
		if slices.Contains(planSettings, meant) {
			return web.Refuse(web.NotAllowed, "%q is no such setting; did you mean %s? Settings of assignments are: %s", name, meant, list)
		}
	}
	if slices.ContainsFunc(config.GroupSettings(), func(s config.GroupSetting) bool { return s.Name == name }) {
		return web.Refuse(web.NotAllowed, "setting %q does not change assignments (allowed: %s)", name, list)
	}
	return web.Refuse(web.NotAllowed, "%q is no such setting; settings of assignments are: %s", name, list)
}

// planView shows a plan to people and scripts.
func planView(p *streams.Plan) web.GroupPlan {
	v := web.GroupPlan{
		GroupSummary: web.GroupSummary{State: string(p.State), Epoch: p.Epoch, AssignmentEpoch: p.AssignmentEpoch, TopologyEpoch: p.TopologyEpoch},
		Assignor:     p.Assignor, Threads: p.Threads, Notes: planNotes(p), Complete: !p.Cut, Stateful: p.Stateful, Reporting: p.Reporting,
		MemberList: []web.PlanMember{}, Steps: []web.PlanStep{},
	}
	for i := range p.Members {
		m := &p.Members[i]
		v.MemberList = append(v.MemberList, web.PlanMember{
			Member: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host, ProcessID: m.ProcessID, Added: m.Added, Removed: m.Removed,
			ActiveBefore: m.Before.Active.Len(), ActiveAfter: m.After.Active.Len(), StandbyBefore: m.Before.Standby.Len(), StandbyAfter: m.After.Standby.Len(),
			WarmupBefore: m.Before.Warmup.Len(), WarmupAfter: m.After.Warmup.Len(),
		})
	}
	v.Before = planShape(p.Members, func(m *streams.PlanMember) (*topology.Assignment, bool) { return &m.Before, !m.Added })
	v.After = planShape(p.Members, func(m *streams.PlanMember) (*topology.Assignment, bool) { return &m.After, !m.Removed })
	v.Members = v.Before.Members
	for i := range p.Steps {
		s := planStep(&p.Steps[i])
		v.Steps = append(v.Steps, s)
		v.Active, v.Standby, v.Warmup, v.Dropped = v.Active+s.Active, v.Standby+s.Standby, v.Warmup+s.Warmup, v.Dropped+s.Dropped
		v.Records, v.Unknown = v.Records+s.Records, v.Unknown+s.Unknown
		v.ActiveRecords, v.ActiveUnknown = v.ActiveRecords+s.ActiveRecords, v.ActiveUnknown+s.ActiveUnknown
	}
	return v
}

func planStep(s *streams.PlanStep) web.PlanStep {
	v := web.PlanStep{Moves: []web.PlanMove{}, PlanTotals: web.PlanTotals{
		Active: s.Moved[record.RoleActive], Standby: s.Moved[record.RoleStandby], Warmup: s.Moved[record.RoleWarmup], Dropped: s.Dropped,
		Records: s.Records, Unknown: s.Unknown, ActiveRecords: s.ActiveRecords, ActiveUnknown: s.ActiveUnknown,
	}}
	for i := range s.Moves {
		v.Moves = append(v.Moves, planMove(&s.Moves[i]))
	}
	for i := range s.Underway {
		v.Underway = append(v.Underway, planMove(&s.Underway[i]))
	}
	return v
}

func planMove(m *streams.PlanMove) web.PlanMove {
	return web.PlanMove{
		Task: fmt.Sprintf("%s_%d", m.Task.Subtopology, m.Task.Partition), Role: roleText(m.Role), From: m.From, To: m.To,
		Restore: restoreTexts[m.Restore], Records: m.Records,
	}
}

var restoreTexts = [...]string{
	streams.RestoreNothing: "nothing", streams.RestoreCaughtUp: "caught-up", streams.RestoreBehind: "behind", streams.RestoreScratch: "from-scratch",
	streams.RestoreUnknown: "unknown",
}

// planShape says how evenly tasks are dealt to the members that of says are there.
func planShape(members []streams.PlanMember, of func(*streams.PlanMember) (*topology.Assignment, bool)) web.PlanShape {
	var s web.PlanShape
	processes := map[string]int{}
	for i := range members {
		a, there := of(&members[i])
		if !there {
			continue
		}
		active, standby := a.Active.Len(), a.Standby.Len()
		if s.Members == 0 {
			s.ActiveMin, s.StandbyMin = active, standby
		}
		s.Members++
		s.ActiveMin, s.ActiveMax = min(s.ActiveMin, active), max(s.ActiveMax, active)
		s.StandbyMin, s.StandbyMax = min(s.StandbyMin, standby), max(s.StandbyMax, standby)
		processes[members[i].ProcessID] += active
	}
	for _, active := range processes {
		if s.Processes == 0 {
			s.ProcessActiveMin = active
		}
		s.Processes++
		s.ProcessActiveMin, s.ProcessActiveMax = min(s.ProcessActiveMin, active), max(s.ProcessActiveMax, active)
	}
	return s
}

// planNotes say what a plan leaves open.
func planNotes(p *streams.Plan) []string {
	notes := []string{}
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	members := 0
	for i := range p.Members {
		if !p.Members[i].Added {
			members++
		}
	}
	if p.State != streams.StateStable && members > 0 {
		note("the group is %s: moves are counted from where its tasks are going", p.State)
	}
	if p.Stands {
		note("the topics of the group's topology are not complete: until they are, everybody keeps what he has and nobody gets anything")
	}
	if p.Stateful && members > 0 && p.Reporting == 0 {
		led := ""
		if p.LedForMs >= 0 {
			led = fmt.Sprintf("; members report within streams.task.offset.interval.ms (%d) of a change of leader, which was %s ago; ask again then",
				p.OffsetIntervalMs, (time.Duration(p.LedForMs) * time.Millisecond).Round(time.Second))
		}
		note("no member has reported offsets of tasks: what the members that are there have to restore is not known%s", led)
	} else if p.Stateful && p.Reporting < members {
		note("%d of %d members have reported offsets of tasks; what the others have to restore is not known", p.Reporting, members)
	}
	if len(p.MissingTags) > 0 {
		tags := "tag"
		if len(p.MissingTags) > 1 {
			tags = "tags"
		}
		note("the added processes lack the client %s %s, by which standbys are spread: name them with --tag", tags, strings.Join(p.MissingTags, ", "))
	}
	for _, l := range p.Lacking {
		if l.Members == l.Of {
			note("no member has the client tag %s, by which standbys are spread", l.Tag)
		} else {
			note("%d of %d members lack the client tag %s, by which standbys are spread", l.Members, l.Of, l.Tag)
		}
	}
	if p.Cut {
		note("further steps follow that were not computed")
	}
	return notes
}
