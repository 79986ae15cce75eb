package cases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/topology"
)

// Quality are the measures that AssignorBench prints, by the same names. Spreads are the most less the least of a member, a
// process, or a thread of a process; warm-ups count as standbys.
type Quality struct {
	Assigned              int     `json:"assigned"`
	Of                    int     `json:"of"`
	Duplicates            int     `json:"duplicates"`
	ActiveSpreadProcess   int     `json:"activeSpreadProcess"`
	ActiveSpreadMember    int     `json:"activeSpreadMember"`
	TotalSpreadProcess    int     `json:"totalSpreadProcess"`
	Standby               int     `json:"standby"`
	StandbySpreadProcess  int     `json:"standbySpreadProcess"`
	StandbyBesideActive   int     `json:"standbyBesideActive"`
	StandbyKept           int     `json:"standbyKept"`
	MovedActiveMember     int     `json:"movedActiveMember"`
	MovedActiveProcess    int     `json:"movedActiveProcess"`
	Orphans               int     `json:"orphans"`
	ActiveToFormerStandby int     `json:"activeToFormerStandby"`
	ActivePerThreadSpread float64 `json:"activePerThreadSpread"`
	TotalPerThreadSpread  float64 `json:"totalPerThreadSpread"`
	// OrphansToStandby are the orphans among ActiveToFormerStandby; AssignorBench does not print them.
	OrphansToStandby int `json:"orphansToStandby"`
	// MovedToStandby are the active tasks of living owners that went to another process with a standby of theirs; nor does it these.
	MovedToStandby int `json:"movedToStandby"`
}

// Kafka is one line of AssignorBench.
type Kafka struct {
	Case     string  `json:"case"`
	Assignor string  `json:"assignor"`
	MedianMs float64 `json:"median_ms"`
	Quality
}

// LoadKafka reads lines of AssignorBench, by case, of one of Kafka's assignors.
func LoadKafka(path, assignorName string) (map[string]Kafka, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[string]Kafka{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var k Kafka
		if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if k.Assignor == assignorName {
			out[k.Case] = k
		}
	}
	return out, lines.Err()
}

// group is a Spec in numbers: tasks by subtopology and partition, processes in order of appearance.
type group struct {
	spec      assignor.Spec
	first     map[string]int
	tasks     int
	process   []int // by member
	threads   []int // members by process
	owner     []int // the member that a task was active on, -1: none
	standbyOn [][]int
}

func newGroup(spec assignor.Spec) *group {
	g := &group{spec: spec, first: map[string]int{}, process: make([]int, len(spec.Members))}
	for _, s := range spec.Subtopologies {
		g.first[s.ID] = g.tasks
		g.tasks += int(s.Tasks)
	}
	g.owner, g.standbyOn = make([]int, g.tasks), make([][]int, g.tasks)
	for t := range g.owner {
		g.owner[t] = -1
	}
	processes := map[string]int{}
	for i := range spec.Members {
		m := &spec.Members[i]
		p, ok := processes[m.ProcessID]
		if !ok {
			p = len(g.threads)
			processes[m.ProcessID] = p
			g.threads = append(g.threads, 0)
		}
		g.process[i] = p
		g.threads[p]++
		g.each(m.Current.Active, func(t int) { g.owner[t] = i })
		g.each(m.Current.Standby, func(t int) { g.standbyOn[t] = append(g.standbyOn[t], p) })
	}
	return g
}

func (g *group) each(set topology.Tasks, f func(task int)) {
	for i := range set {
		first := g.first[set[i].Subtopology]
		for _, p := range set[i].Partitions {
			f(first + int(p))
		}
	}
}

func (g *group) hadStandby(task, process int) bool {
	for _, p := range g.standbyOn[task] {
		if p == process {
			return true
		}
	}
	return false
}

// Measure computes the measures of an assignment of a case.
func Measure(spec assignor.Spec, out assignor.Assignment) Quality {
	g := newGroup(spec)
	q := Quality{Of: g.tasks}
	activeM := make([]int, len(spec.Members))
	activeP, standbyP, totalP := make([]int, len(g.threads)), make([]int, len(g.threads)), make([]int, len(g.threads))
	now := make([]int, g.tasks) // 1 + process
	for i := range spec.Members {
		p := g.process[i]
		g.each(out[spec.Members[i].ID].Active, func(t int) {
			if now[t] != 0 {
				q.Duplicates++
			}
			now[t] = p + 1
			activeM[i]++
			g.measureActive(&q, t, i)
		})
		activeP[p] += activeM[i]
		q.Assigned += activeM[i]
	}
	for i := range spec.Members {
		p, a := g.process[i], out[spec.Members[i].ID]
		for _, role := range [...]topology.Tasks{a.Standby, a.Warmup} {
			g.each(role, func(t int) {
				q.Standby++
				standbyP[p]++
				if now[t] == p+1 {
					q.StandbyBesideActive++
				}
				if g.hadStandby(t, p) {
					q.StandbyKept++
				}
			})
		}
	}
	for p := range totalP {
		totalP[p] = activeP[p] + standbyP[p]
	}
	for _, owner := range g.owner {
		if owner < 0 {
			q.Orphans++
		}
	}
	q.ActiveSpreadMember, q.ActiveSpreadProcess = spread(activeM), spread(activeP)
	q.StandbySpreadProcess, q.TotalSpreadProcess = spread(standbyP), spread(totalP)
	q.ActivePerThreadSpread, q.TotalPerThreadSpread = g.perThread(activeP), g.perThread(totalP)
	return q
}

func (g *group) measureActive(q *Quality, task, member int) {
	p, owner := g.process[member], g.owner[task]
	if owner >= 0 && owner != member {
		q.MovedActiveMember++
		if g.process[owner] != p {
			q.MovedActiveProcess++
		}
	}
	if g.hadStandby(task, p) && (owner < 0 || g.process[owner] != p) {
		q.ActiveToFormerStandby++
		if owner < 0 {
			q.OrphansToStandby++
		} else {
			q.MovedToStandby++
		}
	}
}

func spread(n []int) int {
	least, most := math.MaxInt, 0
	for _, v := range n {
		least, most = min(least, v), max(most, v)
	}
	return max(0, most-least)
}

func (g *group) perThread(n []int) float64 {
	least, most := math.Inf(1), 0.0
	for p, threads := range g.threads {
		v := float64(n[p]) / float64(threads)
		least, most = min(least, v), max(most, v)
	}
	return math.Round((most-least)*100) / 100
}

// Worse says in what an assignment is worse than Kafka's of the same case: what is spread over members and processes, and how
// many active tasks left a member that is still there. Owners may give up some to standbys, so that orphans get to theirs: at most
// three for two orphans more than with Kafka.
func Worse(q, kafka Quality) (in []string) {
	exchanges := min(q.MovedToStandby, max(0, q.OrphansToStandby-kafka.ActiveToFormerStandby)*3/2)
	for _, m := range []struct {
		what       string
		ours, that float64
	}{
		{"activeSpreadMember", float64(q.ActiveSpreadMember), float64(kafka.ActiveSpreadMember)},
		{"activeSpreadProcess", float64(q.ActiveSpreadProcess), float64(kafka.ActiveSpreadProcess)},
		{"standbySpreadProcess", float64(q.StandbySpreadProcess), float64(kafka.StandbySpreadProcess)},
		{"totalSpreadProcess", float64(q.TotalSpreadProcess), float64(kafka.TotalSpreadProcess)},
		{"activePerThreadSpread", q.ActivePerThreadSpread, kafka.ActivePerThreadSpread},
		{"totalPerThreadSpread", q.TotalPerThreadSpread, kafka.TotalPerThreadSpread},
		{"movedActiveMember", float64(q.MovedActiveMember), float64(kafka.MovedActiveMember + exchanges)},
	} {
		if m.ours > m.that {
			in = append(in, fmt.Sprintf("%s %g, Kafka's %g", m.what, m.ours, m.that))
		}
	}
	return in
}
