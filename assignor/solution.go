package assignor

import "github.com/coordd/coordd/topology"

// solution is a growing assignment. The copies of a task are the members that got it; the first is the active one.
type solution struct {
	*problem
	// maxCopies is how many copies a stateful task can have: one active, the standbys asked for, and no two in one process.
	maxCopies int
	copies    []int32 // member by task*maxCopies + copy
	numCopies []int32 // by task
	// count is the number of tasks of all roles by member, processCount by process.
	count, processCount []int32
	// pool is the last one, whose memory the next one uses.
	pool *pool
}

func newSolution(p *problem, standbys int) *solution {
	maxCopies := 1 + min(max(standbys, 0), p.numProcesses()-1)
	return &solution{
		problem: p, maxCopies: maxCopies,
		copies: p.ints(p.numTasks() * maxCopies), numCopies: p.ints(p.numTasks()),
		count: p.ints(len(p.members)), processCount: p.ints(p.numProcesses()),
	}
}

// give assigns a copy of the task to the member: the first is the active one.
func (s *solution) give(task, member int32) {
	s.copy(task, member)
	s.count[member]++
	s.processCount[s.process[member]]++
}

// copy does so for a member that is counted elsewhere.
func (s *solution) copy(task, member int32) {
	s.copies[int(task)*s.maxCopies+int(s.numCopies[task])] = member
	s.numCopies[task]++
}

func (s *solution) copiesOf(task int32) []int32 {
	at := int(task) * s.maxCopies
	return s.copies[at : at+int(s.numCopies[task])]
}

// holds reports whether a member of the process has a copy of the task.
func (s *solution) holds(task, process int32) bool {
	for _, m := range s.copiesOf(task) {
		if s.process[m] == process {
			return true
		}
	}
	return false
}

// lighter reports whether process a has a lower load, that is tasks for each member, than b.
func (s *solution) lighter(a, b int32) bool {
	return int64(s.processCount[a])*int64(s.size(b)) < int64(s.processCount[b])*int64(s.size(a))
}

// result gives the assignment its public shape. Each member's tasks have memory of their own, because what is kept of an
// assignment for long is single members' parts; what a member has already is used again.
func (s *solution) result() Assignment {
	// A member has two lists: of active tasks and, after it, of standbys.
	lengths := s.ints(2 * len(s.members))
	s.eachCopy(func(_, member, standby int32) { lengths[2*member+standby]++ })
	of := s.newLists(lengths)
	s.eachCopy(func(t, member, standby int32) { of.add(2*member+standby, t) })
	out := make(Assignment, len(s.members))
	for m, i := range s.members {
		member := &s.spec.Members[i]
		active, standby := of.of(2*int32(m)), of.of(2*int32(m)+1)
		out[member.ID] = s.assignment(active, standby, &member.Current)
	}
	return out
}

func (s *solution) assignment(active, standby []int32, current *topology.Assignment) topology.Assignment {
	a := topology.Assignment{Active: s.same(current.Active, active), Standby: s.same(current.Standby, standby)}
	if a.Active != nil {
		active = nil
	}
	if a.Standby != nil {
		standby = nil
	}
	if len(active)+len(standby) == 0 {
		return a
	}
	sets := make(topology.Tasks, 0, s.subtopologiesOf(active)+s.subtopologiesOf(standby))
	partitions := make([]int32, len(active)+len(standby))
	sets = s.appendTasks(sets, active, partitions)
	n := len(sets)
	sets = s.appendTasks(sets, standby, partitions[len(active):])
	if n > 0 {
		a.Active = sets[:n:n]
	}
	if n < len(sets) {
		a.Standby = sets[n:]
	}
	return a
}

// same returns the set, without epochs, if it is that of ascending task numbers, else nil.
func (s *solution) same(set topology.Tasks, numbers []int32) topology.Tasks {
	left := numbers
	for i := range set {
		e := &set[i]
		if len(left) < len(e.Partitions) || len(e.Partitions) == 0 {
			return nil
		}
		sub := s.subtopology[left[0]]
		first, end := s.firstTask[sub], s.firstTask[sub+1]
		if e.Subtopology != s.spec.Subtopologies[sub].ID || left[len(e.Partitions)-1] >= end {
			return nil
		}
		for k, partition := range e.Partitions {
			if left[k]-first != partition {
				return nil
			}
		}
		left = left[len(e.Partitions):]
	}
	if len(left) > 0 || len(numbers) == 0 {
		return nil
	}
	return set.WithoutEpochs()
}

// eachCopy calls f for each copy in the order of tasks; standby is 0 for active ones, else 1.
func (s *solution) eachCopy(f func(task, member, standby int32)) {
	for t, n := range s.numCopies {
		for i, m := range s.copies[t*s.maxCopies:][:n] {
			f(int32(t), m, int32(min(i, 1)))
		}
	}
}

// tasks makes a set of ascending task numbers.
func (s *solution) tasks(numbers []int32) topology.Tasks {
	if len(numbers) == 0 {
		return nil
	}
	return s.appendTasks(make(topology.Tasks, 0, s.subtopologiesOf(numbers)), numbers, make([]int32, len(numbers)))
}

// subtopologiesOf counts those of ascending task numbers.
func (s *solution) subtopologiesOf(numbers []int32) (n int) {
	last := int32(-1)
	for _, t := range numbers {
		if sub := s.subtopology[t]; sub != last {
			last = sub
			n++
		}
	}
	return n
}

// appendTasks appends ascending task numbers to a set that has room for them, with partitions in memory that is given.
func (s *solution) appendTasks(set topology.Tasks, numbers, partitions []int32) topology.Tasks {
	start := 0
	for start < len(numbers) {
		sub := s.subtopology[numbers[start]]
		first, last := s.firstTask[sub], s.firstTask[sub+1]
		end := start
		for end < len(numbers) && numbers[end] < last {
			partitions[end] = numbers[end] - first
			end++
		}
		set = set[:len(set)+1] // no append, which would write a whole element: the rest of it is zero
		e := &set[len(set)-1]
		e.Subtopology, e.Partitions = s.spec.Subtopologies[sub].ID, partitions[start:end:end]
		start = end
	}
	return set
}

// lists are many lists of known lengths in one array.
type lists struct {
	start, next, all []int32
}

func (s *scratch) newLists(lengths []int32) lists {
	n, total := len(lengths), int32(0)
	for _, length := range lengths {
		total += length
	}
	memory := s.ints(2*n + 1 + int(total))
	l := lists{start: memory[:n+1], next: memory[n+1 : 2*n+1], all: memory[2*n+1:]}
	for i, length := range lengths {
		l.next[i] = l.start[i]
		l.start[i+1] = l.start[i] + length
	}
	return l
}

func (l *lists) add(list, value int32) {
	l.all[l.next[list]] = value
	l.next[list]++
}

func (l *lists) of(list int32) []int32 { return l.all[l.start[list]:l.start[list+1]] }
