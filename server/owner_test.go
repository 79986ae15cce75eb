package server

import (
	"sync/atomic"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
)

func TestOneGoroutineAtATimeOwnsTheShard(t *testing.T) {
	const posters, each = 16, 2000
	var inside, steps, flushes atomic.Int64
	done := make(chan struct{})
	o := &owner{
		step: func(input) {
			if inside.Add(1) != 1 {
				t.Error("two goroutines step at once")
			}
			inside.Add(-1)
			if steps.Add(1) == posters*each {
				close(done)
			}
		},
		flush: func() { flushes.Add(1) },
	}
	for range posters {
		go func() {
			for range each {
				o.post(input{kind: inputTick})
			}
		}()
	}
	<-done
	if flushes.Load() == 0 {
		t.Fatal("never flushed")
	}
}

func TestInputsOfAStepAreSteppedAfterIt(t *testing.T) {
	var order []uint64
	o := &owner{flush: func() {}}
	o.step = func(in input) {
		order = append(order, in.id)
		if in.id < 3 {
			o.post(input{id: in.id + 1}) // must not recurse
		}
	}
	o.post(input{id: 1})
	if len(order) != 3 || order[0] != 1 || order[2] != 3 {
		t.Fatalf("%v", order)
	}
}

type told struct{ n int }

func (d *told) CallDone(*shard.Call) { d.n++ }

func TestClosedShardRefusesCalls(t *testing.T) {
	o := &owner{step: func(input) { t.Error("stepped") }, flush: func() {}}
	o.close()
	d := &told{}
	c := &shard.Call{Done: d}
	o.post(input{kind: inputCall, call: c})
	if d.n != 1 || c.Err == nil || c.Err.Code != coordinator.NotCoordinator {
		t.Fatalf("told %d times: %v", d.n, c.Err)
	}
}
