package streams

import (
	"testing"

	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// TestDescribeHasATopologyAlways: Kafka's admin client fails for all groups that it describes together where one has none
// (DescribeStreamsGroupsHandler), as one that was taken over from a classic app until its first member comes.
func TestDescribeHasATopologyAlways(t *testing.T) {
	state, err := fsm.State{}.EvolveAll([]record.Record{{Key: record.Key{Type: record.TypeGroupMetadata, Group: testGroup}, Value: &record.GroupMetadata{Epoch: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	env := w.env()
	d := Describe(state.Group(testGroup), nil, &env, testGroup)
	if d.Err != nil || d.Topology == nil || d.Topology.Epoch != -1 || len(d.Topology.Subtopologies) != 0 {
		t.Errorf("%+v", d)
	}
}
