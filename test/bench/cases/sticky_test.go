package cases

import (
	"testing"

	"github.com/coordd/coordd/assignor"
)

// TestStickyAgainstKafka holds the sticky assignor to what Kafka's makes of the same input, and to what is possible.
func TestStickyAgainstKafka(t *testing.T) {
	recorded := kafka(t, "sticky")
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			spec := load(t, name)
			out, err := assignor.Sticky().Assign(spec)
			if err != nil {
				t.Fatal(err)
			}
			q, b := Measure(spec, out), BoundsOf(spec)
			checkWhole(t, spec, q)
			if q.ActiveSpreadMember > 1 || q.MovedActiveMember > b.Moves {
				t.Errorf("active tasks of members differ by %d, and %d moved where %d must", q.ActiveSpreadMember, q.MovedActiveMember, b.Moves)
			}
			if 100*q.OrphansToStandby < 98*b.ToStandby {
				t.Errorf("%d tasks without an owner went to a former standby where %d can", q.OrphansToStandby, b.ToStandby)
			}
			k, ok := recorded[name]
			if !ok {
				t.Logf("%d of %d tasks without an owner went to one of %d former standbys; Kafka was not asked", q.OrphansToStandby, q.Orphans, b.HaveStandby)
				return
			}
			t.Logf("orphans %d, with a former standby %d, that balance allows %d: to it %d (Kafka %d); standbys kept %d (Kafka %d); moved %d (Kafka %d)",
				q.Orphans, b.HaveStandby, b.ToStandby, q.OrphansToStandby, k.ActiveToFormerStandby, q.StandbyKept, k.StandbyKept, q.MovedActiveMember, k.MovedActiveMember)
			for _, w := range Worse(q, k.Quality) {
				t.Error(w)
			}
		})
	}
}
