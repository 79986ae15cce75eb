package assignor

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/coordd/coordd/topology"
)

// problem is a Spec in dense integers: members numbered by (process id, member id), processes by id, tasks by
// (subtopology id, partition). Every tie is broken by the lower number, which makes results the same on any node.
type problem struct {
	scratch
	spec *Spec
	// members maps a member to its place in the Spec, process to its process; a process has the members from
	// first[process] to first[process+1].
	members, process, first []int32
	// fresh is how many members of a process are not stale.
	fresh []int32
	// A subtopology has the tasks from firstTask[i] to firstTask[i+1].
	firstTask []int32
	// subtopology maps a task to its subtopology; byPartition lists the tasks by (partition, subtopology id).
	subtopology, byPartition []int32
	// hasState says whether a task's subtopology is stateful.
	hasState []bool
	// stale are the members that keep what they have and get nothing else; nil where there are none, else numStale of them.
	stale    []bool
	numStale int
	// keptActive and keptStandby are what they have.
	keptActive, keptStandby []kept
	// prevActive is the member that holds a task as active now, -1 for none; stale ones do not count.
	prevActive []int32
	// onWay are the tasks that count as those of members to which they are on their way yet, receiving how many of them a member
	// has: such tasks stay there before others, else they would turn round. Both are nil where there are none.
	onWay     []bool
	receiving []int32
	// A task has the candidates from candidateStart[task] to candidateStart[task+1], best first: members that may have its
	// state.
	candidateStart []int32
	candidates     []candidate
	// contested is how many tasks have several candidates.
	contested int
	// hasWarmups says that some candidates have warm-ups.
	hasWarmups bool
}

// holding is how a member may have come by the state of a task.
type holding uint8

const (
	// reported: only an offset was reported, as a restarted process does under new member ids.
	reported holding = iota
	asStandby
	// asWarmup: as a warm-up, with which the member claims the task.
	asWarmup
)

// candidate is a member that may have the state of a task.
type candidate struct {
	task, member int32
	// holding is what counts; held is how the member has the task.
	holding, held holding
	// offset is the reported cumulative changelog position; -1 when none is known.
	offset int64
}

// kept is a task that a stale member keeps.
type kept struct{ task, member int32 }

func newProblem(spec *Spec) *problem {
	p := &problem{spec: spec}
	p.numberMembers()
	p.numberTasks()
	p.readCurrent()
	return p
}

func (p *problem) numProcesses() int { return len(p.first) - 1 }
func (p *problem) numTasks() int     { return len(p.subtopology) }

func (p *problem) isOnWay(task int32) bool { return p.onWay != nil && p.onWay[task] }
func (p *problem) receives(m int32) bool   { return p.receiving != nil && p.receiving[m] > 0 }

func (p *problem) numberMembers() {
	all := p.spec.Members
	p.members, p.process = p.ints(len(all)), p.ints(len(all))
	for i := range p.members {
		p.members[i] = int32(i)
	}
	// Most process ids differ in their first bytes.
	prefixes := make([]uint64, len(all))
	for i := range all {
		prefixes[i] = prefix(all[i].ProcessID)
	}
	slices.SortFunc(p.members, func(a, b int32) int {
		if c := cmp.Compare(prefixes[a], prefixes[b]); c != 0 {
			return c
		}
		if c := strings.Compare(all[a].ProcessID, all[b].ProcessID); c != 0 {
			return c
		}
		return strings.Compare(all[a].ID, all[b].ID)
	})
	p.first = make([]int32, 0, len(all)+1)
	for m, i := range p.members {
		if m == 0 || all[i].ProcessID != all[p.members[m-1]].ProcessID {
			p.first = append(p.first, int32(m))
		}
		p.process[m] = int32(len(p.first) - 1)
	}
	p.first = append(p.first, int32(len(all)))
	p.fresh = p.ints(p.numProcesses())
	for m, i := range p.members {
		if all[i].Stale {
			if p.stale == nil {
				p.stale = make([]bool, len(all))
			}
			p.stale[m] = true
			p.numStale++
			continue
		}
		p.fresh[p.process[m]]++
	}
}

// prefix is a number that orders strings by their first bytes.
func prefix(s string) (n uint64) {
	for i := range min(len(s), 8) {
		n |= uint64(s[i]) << (56 - 8*i)
	}
	return n
}

func (p *problem) numberTasks() {
	subtopologies := p.spec.Subtopologies
	p.firstTask = p.ints(len(subtopologies) + 1)
	for i, s := range subtopologies {
		p.firstTask[i+1] = p.firstTask[i] + max(s.Tasks, 0)
	}
	n := p.firstTask[len(subtopologies)]
	p.subtopology, p.byPartition, p.hasState = p.ints(int(n)), make([]int32, 0, n), make([]bool, n)
	remaining := make([]int32, 0, len(subtopologies))
	for i := range subtopologies {
		remaining = append(remaining, int32(i))
		for t := p.firstTask[i]; t < p.firstTask[i+1]; t++ {
			p.subtopology[t], p.hasState[t] = int32(i), subtopologies[i].Stateful
		}
	}
	for partition := int32(0); len(p.byPartition) < int(n); partition++ {
		left := remaining[:0]
		for _, i := range remaining {
			if t := p.firstTask[i] + partition; t < p.firstTask[i+1] {
				p.byPartition = append(p.byPartition, t)
				left = append(left, i)
			}
		}
		remaining = left
	}
}

// eachTask calls f with the number of every task of the set that exists. Both lists are sorted: a merge does.
func (p *problem) eachTask(set topology.Tasks, f func(task int32)) {
	subtopologies := p.spec.Subtopologies
	i := 0
	for k := range set {
		id := set[k].Subtopology
		if k > 0 && i+1 < len(subtopologies) && subtopologies[i+1].ID == id {
			i++ // most often
		}
		for i < len(subtopologies) && subtopologies[i].ID != id && subtopologies[i].ID < id {
			i++
		}
		if i == len(subtopologies) {
			return
		}
		if subtopologies[i].ID != id {
			continue
		}
		for _, partition := range set[k].Partitions {
			if partition >= 0 && partition < subtopologies[i].Tasks {
				f(p.firstTask[i] + partition)
			}
		}
	}
}

// eachOffset calls f with every position of a task that exists, in the same way.
func (p *problem) eachOffset(o Offsets, f func(task int32, offset *TaskOffset)) {
	subtopologies := p.spec.Subtopologies
	i := 0
	for k := range o {
		for i < len(subtopologies) && subtopologies[i].ID < o[k].Subtopology {
			i++
		}
		if i == len(subtopologies) {
			return
		}
		if at := o[k].Partition; subtopologies[i].ID == o[k].Subtopology && at >= 0 && at < subtopologies[i].Tasks {
			f(p.firstTask[i]+at, &o[k])
		}
	}
}

// readCurrent collects who holds, or may have the state of, which task.
func (p *problem) readCurrent() {
	p.prevActive = p.ints(p.numTasks())
	for t := range p.prevActive {
		p.prevActive[t] = -1
	}
	r := currentReader{problem: p}
	if replicas, offsets := numHeld(p.spec.Members); replicas+offsets > 0 {
		r.at, r.found = p.ints(p.numTasks()), make([]found, 0, replicas+offsets)
		if offsets > 0 {
			r.offsets = make([]int64, 0, replicas+offsets)
		}
	}
	for m, i := range p.members {
		member, m := &p.spec.Members[i], int32(m)
		if p.isStale(m) {
			p.eachTask(member.Current.Active, func(t int32) { p.keptActive = append(p.keptActive, kept{t, m}) })
			p.eachTask(member.Current.Standby, func(t int32) { p.keptStandby = append(p.keptStandby, kept{t, m}) })
			continue
		}
		p.eachTask(member.Current.Active, func(t int32) { p.prevActive[t] = m })
		r.read(member, m)
	}
	r.rankCandidates()
}

// numHeld is how many replicas and offsets members have.
func numHeld(members []Member) (replicas, offsets int) {
	for i := range members {
		m := &members[i]
		replicas += m.Current.Standby.Len() + m.Current.Warmup.Len()
		offsets += len(m.Offsets)
	}
	return replicas, offsets
}

// currentReader collects candidates.
type currentReader struct {
	*problem
	found []found
	// offsets are those of found; nil where nobody reports any.
	offsets []int64
	// at is one more than the place of a task's last candidate.
	at []int32
}

// found is a candidate in the order of members.
type found struct {
	task, member int32
	held         holding
}

func (r *currentReader) read(member *Member, m int32) {
	hold := func(set topology.Tasks, h holding) {
		r.eachTask(set, func(t int32) {
			if r.stateful(t) {
				r.of(t, m, h)
			}
		})
	}
	hold(member.Current.Standby, asStandby)
	hold(member.Current.Warmup, asWarmup)
	r.hasWarmups = r.hasWarmups || len(member.Current.Warmup) > 0
	r.eachOffset(member.Offsets, func(t int32, o *TaskOffset) {
		if r.stateful(t) {
			r.offsets[r.of(t, m, reported)] = knownOffset(o.Offset)
		}
	})
}

// of is the place of the member's candidate for the task; if it is new it holds it so.
func (r *currentReader) of(t, m int32, h holding) int32 {
	if i := r.at[t] - 1; i >= 0 && r.found[i].member == m {
		return i
	}
	r.found = append(r.found, found{t, m, h})
	if r.offsets != nil {
		r.offsets = append(r.offsets, -1)
	}
	r.at[t] = int32(len(r.found))
	return r.at[t] - 1
}

// knownOffset is -1 for a value that tells nothing: a negative one, and that to which clients cap an overflow.
func knownOffset(offset int64) int64 {
	if offset < 0 || offset == math.MaxInt64 {
		return -1
	}
	return offset
}

func (p *problem) stateful(t int32) bool { return p.hasState[t] }

// rankCandidates sorts by task with one pass of counting, then ranks those of each task: holders of a replica first, higher
// offsets first.
func (r *currentReader) rankCandidates() {
	p := r.problem
	p.candidateStart = p.ints(p.numTasks() + 1)
	if len(r.found) == 0 {
		return
	}
	for _, c := range r.found {
		p.candidateStart[c.task+1]++
	}
	for t := range p.numTasks() {
		p.candidateStart[t+1] += p.candidateStart[t]
	}
	p.candidates = make([]candidate, len(r.found))
	next := r.at
	copy(next, p.candidateStart)
	for i, f := range r.found {
		c := &p.candidates[next[f.task]]
		next[f.task]++
		if *c = (candidate{task: f.task, member: f.member, holding: f.held, held: f.held, offset: -1}); r.offsets != nil {
			c.offset = r.offsets[i]
		}
	}
	for t := range int32(p.numTasks()) {
		if of := p.candidatesOf(t); len(of) > 1 {
			p.contested++
			p.passLaggards(t, of)
			slices.SortFunc(of, compareCandidates)
		}
	}
}

// passLaggards takes standbys of a task that are further behind other state of it than the acceptable lag for no better than that:
// they have been begun while its process was away, and would take longer to be complete.
func (p *problem) passLaggards(t int32, of []candidate) {
	best, owner := int64(-1), p.prevActive[t]
	for i := range of {
		if of[i].holding == reported && of[i].member != owner {
			best = max(best, of[i].offset)
		}
	}
	for i := range of {
		if c := &of[i]; c.holding == asStandby && c.offset >= 0 && best-c.offset > p.spec.AcceptableRecoveryLag {
			c.holding = reported
		}
	}
}

func compareCandidates(a, b candidate) int {
	if (a.holding == reported) != (b.holding == reported) {
		return cmp.Compare(b.holding, a.holding)
	}
	if c := cmp.Compare(b.offset, a.offset); c != 0 {
		return c
	}
	if (a.held == reported) != (b.held == reported) {
		return cmp.Compare(b.held, a.held)
	}
	return cmp.Compare(a.member, b.member)
}

func (p *problem) candidatesOf(t int32) []candidate {
	return p.candidates[p.candidateStart[t]:p.candidateStart[t+1]]
}
