package upstream

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// When the upstream gave the id of a group to somebody else while the claim was lost, whoever believes to hold the claim
// must hear of it, or it would never claim again.
func TestRefusedRenewalIsToldToWhoBelievesToHoldTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		var taken atomic.Bool
		taken.Store(true)
		w.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			if !taken.Load() {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
			partition := kmsg.OffsetCommitResponseTopicPartition{ErrorCode: kerr.UnknownMemberID.Code}
			resp.Topics = []kmsg.OffsetCommitResponseTopic{{Topic: "in", Partitions: []kmsg.OffsetCommitResponseTopicPartition{partition}}}
			return resp, nil, true
		})
		w.cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			if !taken.Load() {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
			return resp, nil, true
		})
		for range 2 {
			if code := w.commit(o, commitReq("g", 1, 1)); code != coordinator.NotCoordinator {
				t.Errorf("commit while the id is another's: %d", code)
			}
		}
		taken.Store(false)
		w.mustClaim(o, "g")
		if code := w.commit(o, commitReq("g", 1, 2)); code != coordinator.None {
			t.Errorf("commit after a new claim: %d", code)
		}
	})
}
