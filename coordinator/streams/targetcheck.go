package streams

import (
	"fmt"
	"sort"

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
	c := newTargetCheck(spec)
	seen, stale := 0, 0
	for _, i := range c.byProcess {
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
			if err := c.take(i, tasks, role == 0); err != nil {
				return err
			}
		}
	}
	if seen != len(goals) {
		return fmt.Errorf("assignor: %d members got tasks who are not in the group", len(goals)-seen)
	}
	if total := len(c.active); c.actives != total && len(spec.Members) > stale {
		return fmt.Errorf("assignor: %d of %d tasks are active nowhere", total-c.actives, total)
	}
	return nil
}

// targetCheck goes over an assignment process by process, so that it needs to know no more of a task than its active member and
// the last one that got a copy.
type targetCheck struct {
	spec *assignor.Spec
	// byProcess are the members, those of a process next to each other; process is the number of a member's.
	byProcess, process []int32
	// first is the number of a subtopology's first task.
	first []int
	// active and last are members by the number of the task, from 1 on; 0 is nobody.
	active, last []int32
	actives      int
}

func newTargetCheck(spec *assignor.Spec) *targetCheck {
	c := &targetCheck{spec: spec, first: make([]int, len(spec.Subtopologies))}
	total := 0
	for i := range spec.Subtopologies {
		c.first[i] = total
		total += int(spec.Subtopologies[i].Tasks)
	}
	c.active, c.last = make([]int32, total), make([]int32, total)
	c.groupMembers()
	return c
}

// groupMembers sorts members by process with one pass of counting.
func (c *targetCheck) groupMembers() {
	members := c.spec.Members
	c.byProcess, c.process = make([]int32, len(members)), make([]int32, len(members))
	numbers := make(map[string]int32, len(members))
	next := make([]int32, 1, len(members)+1)
	for i := range members {
		p, ok := numbers[members[i].ProcessID]
		if !ok {
			p = int32(len(numbers))
			numbers[members[i].ProcessID] = p
			next = append(next, 0)
		}
		c.process[i] = p
		next[p+1]++
	}
	for p := range next[1:] {
		next[p+1] += next[p]
	}
	for i, p := range c.process {
		c.byProcess[next[p]] = int32(i)
		next[p]++
	}
}

// take looks at the tasks of one role of a member.
func (c *targetCheck) take(member int32, tasks topology.Tasks, active bool) error {
	m := &c.spec.Members[member]
	if !tasks.IsNormal() {
		return fmt.Errorf("assignor: tasks of member %s are not in order", m.ID)
	}
	from := 0
	for i := range tasks {
		id := tasks[i].Subtopology
		at, ok := c.find(id, from)
		from = at + 1
		for _, partition := range tasks[i].Partitions {
			if !ok || partition < 0 || partition >= c.spec.Subtopologies[at].Tasks {
				return fmt.Errorf("assignor: member %s got task %s_%d, which does not exist", m.ID, id, partition)
			}
			t := c.first[at] + int(partition)
			if active {
				if other := c.active[t]; other > 0 {
					return fmt.Errorf("assignor: task %s_%d is active on %s and %s", id, partition, c.spec.Members[other-1].ID, m.ID)
				}
				c.active[t] = member + 1
				c.actives++
			}
			if other := c.last[t]; other > 0 && c.process[other-1] == c.process[member] {
				return fmt.Errorf("assignor: process %s got task %s_%d twice, for members %s and %s",
					m.ProcessID, id, partition, c.spec.Members[other-1].ID, m.ID)
			}
			c.last[t] = member + 1
		}
	}
	return nil
}

// find is the place of a subtopology, or where it would be: mostly at from, since both lists are sorted.
func (c *targetCheck) find(id string, from int) (at int, ok bool) {
	all := c.spec.Subtopologies
	if from < len(all) && all[from].ID == id {
		return from, true
	}
	at = sort.Search(len(all), func(i int) bool { return all[i].ID >= id })
	return at, at < len(all) && all[at].ID == id
}

// within says whether the tasks are among those that are held, each in its role.
func within(goal, held topology.Assignment) bool {
	return goal.Active.SubsetOf(held.Active) && goal.Standby.SubsetOf(held.Standby) && goal.Warmup.SubsetOf(held.Warmup)
}
