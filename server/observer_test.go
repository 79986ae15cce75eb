package server

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/topology"
)

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := newObserver(hclog.New(&hclog.LoggerOptions{Output: &out}), nil)
		refuse := func(code coordinator.Code, times int) {
			for range times {
				o.event(0, shard.Event{Group: "g", Member: "m", Refused: &coordinator.Error{Code: code}})
			}
		}
		refuse(coordinator.UnknownMemberID, 1000)
		refuse(coordinator.InvalidRequest, 1)
		time.Sleep(time.Second)
		refuse(coordinator.UnknownMemberID, 1000)
		if n := strings.Count(out.String(), "refused"); n != 3 || !strings.Contains(out.String(), "left-out=999") {
			t.Errorf("%d lines:\n%s", n, out.String())
		}
	})
}

func TestFailuresDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := newObserver(hclog.New(&hclog.LoggerOptions{Output: &out}), nil)
		for range 2 {
			for range 1000 {
				o.event(0, shard.Event{Group: "g", Failed: errors.New("no assignment")})
			}
			o.event(0, shard.Event{Group: "other", Failed: errors.New("no assignment")})
			time.Sleep(time.Second)
		}
		if n := strings.Count(out.String(), "a decision failed"); n != 4 || !strings.Contains(out.String(), "left-out=999") {
			t.Errorf("%d lines:\n%s", n, out.String())
		}
	})
}

func TestNamesInTheLogAreCut(t *testing.T) {
	var out bytes.Buffer
	o := newObserver(hclog.New(&hclog.LoggerOptions{Output: &out}), nil)
	long := strings.Repeat("ä", 10_000) + "\n\x1b[2J"
	for _, e := range []shard.Event{
		{Group: long, Failed: errors.New("x")},
		{Group: long, Member: long, Refused: &coordinator.Error{Code: coordinator.UnknownMemberID, Message: long}},
		{Group: long, Cause: streams.Cause{Kinds: streams.CauseJoin, MemberID: long, Detail: long}},
		{Group: long, Grace: &streams.GraceChange{Began: true, Problem: long}},
		{Group: long, Grace: &streams.GraceChange{Ready: true}},
		{Group: long, Grace: &streams.GraceChange{Problem: long}},
		{Group: long, Expired: true},
		{Group: long, Unreported: &streams.WarmupUnreported{Member: long, Tasks: topology.NewTasks(topology.Task{Subtopology: long})}},
		{Group: long, Stalled: &streams.WarmupStalled{Member: long, Task: topology.Task{Subtopology: long}}},
		{Group: long, Before: streams.StateEmpty, After: streams.StateDead},
	} {
		out.Reset()
		o.event(0, e)
		if n := out.Len(); n == 0 || n > 4*maxLogged || strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%d bytes: %.300q", n, out.String())
		}
	}
}

// TestAGraceIsLogged: one line when it begins and one when it ends, with what is wrong.
func TestAGraceIsLogged(t *testing.T) {
	var out bytes.Buffer
	o := newObserver(hclog.New(&hclog.LoggerOptions{Output: &out}), nil)
	for want, g := range map[string]streams.GraceChange{
		"[WARN]  topics do not fit: the group goes on with the partition counts of before: group=g for=1m0s problem=\"in is missing\"": {Began: true, LengthMs: 60_000, Problem: "in is missing"},
		"[INFO]  topics fit again: group=g after=20s": {Ready: true, LengthMs: 20_000},
		"[WARN]  topics have not fitted for too long: the group no longer goes on: group=g after=1m0s problem=\"in is missing\"": {LengthMs: 60_000, Problem: "in is missing"},
	} {
		out.Reset()
		o.event(0, shard.Event{Group: "g", Grace: &g})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}
