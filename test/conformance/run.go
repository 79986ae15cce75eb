package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options say where and how scenarios run.
type Options struct {
	// Bootstrap is HOST:PORT of the server under test.
	Bootstrap string
	// TopicsBootstrap is where topics are created and listed; Bootstrap when empty.
	TopicsBootstrap string
	// Propagation is an extra wait after the coordinator has seen a change of topics or configs.
	Propagation time.Duration
	// Patience is how long to retry while the server is unreachable or the coordinator is loading.
	Patience time.Duration
	// Repeats says that the server repeats task lists which a member has not acknowledged for a heartbeat interval.
	Repeats bool
	// BeforeStep is called before each step (counted from 1); what it returns is called after the step. An error ends the
	// scenario. Nil: nothing is called.
	BeforeStep func(s *Scenario, nr int) (after func(), err error)
	// Heard is called with each heartbeat of a streams group and its answer. Nil: nothing is called.
	Heard func(*kmsg.StreamsGroupHeartbeatRequest, *kmsg.StreamsGroupHeartbeatResponse)
}

// Shards moves the leaders of groups' shards, or keeps them in place.
type Shards interface {
	Move(groups []string) error
	Hold(groups []string) (release func())
}

// MovingLeaders is an [Options.BeforeStep] that moves the leaders of the scenario's shards between any two steps, and keeps
// them in place during a step, unless that only lets time pass.
func MovingLeaders(m Shards) func(*Scenario, int) (func(), error) {
	return func(s *Scenario, nr int) (func(), error) {
		if nr > 1 {
			if err := m.Move(s.Groups()); err != nil {
				return nil, err
			}
		}
		if s.Sleeps(nr) {
			return func() {}, nil
		}
		return m.Hold(s.Groups()), nil
	}
}

// Answers are what a server answered to the steps of a scenario.
type Answers struct {
	Scenario string   `yaml:"scenario"`
	Steps    []Answer `yaml:"steps"`
}

// Answer is what a server answered to one step.
type Answer struct {
	N    int    `yaml:"nr"`
	Step string `yaml:"step"`
	Out  any    `yaml:"out"`
}

// Failure is why a step could not be done, "" when it was.
func (a Answer) Failure() string {
	if o, ok := a.Out.(obj); ok && o[failed] != nil {
		return fmt.Sprint(o[failed])
	}
	return ""
}

// failed is the key of an answer that tells why there is none.
const failed = "oracle_error"

// Ping returns nil when the server answers.
func Ping(o Options) error {
	c := newClient(o)
	defer c.close()
	if _, err := c.metadata(o.Bootstrap, []string{}); err != nil {
		return fmt.Errorf("no answer from %s: %w", o.Bootstrap, err)
	}
	return nil
}

// Run plays a scenario. It always gives an answer for each step. Where a timer of the group overtook the script, because the
// machine was busy, the answers say nothing: the scenario is played again under other names, a few times.
func Run(s *Scenario, o Options) *Answers {
	for try := 2; ; try++ {
		g, inTime := runOnce(s, o)
		if inTime || try > maxTries {
			return g
		}
		again, err := NewScenario(s.Name, fmt.Sprintf("%s-try%d", s.id, try), s.raw)
		if err != nil {
			return g
		}
		s = again
	}
}

// maxTries is how often a scenario is played until its timed part is played in time.
const maxTries = 5

// timedPart is the part of a scenario, from the beginning of a step to the end of another, that ends before a timer of the
// group does.
type timedPart struct {
	from, to int
	within   time.Duration
}

var timedParts = map[string]timedPart{
	"states-assigning": {from: 3, to: 6, within: 3 * time.Second}, // the initial delay
	"session-timeout":  {from: 3, to: 5, within: 2 * time.Second}, // nobody is silent for that long yet
}

func runOnce(s *Scenario, o Options) (g *Answers, inTime bool) {
	p := NewPlayer(s, o)
	defer p.Close()
	g = &Answers{Scenario: s.Name}
	part, timed := timedParts[s.Name]
	var began, ended time.Time
	for nr := 1; nr <= s.NumSteps(); nr++ {
		if nr == part.from {
			began = time.Now()
		}
		g.Steps = append(g.Steps, p.Step(nr))
		if nr == part.to {
			ended = time.Now()
		}
	}
	return g, !timed || ended.Sub(began) < part.within
}

// Player plays a scenario one step at a time, for those who look at an answer before they go on.
type Player struct{ r *runner }

// NewPlayer begins a scenario; the player is to be closed.
func NewPlayer(s *Scenario, o Options) *Player {
	return &Player{&runner{s: s, o: o, c: newClient(o), members: map[string]*member{}}}
}

// Close ends the player's connections.
func (p *Player) Close() { p.r.c.close() }

// Step plays a step of the scenario, counted from 1.
func (p *Player) Step(nr int) Answer { return p.play(nr, p.r.s.steps[nr-1]) }

// Do plays a step that the scenario does not have, given as it would stand there.
func (p *Player) Do(raw map[string]any) Answer {
	st, err := parseStep(raw)
	if err != nil {
		return Answer{Out: obj{failed: err.Error()}}
	}
	return p.play(0, st)
}

func (p *Player) play(nr int, st step) Answer {
	var out any = obj{failed: "not run, see the step before"}
	if !p.r.lost {
		out = p.r.step(nr, st)
	}
	return Answer{N: nr, Step: st.title(p.r.s.id), Out: p.r.hide(out)}
}

// member is what a well-behaved client remembers.
type member struct {
	alias, id     string
	epoch         int32
	instance      *string
	process       string
	rack          *string
	endpoint      *string
	tags          obj
	rebalance     int32
	endpointEpoch int32
	active        []kmsg.TaskIDs
	standby       []kmsg.TaskIDs
	warmup        []kmsg.TaskIDs
	before        [3][]kmsg.TaskIDs // active, standby and warm-up tasks as assigned before the last change
	told          time.Time         // when it asked for the task lists that it has not acknowledged; zero when there are none
	topology      string
	generation    int32 // classic members
	joinedClassic bool
}

type runner struct {
	s       *Scenario
	o       Options
	c       *client
	members map[string]*member
	lost    bool // the server is gone
	probes  int
}

type operation func(r *runner, arg any) any

var ops map[string]operation

func init() {
	ops = map[string]operation{
		"join":               heartbeatOp(beatJoin),
		"heartbeat":          heartbeatOp(beatRegular),
		"leave":              heartbeatOp(beatLeave),
		"static_leave":       heartbeatOp(beatStaticLeave),
		"settle":             settle,
		"heartbeat_until":    heartbeatUntil,
		"forget":             forget,
		"sleep":              func(r *runner, a any) any { time.Sleep(time.Duration(num(a)) * time.Millisecond); return nil },
		"create_topic":       createTopic,
		"delete_topic":       deleteTopic,
		"grow_topic":         growTopic,
		"topics":             topics,
		"await_topics":       awaitTopics,
		"set_group_config":   setGroupConfig,
		"describe_configs":   describeConfigs,
		"describe":           describe,
		"await_state":        awaitState,
		"list_groups":        listGroups,
		"delete_group":       deleteGroup,
		"offset_commit":      offsetCommit,
		"offset_fetch":       offsetFetch,
		"offset_delete":      offsetDelete,
		"consumer_heartbeat": consumerHeartbeat,
		"consumer_describe":  consumerDescribe,
		"classic_join":       classicJoin,
		"classic_heartbeat":  classicHeartbeat,
		"classic_leave":      classicLeave,
		"classic_describe":   classicDescribe,
		"find_coordinator":   findCoordinator,
		"api_versions":       apiVersions,
	}
}

func (r *runner) step(nr int, st step) (out any) {
	if r.o.BeforeStep != nil {
		after, err := r.o.BeforeStep(r.s, nr)
		if err != nil {
			r.lost = true
			return obj{failed: err.Error()}
		}
		defer after()
	}
	defer func() {
		if e := recover(); e != nil {
			_, r.lost = e.(transportError)
			out = obj{failed: fmt.Sprint(e)}
		}
	}()
	return ops[st.op](r, st.arg)
}

// hide turns the real group and topic names back into $s.
func (r *runner) hide(v any) any {
	switch x := v.(type) {
	case string:
		return strings.ReplaceAll(x, r.s.id, "$s")
	case obj:
		o := obj{}
		for k, e := range x {
			o[r.hide(k).(string)] = r.hide(e)
		}
		return o
	case []any:
		l := []any{}
		for _, e := range x {
			l = append(l, r.hide(e))
		}
		return l
	case []string:
		l := []any{}
		for _, e := range x {
			l = append(l, r.hide(e))
		}
		return l
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *runner) member(alias string) *member {
	m := r.members[alias]
	if m == nil {
		d := fields(r.s.Members[alias])
		m = &member{
			alias: alias, id: d.str("id", alias), process: d.str("process", alias+"-process"),
			instance: d.strp("instance"), rack: d.strp("rack"), endpoint: d.strp("user_endpoint"),
			rebalance: int32(d.num("rebalance_timeout_ms", 300000)), topology: d.str("topology", "t"),
		}
		if t := asObj(d["tags"]); t != nil {
			m.tags = t
		}
		r.members[alias] = m
	}
	return m
}

// forget makes the next join or settle treat the members as new clients.
func forget(r *runner, arg any) any {
	for _, n := range strs(arg) {
		delete(r.members, n)
	}
	return nil
}

// NotWhileLeadersMove are the scenarios of timers that are not played while leaders move, and why.
var NotWhileLeadersMove = map[string]string{
	"session-timeout-default": "takes 75 s; session-timeout plays the same with a shorter time-out",
	"session-timeout": "the member expires while the script sleeps, perhaps in the middle of a move for another scenario; on a busy machine a leader that " +
		"got no soft state handed over computes the target that is due at once, which Kafka leaves to the next heartbeat",
}
