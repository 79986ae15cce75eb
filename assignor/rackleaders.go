package assignor

import "slices"

// leaderRacks are where the leaders of tasks' partitions are, as far as a process is there, too. It is nil where active tasks
// are placed without regard to them.
type leaderRacks struct {
	// ofTask and ofProcess are numbers of racks; -1: none, or not known.
	ofTask, ofProcess []int32
	racks             int
}

// newLeaderRacks reads the Spec. Who is where is said by the first member of a process.
func newLeaderRacks(p *problem) *leaderRacks {
	if !slices.ContainsFunc(p.spec.Subtopologies, func(s Subtopology) bool { return s.LeaderRacks != nil }) {
		return nil
	}
	l := &leaderRacks{ofTask: make([]int32, p.numTasks()), ofProcess: make([]int32, p.numProcesses())}
	numbers := map[string]int32{}
	for process := range l.ofProcess {
		l.ofProcess[process] = -1
		rack := p.spec.Members[p.members[p.first[process]]].RackID
		if rack == nil || *rack == "" {
			continue
		}
		n, ok := numbers[*rack]
		if !ok {
			n = int32(len(numbers))
			numbers[*rack] = n
		}
		l.ofProcess[process] = n
	}
	l.racks = len(numbers)
	some := false
	for t := range l.ofTask {
		l.ofTask[t] = -1
		i := p.subtopology[t]
		racks, partition := p.spec.Subtopologies[i].LeaderRacks, int32(t)-p.firstTask[i]
		if int(partition) < len(racks) && racks[partition] != "" {
			if n, ok := numbers[racks[partition]]; ok {
				l.ofTask[t], some = n, true
			}
		}
	}
	if !some {
		return nil
	}
	return l
}

// near reports whether the leader of a task is in the rack of a process.
func (l *leaderRacks) near(task, process int32) bool {
	return l.ofTask[task] >= 0 && l.ofTask[task] == l.ofProcess[process]
}

// keepOrder is the order in which tasks are left with who has them: those near their leaders first, so that who has too many
// gives up others.
func (a *actives) keepOrder() []int32 {
	if a.leaders == nil {
		return a.byPartition
	}
	order, far := make([]int32, 0, len(a.byPartition)), make([]int32, 0, len(a.byPartition))
	for _, t := range a.byPartition {
		if m := a.prevActive[t]; m >= 0 && a.leaders.near(t, a.process[m]) {
			order = append(order, t)
		} else {
			far = append(far, t)
		}
	}
	return append(order, far...)
}

// placeNear gives the tasks that nobody has to members of the lightest processes in the rack of the leader, where there is room.
// Processes get what they would without racks, but for the tasks that some members have more than others: among processes that
// may have one more, those in racks with more tasks than room come first. So the fewest tasks are away from their leaders that
// the balance allows.
func (a *actives) placeNear(q *pool) {
	var tasks []int32
	for t := range int32(a.numTasks()) {
		if a.numCopies[t] == 0 {
			tasks = append(tasks, t)
		}
	}
	all := a.roomNear(tasks)
	byRack := make([][]int32, a.leaders.racks)
	far := tasks[:0]
	for _, t := range tasks {
		if r := a.leaders.ofTask[t]; r >= 0 {
			byRack[r] = append(byRack[r], t)
		} else {
			far = append(far, t)
		}
	}
	room := make([]int32, len(all))
	for rack, of := range byRack {
		for p := range room {
			room[p] = 0
			if a.leaders.ofProcess[p] == int32(rack) {
				room[p] = all[p]
			}
		}
		q.open(room)
		for _, t := range of {
			if q.full() {
				far = append(far, t)
				continue
			}
			p := q.heap[0].process
			q.take(t)
			all[p]--
		}
	}
	slices.Sort(far)
	q.open(all)
	for _, t := range far {
		q.take(t)
	}
}

// roomNear is how many of the tasks each process gets.
func (a *actives) roomNear(tasks []int32) []int32 {
	room, lacking := slices.Clone(a.base), make([]int32, a.leaders.racks)
	for _, t := range tasks {
		if r := a.leaders.ofTask[t]; r >= 0 {
			lacking[r]++
		}
	}
	open := len(tasks)
	for p, n := range room {
		open -= int(n)
		if r := a.leaders.ofProcess[p]; r >= 0 {
			lacking[r] -= n
		}
	}
	for _, limit := range a.roomBeyond() {
		open = a.shareNear(room, limit, lacking, open)
	}
	return room
}

// roomBeyond is how many tasks beyond least each process may get yet: those that it gets in proportion to its size, rounded up,
// and then what its members can have, as others may keep more than their share.
func (a *actives) roomBeyond() [2][]int32 {
	share, rest := make([]int32, a.numProcesses()), make([]int32, a.numProcesses())
	for m, n := range a.count {
		if n <= a.least && !a.isStale(int32(m)) {
			rest[a.process[m]]++
		}
	}
	for p := range rest {
		share[p] = min(a.extra[p], rest[p])
		rest[p] -= share[p]
	}
	return [2][]int32{share, rest}
}

// shareNear gives open places within limits to the lightest process again and again, and returns how many are left. Which of the
// processes that are equally loaded at the end get the last places is for racks to say: first those that lack places.
func (a *actives) shareNear(room, limit, lacking []int32, open int) int {
	load := func(p int32) float64 { return float64(a.processCount[p]+room[p]) / float64(a.size(p)) }
	q := &pool{solution: a.solution}
	for p := range int32(len(room)) {
		if limit[p] > 0 {
			q.push(processLoad{load(p), p})
		}
	}
	var equal []int32 // that got a place at the last load, or could have got one
	last := -1.0
	got := 0
	for open > 0 && !q.full() {
		top := &q.heap[0]
		if top.load > last {
			for _, p := range equal[:got] {
				a.placed(lacking, p)
			}
			equal, got, last = equal[:0], 0, top.load
		}
		p := top.process
		equal = append(equal, p)
		got++
		open--
		room[p]++
		if limit[p]--; limit[p] == 0 {
			q.pop()
		} else {
			top.load = load(p)
			q.sift(0)
		}
	}
	for ; !q.full() && q.heap[0].load == last; q.pop() {
		equal = append(equal, q.heap[0].process)
	}
	a.shareLast(room, limit, lacking, equal, got)
	return open
}

// shareLast gives the places that the first of some equally loaded processes got to those of them in racks that lack places, and then
// to others.
func (a *actives) shareLast(room, limit, lacking, equal []int32, places int) {
	for _, p := range equal[:places] {
		room[p]--
		limit[p]++
	}
	served := make([]bool, len(equal))
	for _, near := range []bool{true, false} {
		for i, p := range equal {
			r := a.leaders.ofProcess[p]
			if places == 0 || served[i] || near && (r < 0 || lacking[r] <= 0) {
				continue
			}
			served[i] = true
			places--
			room[p]++
			limit[p]--
			a.placed(lacking, p)
		}
	}
}

// placed counts a place of a process for its rack.
func (a *actives) placed(lacking []int32, process int32) {
	if r := a.leaders.ofProcess[process]; r >= 0 {
		lacking[r]--
	}
}
