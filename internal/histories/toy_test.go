package histories

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// fault is one that is built into the toy coordinator.
type fault string

const (
	sound      fault = ""
	noFence    fault = "commits are not fenced"
	fenceFirst fault = "commits are fenced when they arrive only"
	earlyReply fault = "commits are acknowledged before they are stored"
)

// toy is a coordinator of one partition whose requests arrive late, are stored later and answered last; its leader dies now and
// then, with all that is not stored. Time goes by steps.
type toy struct {
	fault  fault
	rand   *rand.Rand
	now    time.Duration
	ops    []Op
	stored state
	todo   map[time.Duration][]func()
	life   int // of the leader
	values int64
}

// later runs f after one to most steps, and says when.
func (s *toy) later(most int, f func()) time.Duration {
	at := s.now + time.Duration(1+s.rand.IntN(most))
	s.todo[at] = append(s.todo[at], f)
	return at
}

func (s *toy) done(o Op, call time.Duration) {
	o.Partition, o.Call, o.Return = "p", call, s.now
	s.ops = append(s.ops, o)
}

func (s *toy) read() {
	call := s.now
	s.later(5, func() {
		o := Op{Kind: Read, Value: s.stored.value}
		s.later(5, func() { s.done(o, call) })
	})
}

func (s *toy) grant() {
	call, next := s.now, Tenure{s.stored.tenure.Number + 1, fmt.Sprint("m", s.rand.IntN(3))}
	s.stored.tenure, s.stored.epoch = next, s.stored.epoch+1
	o := Op{Kind: Grant, Tenure: next, Epoch: s.stored.epoch}
	s.later(5, func() { s.done(o, call) })
}

// commit is one of whoever has the task, or had it.
func (s *toy) commit(t Tenure, epoch int32) {
	s.values++
	o, call := commit(t, epoch, s.values, Unknown), s.now
	answered := false
	answer := func(how Outcome) {
		if !answered {
			answered = true
			o.Outcome = how
			s.later(5, func() { s.done(o, call) })
		}
	}
	fenced := func() bool { return s.fault != noFence && s.stored.tenure != t }
	s.later(5, func() {
		life := s.life
		if fenced() {
			answer(Refused)
			return
		}
		if s.fault == earlyReply {
			answer(Acknowledged)
		}
		s.later(20, func() {
			switch {
			case s.life != life:
				answer(Unknown)
			case s.fault != fenceFirst && fenced():
				answer(Refused)
			default:
				s.stored.value = o.Value
				answer(Acknowledged)
			}
		})
	})
}

func (s *toy) history() History {
	s.stored.value, s.todo = None, map[time.Duration][]func(){}
	s.grant()
	owners := []state{s.stored}
	for s.now = range time.Duration(200) {
		for _, f := range s.todo[s.now] {
			f()
		}
		switch p := s.rand.IntN(100); {
		case s.now > 170:
		case p < 30:
			s.read()
		case p < 60:
			s.commit(s.stored.tenure, s.stored.epoch)
		case p < 70:
			o := owners[s.rand.IntN(len(owners))]
			s.commit(o.tenure, o.epoch)
		case p < 75:
			s.grant()
			owners = append(owners, s.stored)
		case p < 78:
			s.life++
		}
	}
	return History{Ops: s.ops}
}

// TestPlantedFaultsAreFound: histories of a sound coordinator have nothing wrong, and the fault of each other one shows in
// most of them.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	const histories = 20
	for _, f := range []fault{sound, noFence, fenceFirst, earlyReply} {
		found := 0
		for seed := range uint64(histories) {
			s := &toy{fault: f, rand: rand.New(rand.NewPCG(seed, 0))}
			violations := Check(s.history())
			if len(violations) > 0 {
				found++
			}
			if f == sound && found > 0 {
				t.Fatalf("seed %d: %v", seed, violations)
			}
		}
		if f != sound && found < histories/2 {
			t.Errorf("%s: found in %d of %d histories only", f, found, histories)
		}
		t.Logf("%q: %d of %d", f, found, histories)
	}
}
