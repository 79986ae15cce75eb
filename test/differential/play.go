package differential

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coordd/coordd/test/conformance"
)

// Servers are the two that scripts are played on.
type Servers struct {
	Kafka, Coordd string // addresses
	// Patience is how long a server that cannot be reached is tried.
	Patience time.Duration
}

func (s Servers) options(addr string) conformance.Options {
	return conformance.Options{Bootstrap: addr, Propagation: 30 * time.Millisecond, Patience: s.Patience}
}

// Result is how a script went.
type Result struct {
	// Steps is how many were played and compared.
	Steps int
	// Failure is the first step that was answered otherwise than it should; nil when there was none.
	Failure *Failure
	// Rules counts the answers that differ on purpose, by the rule that holds them.
	Rules map[string]int
	// Ended is the rule after which the servers have not the same state any more, so that the script ends before its end.
	Ended string
}

// Failure is a step with two answers that do not agree.
type Failure struct {
	Step          int // counted from 1
	Title, Text   string
	Kafka, Coordd any
}

// String implements fmt.Stringer.
func (f *Failure) String() string {
	k, _ := conformance.Marshal(f.Kafka)
	c, _ := conformance.Marshal(f.Coordd)
	return fmt.Sprintf("step %d: %s\n%s\nKafka:\n%scoordd:\n%s", f.Step, f.Title, f.Text, k, c)
}

// Prepare makes the topics that scripts use. Both servers may have the same topics.
func Prepare(s Servers) error {
	script := &Script{Members: obj{}, Topologies: obj{}, Steps: []obj{}}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		script.Steps = append(script.Steps, obj{"create_topic": obj{"name": name, "partitions": topics[name]}})
	}
	script.Steps = append(script.Steps, obj{"await_topics": list(slices.Sorted(maps.Keys(topics)))})
	for i, addr := range []string{s.Kafka, s.Coordd} {
		scenario, err := script.scenario(fmt.Sprintf("df-prepare-%d", i))
		if err != nil {
			return err
		}
		for _, a := range conformance.Run(scenario, s.options(addr)).Steps {
			if f := a.Failure(); f != "" {
				return fmt.Errorf("%s: %s: %s", addr, a.Step, f)
			}
		}
	}
	return nil
}

// duel is a script under way.
type duel struct {
	script        *Script
	kafka, coordd *server
	result        Result
	// apart says that the two assignors have broken a tie differently, so that members have other tasks on one server.
	apart bool
	// shift is by how much coordd's endpoint epoch is ahead; unknown after steps in which that is not looked at.
	shift        int32
	unknownShift bool
	// lost says that a member has lost an answer, which only coordd tells again.
	lost bool
	// ghost says that Kafka has kept a wish to shut down that came when the group was empty.
	ghost bool
	// early says that Kafka has forgotten a wish to shut down, for it came with the join that made the group.
	early, earlySoon bool
	// renamed says that both servers know of a wish to shut down, of different members.
	renamed bool
	// forgotten are members that do not know their epoch any more.
	forgotten map[string]bool
}

// Play plays a script; the suffix makes its group's name one that nobody has used yet.
func Play(script *Script, suffix string, s Servers) (Result, error) {
	d := &duel{script: script, forgotten: map[string]bool{}, result: Result{Rules: map[string]int{}}}
	id := fmt.Sprintf("%d%s", script.Seed, suffix)
	for side, addr := range map[string]string{"k": s.Kafka, "c": s.Coordd} {
		group := fmt.Sprintf("df-%s-%s-s", side, id)
		scenario, err := script.scenario(group)
		if err != nil {
			return d.result, err
		}
		v := newServer(scenario, group, s.options(addr))
		defer v.player.Close()
		if side == "k" {
			d.kafka = v
		} else {
			d.coordd = v
		}
	}
	for i, step := range script.Steps {
		v, k, c := d.step(i+1, step)
		d.result.Steps++
		if v.rule != "" {
			d.result.Rules[v.rule]++
		}
		if v.text != "" {
			d.result.Failure = &Failure{Step: i + 1, Title: k.Step, Text: v.text, Kafka: k.Out, Coordd: c.Out}
			break
		}
		if v.then == end {
			d.result.Ended = v.rule
			break
		}
	}
	return d.result, nil
}

// then says how to go on after a difference.
type then int

const (
	goOn   then = iota
	settle      // the members are not at the same point any more
	end         // the groups are not the same any more
)

// verdict is what a comparison found.
type verdict struct {
	text string // what is wrong, "" for nothing
	rule string // the difference on purpose, "" for none
	then then
}

func wrong(format string, args ...any) verdict { return verdict{text: fmt.Sprintf(format, args...)} }

func (d *duel) step(nr int, step obj) (verdict, conformance.Answer, conformance.Answer) {
	op, arg := operation(step)
	if op == "settle" {
		var k, c conformance.Answer
		v := d.settle(arg.([]any), &k, &c)
		return v, k, c
	}
	play := func(v *server) conformance.Answer {
		v.heard = nil
		return v.player.Step(nr)
	}
	k, c := play(d.kafka), play(d.coordd)
	d.remember(op, arg)
	v := d.compare(op, step, k.Out, c.Out)
	if v.text == "" && v.then == settle && len(d.settlers(d.all())) < len(d.kafka.members) {
		v.then = end // somebody cannot catch up
	}
	if v.text == "" && v.then == settle {
		var ks, cs conformance.Answer
		w := d.settle(d.all(), &ks, &cs)
		if w.text != "" {
			return verdict{text: fmt.Sprintf("after %s: %s", v.rule, w.text), rule: v.rule}, ks, cs
		}
		v.then = w.then
	}
	return v, k, c
}

// settlers are those of the members that can be played on: a static member that has lost its epoch is refused by Kafka.
func (d *duel) settlers(of []any) (names []string) {
	for _, n := range of {
		name := n.(string)
		m := d.kafka.members[name]
		static := m != nil && m.instance != "" || d.script.Members[name].(obj)["instance"] != nil
		if static && (d.forgotten[name] || m == nil || m.epoch == -2) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// remember keeps who knows its epoch.
func (d *duel) remember(op string, arg any) {
	switch o, _ := arg.(obj); op {
	case "forget":
		for _, n := range arg.([]any) {
			d.forgotten[n.(string)] = true
		}
	case "heartbeat":
		d.lost = d.lost || o["remember"] == false
	case "join":
		d.lost = d.lost || o["remember"] == false
		name, _ := o["member"].(string)
		if o["remember"] != false && o["member_id"] == nil {
			delete(d.forgotten, name)
		} else {
			d.forgotten[name] = true
		}
	}
}

func failedAnswer(out any) string {
	if o, ok := out.(obj); ok && o["oracle_error"] != nil {
		return fmt.Sprint(o["oracle_error"])
	}
	return ""
}

func (d *duel) compare(op string, step obj, k, c any) verdict {
	if fk, fc := failedAnswer(k), failedAnswer(c); fk != "" || fc != "" {
		return wrong("no answer: Kafka %q, coordd %q", fk, fc)
	}
	switch op {
	case "join", "heartbeat", "leave", "static_leave":
		return d.beat(step, k.(obj), c.(obj))
	case "describe":
		return d.described(k.(obj), c.(obj))
	case "list_groups":
		return d.listed(step, k.(obj), c.(obj))
	case "offset_commit", "offset_fetch":
		return d.offsets(op, step, k, c)
	case "classic_describe", "consumer_describe":
		return verdict{text: conformance.FirstDifference(k, c, "exact", absentGroup(k, c)...)}
	case "classic_join":
		return d.classicJoin(k.(obj), c.(obj))
	case "delete_group":
		v := verdict{text: conformance.FirstDifference(k, c, "exact")}
		if v.text == "" && k.(obj)["$s"].(obj)["error"] == "NONE" {
			d.forgetGroup()
		}
		return v
	}
	return verdict{text: conformance.FirstDifference(k, c, "exact")}
}

func (d *duel) forgetGroup() {
	d.kafka.forgetGroup()
	d.coordd.forgetGroup()
	d.shift, d.unknownShift, d.ghost, d.early, d.renamed, d.apart, d.lost = 0, false, false, false, false, false, false
}

// all are the members that both servers know.
func (d *duel) all() (names []any) {
	for _, n := range slices.Sorted(maps.Keys(d.script.Members)) {
		if m := d.kafka.members[n]; m != nil && m.epoch != -2 && d.coordd.members[n] != nil {
			names = append(names, n)
		}
	}
	return names
}

// settle lets members catch up on both servers and compares where they are then.
func (d *duel) settle(of []any, k, c *conformance.Answer) verdict {
	names := d.settlers(of)
	if len(names) == 0 {
		return verdict{}
	}
	play := func() string {
		step := obj{"settle": list(names)}
		*k, *c = d.kafka.player.Do(step), d.coordd.player.Do(step)
		return failedAnswer(k.Out) + failedAnswer(c.Out)
	}
	if failure := play(); failure != "" {
		return wrong("cannot settle: %s", failure)
	}
	for _, n := range names {
		if answerOf(k, n)["error"] == "UNKNOWN_SERVER_ERROR" && answerOf(c, n)["error"] == "NONE" {
			return verdict{rule: "endpoints without topics", then: end}
		}
		if answerOf(c, n)["error"] == "STREAMS_INVALID_TOPOLOGY_EPOCH" && answerOf(k, n)["error"] == "INVALID_REQUEST" {
			return verdict{rule: topologyUpdates, then: end}
		}
		if answerOf(c, n)["error"] == "STREAMS_INVALID_TOPOLOGY" && answerOf(k, n)["error"] != "STREAMS_INVALID_TOPOLOGY" && neverRuns(d.script.subtopologies("t")) {
			return verdict{rule: "topology that can never run", then: end}
		}
	}
	// A member that lost what Kafka does not repeat is fenced there, or keeps for good what it shall give up: it joins anew.
	stuck := group(c)["state"] == "Stable" && (group(k)["state"] != "Stable" || d.lost && conformance.FirstDifference(k.Out, c.Out, "totals") != "")
	var again []any
	for _, n := range names {
		if !stuck && answerOf(k, n)["error"] == "NONE" && answerOf(c, n)["error"] == "NONE" {
			continue
		}
		if m := d.kafka.members[n]; m != nil && m.instance != "" {
			return verdict{then: end}
		}
		again = append(again, n)
	}
	if len(again) > 0 {
		for _, v := range []*server{d.kafka, d.coordd} {
			v.player.Do(obj{"forget": again})
		}
		if failure := play(); failure != "" {
			return wrong("cannot settle: %s", failure)
		}
	}
	v := d.settled(k.Out.(obj), c.Out.(obj))
	if behind := len(d.kafka.members) - len(names); v.text != "" && behind > 0 && (d.lost || d.apart) {
		return verdict{rule: "members left behind with lost answers or other tasks", then: end}
	}
	return v
}

func group(a *conformance.Answer) obj { return a.Out.(obj)["group"].(obj) }

func answerOf(a *conformance.Answer, name string) obj {
	return a.Out.(obj)["members"].(obj)[name].(obj)
}

// settled compares groups of which all members that take part have done what they were told.
func (d *duel) settled(k, c obj) verdict {
	d.unknownShift = true
	d.early, d.earlySoon = d.early || d.earlySoon, false
	d.statuses(k, c)
	for _, mode := range []string{"exact", "shape", "balance"} {
		if conformance.FirstDifference(k, c, mode) == "" {
			d.apart = d.apart || mode != "exact"
			return verdict{}
		}
	}
	d.apart = true
	return verdict{text: conformance.FirstDifference(k, c, "totals")}
}

// statuses takes out of both answers what the statuses may differ in: which topics a problem names, and a wish to shut down
// that Kafka has kept from when the group was empty, or forgotten.
func (d *duel) statuses(k, c any) {
	walk := func(v any, visit func(obj)) {
		var rec func(any)
		rec = func(v any) {
			switch x := v.(type) {
			case obj:
				visit(x)
				for _, e := range x {
					rec(e)
				}
			case []any:
				for _, e := range x {
					rec(e)
				}
			}
		}
		rec(v)
	}
	for side, v := range []any{k, c} {
		walk(v, func(o obj) {
			l, ok := o["status"].([]any)
			if !ok {
				return
			}
			kept := []any{}
			for _, e := range l {
				s := e.(obj)
				switch s["status"] {
				case "MISSING_INTERNAL_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS":
					s = obj{"status": s["status"]} // which of several problems is told, and how many topics
				case "SHUTDOWN_APPLICATION":
					if d.ghost && side == 0 || d.early && side == 1 {
						continue
					}
					if d.renamed {
						s = obj{"status": s["status"]}
					}
				}
				kept = append(kept, s)
			}
			o["status"] = kept
		})
	}
}
