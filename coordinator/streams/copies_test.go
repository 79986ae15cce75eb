package streams

import (
	"testing"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/topology"
)

// cooling is an assignor that uses warm-ups: B gets one of 0_0 and, when that has caught up, a standby.
type cooling struct{}

func (cooling) Name() string      { return "cooling" }
func (cooling) UsesWarmups() bool { return true }

func (cooling) Assign(spec assignor.Spec) (assignor.Assignment, error) {
	out, task := assignor.Assignment{}, topology.NewTasks(topology.Task{Subtopology: "0"})
	for i := range spec.Members {
		m := &spec.Members[i]
		switch {
		case m.ID == "A":
			out[m.ID] = topology.Assignment{Active: task}
		case len(m.Offsets) > 0:
			out[m.ID] = topology.Assignment{Standby: task}
		default:
			out[m.ID] = topology.Assignment{Warmup: task}
		}
	}
	return out, nil
}

// TestAWarmupThatIsNoneAnyMoreIsForgotten: what raised the epoch for it would hide the next one of the same task.
func TestAWarmupThatIsNoneAnyMoreIsForgotten(t *testing.T) {
	s := copiesWorld(t)
	s.assign = cooling{}
	s.clients, s.state, s.soft = map[string]*scriptClient{}, newWorld().state, nil
	for _, topic := range []string{"in", "cl"} {
		s.setTopic(topic, 1)
	}
	ask := func(command, member string, args map[string]string) {
		t.Helper()
		if _, err := s.request(command, []string{member, "owns"}, args); err != nil {
			t.Fatal(err)
		}
	}
	ask("join", "A", nil)
	ask("join", "B", nil)
	ask("hb", "A", nil)
	ask("hb", "B", nil)
	epoch := s.group().Epoch()
	ask("hb", "B", map[string]string{"offsets": "0_0:7", "ends": "0_0:7"})
	b := s.group().Member("B")
	if s.group().Epoch() != epoch+1 || b.Current.Assigned.Standby.IsEmpty() || len(s.soft.Members["B"].warmups) != 0 {
		t.Fatalf("epoch %d after %d, %s, %+v", s.group().Epoch(), epoch, showCurrent(b.Current), s.soft.Members["B"].warmups)
	}
}
