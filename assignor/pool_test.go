package assignor

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// scan finds what pool should, the slow way.
func scan(s *solution, task int32) int32 {
	process := int32(-1)
	for p := range int32(s.numProcesses()) {
		if !s.holds(task, p) && (process < 0 || s.lighter(p, process)) {
			process = p
		}
	}
	if process < 0 {
		return -1
	}
	best := s.first[process]
	for m := best; m < s.first[process+1]; m++ {
		if s.count[m] < s.count[best] {
			best = m
		}
	}
	return best
}

func TestPoolAgreesWithAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Subtopologies: []Subtopology{{ID: "0", Tasks: 40, Stateful: true}}, NumStandbyReplicas: 4}
		for i := range rapid.IntRange(1, 12).Draw(t, "members") {
			spec.Members = append(spec.Members, Member{ID: fmt.Sprintf("m%02d", i), ProcessID: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "process"))})
		}
		s := newSolution(newProblem(&spec), spec.NumStandbyReplicas)
		for task := range rapid.Int32Range(0, 20).Draw(t, "given") {
			s.give(task, rapid.Int32Range(0, int32(len(spec.Members)-1)).Draw(t, "member"))
		}
		q, room := newPool(s), make([]int32, s.numProcesses())
		for p := range room {
			room[p] = 1000
		}
		q.open(room)
		for range 100 {
			task := rapid.Int32Range(0, 39).Draw(t, "task")
			if int(s.numCopies[task]) == s.maxCopies {
				continue
			}
			want := scan(s, task)
			ok := q.takeApart(task)
			if ok != (want >= 0) || ok && s.copiesOf(task)[s.numCopies[task]-1] != want {
				t.Fatalf("task %d (%v): members %d, want %d more", task, ok, s.copiesOf(task), want)
			}
		}
	})
}
