package streams

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coordd/coordd/topology"
)

// handedOver is the soft state of a group with members of benchmarks.
func handedOver(t *testing.T) (*world, *Soft) {
	w := stableWorld(t, 3)
	s := w.soft
	s.EndpointEpoch, s.EndpointsStale, s.AssignmentDue, s.fastEpoch, s.fastSince = 17, true, w.now+700, 7, w.now-300
	a := s.Members["member-00000"]
	a.SessionDeadline, a.RebalanceDeadline, a.RebalanceEpoch, a.DisconnectDeadline = w.now+30_000, w.now+50_000, 6, w.now+11_000
	a.toldAt, a.repeats, a.HoldCuts = w.now-2000, 2, 1
	a.TaskOffsets = []TaskOffset{{Task: topology.Task{Subtopology: "0", Partition: 1}, Offset: 1 << 40}}
	a.TaskEndOffsets = []TaskOffset{}
	s.Members["member-00001"].SessionDeadline = w.now + 10 // as good as over
	return w, s
}

// TestHandoverGoesOnWhereItWas: with the clock of another node, and a while later.
func TestHandoverGoesOnWhereItWas(t *testing.T) {
	w, s := handedOver(t)
	b := AppendHandover(nil, testGroup, s, w.now, true)
	h, rest, err := DecodeHandover(append(b, "next"...))
	if err != nil || string(rest) != "next" || h.Group != testGroup {
		t.Fatal(err, rest)
	}
	const skew, took = 1_000_000, 150
	want := *s
	at := w.now + skew // when it came, by the other clock
	w.now = at + took
	want.electedAt = w.now // who was removed before is not handed over
	want.AssignmentDue, want.fastSince = s.AssignmentDue+skew, s.fastSince+skew
	want.Members = map[string]*SoftMember{}
	for id, m := range s.Members {
		c := *m
		shift := func(at *int64) {
			if *at != 0 {
				*at += skew
			}
		}
		for _, at := range []*int64{&c.SessionDeadline, &c.RebalanceDeadline, &c.DisconnectDeadline, &c.toldAt} {
			shift(at)
		}
		want.Members[id] = &c
	}
	want.Members["member-00001"].SessionDeadline = w.now + minAfterTransferMs
	w.failover()
	w.soft.Inherit(h, w.group(), at, w.now)
	opts := cmp.Options{
		cmp.AllowUnexported(Soft{}, SoftMember{}, told{}),
		cmpopts.IgnoreFields(Soft{}, "Topics", "endpoints", "endpointsEpoch", "endpointsOf", "seenGroup", "generation"),
		cmpopts.IgnoreFields(SoftMember{}, "seen", "seenIn"),
	}
	if diff := cmp.Diff(&want, w.soft, opts); diff != "" {
		t.Fatal(diff)
	}
}

// TestHandoverOfOthers: members that are not there, or that the hand-over lacks, start as after a failover.
func TestHandoverOfOthers(t *testing.T) {
	w, s := handedOver(t)
	s.Members["gone"] = &SoftMember{SessionDeadline: w.now + 5}
	delete(s.Members, "member-00002")
	h, _, err := DecodeHandover(AppendHandover(nil, testGroup, s, w.now, false))
	if err != nil {
		t.Fatal(err)
	}
	w.failover()
	w.soft.Inherit(h, w.group(), w.now, w.now)
	switch m := w.soft.Members; {
	case m["gone"] != nil:
		t.Error("a member came into being")
	case m["member-00002"].SessionDeadline != w.now+int64(w.settings.SessionTimeoutMs):
		t.Error("a member without a hand-over has no full session time-out")
	case m["member-00000"].TaskOffsets != nil:
		t.Error("offsets were handed over")
	}
}

// FuzzDecodeHandover: any bytes are refused or decode, and what decodes can be inherited.
func FuzzDecodeHandover(f *testing.F) {
	w := stableWorld(f, 3)
	f.Add(AppendHandover(nil, testGroup, w.soft, w.now, true))
	w.soft.Members["member-00001"].TaskOffsets = []TaskOffset{{Offset: -5}}
	f.Add(AppendHandover(nil, testGroup, w.soft, w.now-5, true))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 15})
	copies := copiesWorld(f)
	f.Add(AppendHandover(nil, testGroup, copies.soft, copies.now, true))
	copies.soft.Members["B"].warmups[0].ready = true
	f.Add(AppendHandover(nil, testGroup, copies.soft, copies.now+5000, false))
	groups := []*world{w, copies.world}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, err := DecodeHandover(b)
		if err != nil {
			if !errors.Is(err, ErrHandover) || h != nil {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasSuffix(b, rest) {
			t.Fatal("the rest is none")
		}
		for _, w := range groups {
			env := w.env()
			s := NewSoftOnElection(w.group(), &env)
			s.Inherit(h, w.group(), w.now, w.now)
			for id, m := range s.Members {
				if m.SessionDeadline < w.now+minAfterTransferMs {
					t.Fatalf("%s has %d ms left", id, m.SessionDeadline-w.now)
				}
			}
		}
	})
}
