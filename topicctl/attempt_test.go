package topicctl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/topology"
)

// A topic that makes every call fail in which it is asked for holds up no other for long.
func TestCreatorPoisonedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.poison = "t050"
		_, c := start(t, f)
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("t%03d", i))
		}
		c.Create("g", wanted(names...))
		time.Sleep(3 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.topics) != 99 {
			t.Errorf("%d of 99 topics are there", len(f.topics))
		}
		if len(f.creates) > 60 {
			t.Errorf("%d attempts", len(f.creates))
		}
	})
}

// While the upstream asks for patience nothing is tried, and then all goes on.
func TestCreatorHonoursThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		_, c := start(t, f)
		f.set(func() {
			f.refuse["a"] = &Refusal{Reason: "THROTTLING_QUOTA_EXCEEDED", RetryAfter: 42 * time.Second}
		})
		c.Create("g", wanted("a", "b"))
		time.Sleep(time.Second)
		c.Create("h", wanted("c"))
		f.set(func() { clear(f.refuse) })
		time.Sleep(40 * time.Second)
		if _, creates := f.attempts(); creates != 1 || c.Error("a") != "THROTTLING_QUOTA_EXCEEDED" {
			t.Errorf("%d attempts while throttled, error %q", creates, c.Error("a"))
		}
		time.Sleep(2 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.topics) != 3 || len(f.creates) > 3 {
			t.Errorf("%d topics after %v", len(f.topics), f.creates)
		}
	})
}

// What was not sent is no attempt, and nothing that failed.
func TestCreatorDoesNotCountWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.refuse["a"] = &Refusal{Reason: Throttled, RetryAfter: time.Minute, NotSent: true}
		var outcomes []Outcome
		_, c := start(t, f, func(cfg *CreatorConfig) { cfg.Observe = func(o Outcome) { outcomes = append(outcomes, o) } })
		c.Create("g", wanted("a"))
		pass(time.Second)
		if len(outcomes) != 1 || !outcomes[0].NotSent || len(outcomes[0].Failed) != 0 || c.Error("a") != "THROTTLED" {
			t.Errorf("%+v, told %q", outcomes, c.Error("a"))
		}
		f.set(func() { clear(f.refuse) })
		pass(time.Minute)
		if len(outcomes) != 2 || outcomes[1].NotSent || outcomes[1].Created != 1 {
			t.Errorf("%+v", outcomes)
		}
	})
}

// Topics that fail at different times are tried together.
func TestCreatorTriesFailedTopicsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		_, c := start(t, f)
		for i := range 300 {
			name := fmt.Sprintf("t%d", i)
			f.set(func() { f.refuse[name] = errors.New("no") })
			c.Create(fmt.Sprint("g", i), wanted(name))
			time.Sleep(37 * time.Millisecond)
		}
		_, before := f.attempts()
		time.Sleep(5 * time.Minute)
		_, after := f.attempts()
		if most := int(5*time.Minute/(500*time.Millisecond)) + 10; after-before > most { // batches of 100, once every 500 ms
			t.Errorf("%d attempts in five minutes, at most %d", after-before, most)
		}
	})
}

// What the upstream has and does not show is told, instead of being asked for in silence.
func TestCreatorTellsOfTopicsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.secret = map[string]bool{"a": true}
		f.put("a", 3)
		w, c := start(t, f)
		c.Create("g", wanted("a"))
		time.Sleep(9 * time.Second)
		if c.Error("a") != "" {
			t.Errorf("told too early: %q", c.Error("a"))
		}
		time.Sleep(3 * time.Second)
		if !strings.Contains(c.Error("a"), "right DESCRIBE on Topic a") {
			t.Errorf("Error = %q", c.Error("a"))
		}
		time.Sleep(2 * time.Minute)
		if _, creates := f.attempts(); creates > 20 {
			t.Errorf("%d attempts", creates)
		}
		f.set(func() { clear(f.secret) })
		time.Sleep(2 * time.Second)
		if _, ok := w.Image().Topic("a"); !ok || c.Wanted() != 0 {
			t.Errorf("%d wanted after it is shown", c.Wanted())
		}
	})
}

// A node that does not lead a group any more creates nothing for it, though nobody has told the creator yet.
func TestCreatorCreatesForWhatIsLedHereOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		var mu sync.Mutex
		deposed := map[string]error{"old": errors.New("another node leads")}
		_, c := start(t, f, func(cfg *CreatorConfig) {
			cfg.Verify = func(group string, done func(error)) {
				mu.Lock()
				defer mu.Unlock()
				if group == "silent" {
					return
				}
				err := deposed[group]
				go done(err)
			}
		})
		c.Create("old", wanted("a", "shared"))
		c.Create("silent", wanted("b"))
		c.Create("new", wanted("c", "shared"))
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, want := range map[string]bool{"a": false, "b": false, "c": true, "shared": true} {
			if _, ok := f.topics[name]; ok != want {
				t.Errorf("%s is there: %v", name, ok)
			}
		}
		if len(f.creates) > 3 || c.Error("a") != "" {
			t.Errorf("attempts %v, error %q", f.creates, c.Error("a"))
		}
	})
}

// What is taken back or changed while leadership is proven is not created as it was before.
func TestCreatorSendsWhatIsWantedAfterTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		_, c := start(t, f, func(cfg *CreatorConfig) {
			cfg.Verify = func(group string, done func(error)) {
				if group == "deposed" {
					done(errors.New("another node leads"))
					return
				}
				time.AfterFunc(time.Second, func() { done(nil) })
			}
		})
		c.Create("deposed", wanted("left"))
		c.Create("led", append(wanted("dropped", "left"), topology.InternalTopic{Name: "grown", Partitions: 3}))
		c.Create("gone", wanted("forgotten"))
		time.Sleep(500 * time.Millisecond)
		c.Create("led", []topology.InternalTopic{{Name: "grown", Partitions: 5}})
		c.Forget("gone")
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, name := range []string{"dropped", "left", "forgotten"} {
			if _, ok := f.topics[name]; ok {
				t.Errorf("%s was created, which nobody wanted any more", name)
			}
		}
		if n := f.topics["grown"].Partitions; n != 5 {
			t.Errorf("grown has %d partitions, want 5", n)
		}
	})
}

// Members that wait are told when what hinders their topics changes, and only then.
func TestCreatorTellsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		var told []string
		var sum Outcome
		var log bytes.Buffer
		_, c := start(t, f, func(cfg *CreatorConfig) {
			cfg.Changed = func(group string) { told = append(told, group) }
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
			cfg.Observe = func(o Outcome) {
				sum.Created += o.Created
				sum.Existed += o.Existed
				for reason := range o.Failed {
					if sum.Failed == nil {
						sum.Failed = map[string]int{}
					}
					sum.Failed[reason]++
				}
			}
		})
		f.set(func() { f.refuse["a"] = &Refusal{Reason: "POLICY_VIOLATION", Message: "no", Err: errors.New("why")} })
		c.Create("g", wanted("a"))
		c.Create("h", wanted("a"))
		c.Create("other", wanted("b"))
		pass(200 * time.Millisecond)
		if len(told) != 0 || c.Error("a") != "POLICY_VIOLATION: no" {
			t.Errorf("told %v after one attempt, %q", told, c.Error("a"))
		}
		pass(5 * time.Minute)
		slices.Sort(told)
		if !slices.Equal(told, []string{"g", "h"}) {
			t.Errorf("told %v while nothing changes", told)
		}
		f.set(func() { f.refuse["a"] = &Refusal{Reason: "TOPIC_AUTHORIZATION_FAILED"} })
		pass(21 * time.Second)
		f.set(func() { delete(f.refuse, "a") })
		pass(11 * time.Second)
		if len(told) != 4 { // two groups, two reasons
			t.Errorf("told %v", told)
		}
		if sum.Created != 2 || sum.Failed["POLICY_VIOLATION"] < 20 || sum.Failed["TOPIC_AUTHORIZATION_FAILED"] == 0 {
			t.Errorf("outcomes %+v", sum)
		}
		if n := strings.Count(log.String(), "cannot create internal topics"); n != 2 {
			t.Errorf("%d lines of the log:\n%s", n, log.String())
		}
	})
}

// A want that is asked for again keeps its back-off, also in another list.
func TestCreatorKeepsTheBackoffOfWhatIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		f.refuse["bad"] = errors.New("no")
		_, c := start(t, f)
		for i := range 300 {
			c.Create("g", wanted("bad", fmt.Sprint("other-", i%2)))
			time.Sleep(100 * time.Millisecond)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		n := 0
		for _, names := range f.creates {
			if slices.Contains(names, "bad") {
				n++
			}
		}
		if n > 10 {
			t.Errorf("%d attempts for a topic that fails", n)
		}
	})
}

func TestRefusalTexts(t *testing.T) {
	for want, r := range map[string]*Refusal{
		"X":             {Reason: "X"},
		"X: a b":        {Reason: "X", Message: "a\n\tb. "},
		"X: m; do this": {Reason: "X", Message: "m", Advice: "do this"},
		"X: " + strings.Repeat("ä", maxMessage/2) + "…": {Reason: "X", Message: strings.Repeat("ä", maxMessage)},
	} {
		if got := r.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
