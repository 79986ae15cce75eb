package streams

import (
	"fmt"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// maxAssigned is how many bytes a member's tasks may take in a record: half of one, since the tasks that the member is to
// give up stand beside those that it keeps.
const maxAssigned = record.MaxRecordSize / 2

// checkStorable refuses tasks of a member that no record could hold: the group would never get over them.
func checkStorable(group, member string, goal topology.Assignment) error {
	r := record.Record{Key: record.Key{Type: record.TypeCurrentAssignment, Group: group, Member: member},
		Value: &record.CurrentAssignment{Assigned: goal}}
	if size := record.Size(r); size > maxAssigned {
		return fmt.Errorf("member %s would get %d tasks, which take %d bytes; at most %d can be stored: the group needs more members",
			member, goal.Len(), size, maxAssigned)
	}
	return nil
}

// checkAssignment refuses an assignor's result that would break a client or run a task twice, before anybody sees it:
// members and tasks exist, no task is active twice, and no process holds two copies of a task.
func checkAssignment(spec *assignor.Spec, goals assignor.Assignment) error {
	subtopologies := make(map[string]int32, len(spec.Subtopologies))
	total := 0
	for _, s := range spec.Subtopologies {
		subtopologies[s.ID] = s.Tasks
		total += int(s.Tasks)
	}
	active := make(map[topology.Task]string, total)
	copies := make(map[processTask]string, total)
	seen, stale := 0, 0
	for i := range spec.Members {
		m := &spec.Members[i]
		if m.Stale {
			stale++
		}
		goal, ok := goals[m.ID]
		if !ok {
			continue // nothing for this member
		}
		seen++
		if m.Stale && !within(goal, m.Current) {
			return fmt.Errorf("assignor: member %s runs an earlier topology and got tasks that it did not have", m.ID)
		}
		for role, tasks := range [...]topology.Tasks{goal.Active, goal.Standby, goal.Warmup} {
			if !tasks.IsNormal() {
				return fmt.Errorf("assignor: tasks of member %s are not in order", m.ID)
			}
			for task := range tasks.All() {
				if n, ok := subtopologies[task.Subtopology]; !ok || task.Partition < 0 || task.Partition >= n {
					return fmt.Errorf("assignor: member %s got task %s_%d, which does not exist", m.ID, task.Subtopology, task.Partition)
				}
				if role == 0 {
					if other, ok := active[task]; ok {
						return fmt.Errorf("assignor: task %s_%d is active on %s and %s", task.Subtopology, task.Partition, other, m.ID)
					}
					active[task] = m.ID
				}
				key := processTask{m.ProcessID, task}
				if other, ok := copies[key]; ok {
					return fmt.Errorf("assignor: process %s got task %s_%d twice, for members %s and %s",
						m.ProcessID, task.Subtopology, task.Partition, other, m.ID)
				}
				copies[key] = m.ID
			}
		}
	}
	if seen != len(goals) {
		return fmt.Errorf("assignor: %d members got tasks who are not in the group", len(goals)-seen)
	}
	if len(active) != total && len(spec.Members) > stale {
		return fmt.Errorf("assignor: %d of %d tasks are active nowhere", total-len(active), total)
	}
	return nil
}

// within says whether the tasks are among those that are held, each in its role.
func within(goal, held topology.Assignment) bool {
	return goal.Active.SubsetOf(held.Active) && goal.Standby.SubsetOf(held.Standby) && goal.Warmup.SubsetOf(held.Warmup)
}

type processTask struct {
	process string
	task    topology.Task
}
