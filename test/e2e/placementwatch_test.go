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

// warmedUp says whether a task was once seen as a warm-up of one instance while another one ran it.
func warmedUp(seen []sighting, task, runner, warmer string) bool {
	return slices.ContainsFunc(seen, func(s sighting) bool {
		runs, warms := false, false
		for _, m := range s.group.Members {
			runs = runs || instanceOf(m) == runner && slices.Contains(m.Active, task)
			warms = warms || instanceOf(m) == warmer && slices.Contains(m.Warmup, task)
		}
		return runs && warms
	})
}

// standbyBefore says whether an instance ran a task as it runs a standby before it was active.
func standbyBefore(events []rig.Event, task string) bool {
	for _, e := range events {
		switch {
		case e.Event != "tasks":
		case slices.Contains(e.Standby, task):
			return true
		case slices.Contains(e.Active, task):
			return false
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
