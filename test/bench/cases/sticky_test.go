package cases

import (
	"strings"
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
			// Beyond what must move, owners give up tasks to standbys only, and few for what that gains.
			gained, more := q.OrphansToStandby-b.ToStandby, q.MovedActiveMember-b.Moves
			if q.ActiveSpreadMember > 1 || more > max(0, 3*gained/2) || q.MovedActiveMember-q.MovedToStandby > b.Moves {
				t.Errorf("active tasks of members differ by %d, and %d moved, %d of them to a standby, where %d must; %d orphans gained", q.ActiveSpreadMember,
					q.MovedActiveMember, q.MovedToStandby, b.Moves, gained)
			}
			if want := atMost3Moves(name, b.ByExchange); 100*q.OrphansToStandby < 98*want {
				t.Errorf("%d tasks without an owner went to a former standby where %d can", q.OrphansToStandby, want)
			}
			// By Kafka's highly available assignor processes go in pairs with each other's standbys, which leave few ways on.
			if 100*q.OrphansToStandby < 98*b.HaveStandby && !strings.Contains(name, "-hb-") {
				t.Errorf("%d tasks without an owner went to a former standby, %d have one", q.OrphansToStandby, b.HaveStandby)
			}
			k, ok := recorded[name]
			if !ok {
				t.Logf("%d of %d tasks without an owner went to one of %d former standbys, with exchanges %d can; Kafka was not asked", q.OrphansToStandby, q.Orphans, b.HaveStandby, b.ByExchange)
				return
			}
			t.Logf("orphans %d, with a former standby %d, that balance allows %d, with exchanges %d: to it %d (Kafka %d); standbys kept %d (Kafka %d); moved %d (Kafka %d)",
				q.Orphans, b.HaveStandby, b.ToStandby, b.ByExchange, q.OrphansToStandby, k.ActiveToFormerStandby, q.StandbyKept, k.StandbyKept, q.MovedActiveMember, k.MovedActiveMember)
			for _, w := range Worse(q, k.Quality) {
				t.Error(w)
			}
		})
	}
}

// atMost3Moves is how many orphans can get to a standby with no more than three moves of owners for each; that differs in one case.
func atMost3Moves(name string, byExchange int) int {
	if name == "100x1000-s1-p4-hb-leave10pct" {
		return 70 // 15 more would take 95 moves
	}
	return byExchange
}
