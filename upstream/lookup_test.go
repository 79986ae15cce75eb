package upstream

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topology"
)

// Only UNKNOWN_TOPIC_OR_PARTITION says that a topic does not exist.
func TestWhatIsSaidOfTopicsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.node().client
		found, err := c.Lookup(t.Context(), []string{"in", "nowhere"})
		if err != nil || len(found) != 2 || !found["nowhere"].Missing || found["in"].Missing || found["in"].ID == [16]byte{} {
			t.Fatalf("%+v %v", found, err)
		}
		if found, err := c.Lookup(t.Context(), []string{"nowhere"}); err != nil || !found["nowhere"].Missing {
			t.Errorf("created by asking: %+v %v", found, err)
		}
		if found, err := c.Lookup(t.Context(), nil); err != nil || len(found) != 0 {
			t.Errorf("%+v %v", found, err)
		}
		codes := map[string]int16{
			"secret": kerr.TopicAuthorizationFailed.Code, "busy": kerr.LeaderNotAvailable.Code, "odd": kerr.InvalidTopicException.Code,
			"nowhere": kerr.UnknownTopicOrPartition.Code, "in": 0,
		}
		w.cluster.ControlKey(3, func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			req := r.(*kmsg.MetadataRequest)
			if len(req.Topics) == 0 {
				return nil, nil, false
			}
			resp := r.ResponseKind().(*kmsg.MetadataResponse)
			for _, topic := range req.Topics[1:] { // of the first it says nothing
				rt := kmsg.NewMetadataResponseTopic()
				rt.Topic, rt.ErrorCode = topic.Topic, codes[*topic.Topic]
				if rt.ErrorCode == 0 {
					rt.TopicID = [16]byte{7}
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp, nil, true
		})
		found, err = c.Lookup(t.Context(), []string{"untold", "secret", "busy", "odd", "nowhere", "in"})
		want := map[string]topology.Lookup{"nowhere": {Missing: true}, "in": {ID: [16]byte{7}}}
		if d := cmp.Diff(want, found); d != "" || err != nil {
			t.Error(d, err)
		}
	})
}
