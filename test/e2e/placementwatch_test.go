//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/test/rig"
)

// sighting is how describe showed a group at a moment.
type sighting struct {
	at    time.Time
	group *rig.Group
}

// watch is a goroutine that notes what describe shows of a group, whenever that changes.
type watch struct {
	cancel context.CancelFunc
	seen   chan []sighting
}

// watch looks at the group ten times a second until stop.
func (s *subject) watch(t *testing.T) *watch {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{cancel, make(chan []sighting, 1)}
	t.Cleanup(cancel)
	go func() {
		var seen []sighting
		for ctx.Err() == nil {
			g, err := rig.DescribeGroup(s.boot, s.name, 5*time.Second)
			if err == nil && (len(seen) == 0 || !reflect.DeepEqual(seen[len(seen)-1].group, g)) {
				seen = append(seen, sighting{time.Now(), g})
			}
			pause(ctx, 100*time.Millisecond)
		}
		w.seen <- seen
	}()
	return w
}

// stop ends the watch and returns what it saw.
func (w *watch) stop(t *testing.T) []sighting {
	t.Helper()
	w.cancel()
	return <-w.seen
}

// copied says whether a task was once seen at an instance while another one ran it: as a warm-up, as any copy.
func copied(seen []sighting, task, keeper string) (warmup, replica bool) {
	for _, s := range seen {
		runs, warms, keeps := false, false, false
		for _, m := range s.group.Members {
			runs = runs || instanceOf(m) != keeper && slices.Contains(m.Active, task)
			warms = warms || instanceOf(m) == keeper && slices.Contains(m.Warmup, task)
			keeps = keeps || instanceOf(m) == keeper && slices.Contains(m.Standby, task)
		}
		warmup = warmup || runs && warms
		replica = replica || runs && (warms || keeps)
	}
	return warmup, replica
}

// standbyBefore says whether an instance, when it first became the owner of a task after a number of events, had run it as it runs
// a standby.
func standbyBefore(events []rig.Event, mark int, task string) (standby bool) {
	for i, e := range events {
		switch {
		case e.Event != "tasks":
		case slices.Contains(e.Standby, task):
			standby = true
		case slices.Contains(e.Active, task):
			if i >= mark {
				return standby
			}
			standby = false
		}
	}
	return false
}

// recounted writes sightings for people.
func recounted(seen []sighting) string {
	var b strings.Builder
	for _, s := range seen {
		fmt.Fprintf(&b, "\n%s %s %d/%d:", s.at.Format("15:04:05.000"), s.group.State, s.group.Epoch, s.group.AssignmentEpoch)
		for _, id := range sortedKeys(s.group.Members) {
			m := s.group.Members[id]
			fmt.Fprintf(&b, " %s active %v standby %v warm-up %v;", instanceOf(m), m.Active, m.Standby, m.Warmup)
		}
	}
	return b.String()
}
