package streams

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

const testGroup = "g"

// world is one group, its leader's soft state, the upstream's topics and a clock: what a shard does with decisions.
type world struct {
	mayHold  bool // heartbeats come over connections that may be held
	state    fsm.State
	soft     *Soft
	topics   fakeTopics
	leaders  fakeLeaders
	settings coordinator.GroupSettings
	now      int64
	version  uint64
	hold     bool
	assign   assignor.Assignor
	failures map[string]string
	// stale says that the topics have not been read since a moment ago.
	stale bool

	// offloadFrom is Env.OffloadFrom; job is what is to be computed beside the shard, or computed and being written.
	offloadFrom int
	job         *TargetJob
	computed    *ComputedTarget
	at          int
	// verify looks at each decision that stands; nil for nobody.
	verify func(before *fsm.Group, d *Decision, after *fsm.Group) error
}

func newWorld() *world {
	return &world{
		state:  fsm.NewState(),
		topics: fakeTopics{}, leaders: fakeLeaders{},
		settings: coordinator.GroupSettings{
			SessionTimeoutMs: 45000, HeartbeatIntervalMs: 5000, MaxSize: 1 << 30, NumWarmupReplicas: 2,
			TaskOffsetIntervalMs: 60000, AcceptableRecoveryLag: 10000, AssignorName: "sticky",
		},
		now: 1_000_000, version: 1, assign: assignor.Sticky(), failures: map[string]string{},
	}
}

// fakeTopics are the upstream's topics by name.
type fakeTopics map[string]topology.Topic

func (f fakeTopics) Topic(name string) (topology.Topic, bool) {
	t, ok := f[name]
	return t, ok
}

func (f fakeTopics) Names() []string { return slices.Sorted(maps.Keys(f)) }

// setTopic creates, grows or, with 0 partitions, deletes a topic.
func (w *world) setTopic(name string, partitions int32) {
	w.version++
	if partitions == 0 {
		delete(w.topics, name)
		return
	}
	t := topology.Topic{Name: name, Partitions: partitions}
	copy(t.ID[:], name)
	w.topics[name] = t
}

func (w *world) group() *fsm.Group { return w.state.Group(testGroup) }

func (w *world) env() Env {
	asOf := w.now + 1
	if w.stale {
		asOf = w.now
	}
	return Env{
		Now: w.now, Settings: &w.settings, Metadata: w.topics, MetadataVersion: w.version, MetadataAsOf: asOf, Assignor: w.assign,
		Leaders:     w.leaders,
		OffloadFrom: w.offloadFrom, HoldGrants: w.hold, CreationErrors: func(t string) string { return w.failures[t] },
	}
}

// heartbeat decides a request and lets the decision stand.
func (w *world) heartbeat(req *HeartbeatRequest, client *coordinator.Client) (Decision, error) {
	if err := Validate(req); err != nil {
		return Decision{Reply: HeartbeatResponse{Err: err}}, nil
	}
	d := Heartbeat(HeartbeatInput{Group: w.group(), Soft: w.soft, Env: w.env(), Client: client, Request: req, MayHold: w.mayHold})
	err := w.stand(&d)
	if w.soft != nil {
		w.soft.Answered(&d)
	}
	return d, err
}

// stand commits a decision.
func (w *world) stand(d *Decision) error {
	next, err := w.state.EvolveAll(d.Records)
	if err != nil {
		return fmt.Errorf("replay refuses the records: %w", err)
	}
	before := w.group()
	w.state = next
	if w.verify != nil {
		if err := w.verify(before, d, w.group()); err != nil {
			return err
		}
	}
	if w.soft == nil && w.group() != nil {
		w.soft = NewSoft()
	}
	if w.soft != nil {
		w.soft.Apply(&d.Soft)
	}
	for _, e := range d.Effects {
		if e, ok := e.(ComputeTarget); ok && w.job == nil {
			w.job = e.Job
		}
	}
	return nil
}

// compute does what is done beside the shard.
func (w *world) compute() {
	if w.job != nil && w.computed == nil {
		w.computed, w.at = w.job.Run(), 0
	}
}

// take writes up to limit targets of what was computed.
func (w *world) take(limit int) (Decision, error) {
	env := w.env()
	d, next := TargetComputed(w.group(), w.soft, &env, w.computed, w.at, limit)
	if w.at = next; next == 0 {
		w.job, w.computed = nil, nil
	}
	return d, w.stand(&d)
}

// takeAll computes and writes until there is no more to compute.
func (w *world) takeAll(limit int) error {
	for w.job != nil {
		w.compute()
		if _, err := w.take(limit); err != nil {
			return err
		}
	}
	return nil
}

// failover loses soft state, as a new leader does.
func (w *world) failover() {
	w.job, w.computed = nil, nil
	if w.group() != nil {
		env := w.env()
		w.soft = NewSoftOnElection(w.group(), &env)
	}
}

// advance moves the clock and fires every timer on the way; told is called for each decision.
func (w *world) advance(ms int64, told func(what string, d *Decision)) error {
	end := w.now + ms
	for w.soft != nil {
		at, member := w.nextTimer()
		if at == 0 || at > end {
			break
		}
		w.now = max(w.now, at)
		env := w.env()
		var d Decision
		if member == "" {
			d = Tick(w.group(), w.soft, &env)
		} else {
			d = Expire(w.group(), w.soft, &env, member)
		}
		if err := w.stand(&d); err != nil {
			return err
		}
		told(member, &d)
		if again, m := w.nextTimer(); again == at && m == member && len(d.Records) == 0 {
			return fmt.Errorf("the timer of %q at %d does not move", member, at)
		}
	}
	w.now = end
	return nil
}

func (w *world) nextTimer() (at int64, member string) {
	if w.job == nil { // else the group's timers rest
		at = w.soft.NextDeadline()
	}
	ids := make([]string, 0, len(w.soft.Members))
	for id := range w.soft.Members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if t := w.soft.Members[id].NextDeadline(); t != 0 && (at == 0 || t < at) {
			at, member = t, id
		}
	}
	return at, member
}

// fixed is an assignor with a given answer; members that it does not name get nothing.
type fixed map[string]topology.Assignment

func (fixed) Name() string { return "fixed" }

func (f fixed) Assign(spec assignor.Spec) (assignor.Assignment, error) {
	out := assignor.Assignment{}
	for _, m := range spec.Members {
		out[m.ID] = f[m.ID]
	}
	return out, nil
}

// Printing.

func showRecord(r record.Record) string {
	name := map[record.Type]string{
		record.TypeGroupMetadata: "GroupMetadata", record.TypeMemberMetadata: "MemberMetadata",
		record.TypeTargetMetadata: "TargetMetadata", record.TypeTargetMember: "TargetMember",
		record.TypeCurrentAssignment: "CurrentAssignment", record.TypeTopology: "Topology",
		record.TypeTopologyVersion: "TopologyVersion", record.TypeGroupMarks: "GroupMarks", record.TypeJournalEntry: "Journal",
		record.TypeGroupTopics: "GroupTopics",
	}[r.Key.Type]
	if r.Key.Type == record.TypeTopologyVersion {
		name += fmt.Sprintf(" %d", r.Key.ID)
	}
	if r.Key.Member != "" {
		name += " " + r.Key.Member
	}
	switch v := r.Value.(type) {
	case nil:
		return name + " tombstone"
	case *record.GroupMetadata:
		configs := ""
		for _, c := range v.AssignmentConfigs {
			configs += " " + c.Key + "=" + c.Value
		}
		return fmt.Sprintf("%s epoch=%d validated=%d%s", name, v.Epoch, v.ValidatedTopologyEpoch, configs)
	case *record.MemberMetadata:
		s := fmt.Sprintf("%s client=%s host=%s process=%s topology=%d rebalance-timeout=%d",
			name, v.ClientID, v.ClientHost, v.ProcessID, v.TopologyEpoch, v.RebalanceTimeoutMs)
		if v.InstanceID != nil {
			s += " instance=" + *v.InstanceID
		}
		if v.RackID != nil {
			s += " rack=" + *v.RackID
		}
		if v.UserEndpoint != nil {
			s += fmt.Sprintf(" endpoint=%s:%d", v.UserEndpoint.Host, v.UserEndpoint.Port)
		}
		for _, t := range v.ClientTags {
			s += " tag." + t.Key + "=" + t.Value
		}
		return s
	case *record.TargetMetadata:
		return fmt.Sprintf("%s epoch=%d time=%d", name, v.AssignmentEpoch, v.TimestampMs)
	case *record.TargetMember:
		return name + " " + showAssignment(v.Assignment, false)
	case *record.CurrentAssignment:
		return fmt.Sprintf("%s epoch=%d previous=%d %s", name, v.MemberEpoch, v.PreviousEpoch, showCurrent(v))
	case *record.GroupMarks:
		return fmt.Sprintf("%s shutdown-by=%s delay-until=%d empty-since=%d", name, v.ShutdownBy, v.DelayUntilMs, v.EmptySinceMs)
	case *record.GroupTopics:
		s := fmt.Sprintf("%s topology=%d since=%d", name, v.TopologyEpoch, v.SinceMs)
		for _, z := range v.Sizes {
			s += fmt.Sprintf(" %s:%d%v%v", z.ID, z.Tasks, z.Repartition, z.Changelogs)
		}
		return s
	case *record.JournalEntry:
		return name + " " + showJournal(v)
	case *record.TopologyVersion:
		return name + " " + showVersion(v)
	case *record.Topology:
		return fmt.Sprintf("%s epoch=%d subtopologies=%d", name, v.Epoch, len(v.Subtopologies))
	}
	return name + " ?"
}

func showVersion(v *record.TopologyVersion) string {
	s := fmt.Sprintf("root=%d declared=%d last=%d since=%d", v.Root, v.Declared, v.LastDeclared, v.SinceMs)
	if v.First != 0 {
		s += fmt.Sprintf(" first=%d", v.First)
	}
	if v.Content != nil {
		s += fmt.Sprintf(" subtopologies=%d", len(v.Content.Subtopologies))
	}
	for _, c := range v.Tasks {
		s += fmt.Sprintf(" tasks %s:%d", c.Subtopology, c.Tasks)
	}
	if v.Aborted {
		s += " aborted"
	}
	if v.Foreign {
		s += " foreign"
	}
	return s
}

// showJournal prints an entry: its causes, then the times that it has come to.
func showJournal(e *record.JournalEntry) string {
	s := fmt.Sprintf("%d epochs=%d-%d", e.Sequence, e.FirstEpoch, e.Epoch)
	for _, c := range e.Counts {
		s += fmt.Sprintf(" [%dx %s]", c.Count, CauseKind(1<<c.Kind))
	}
	if e.TargetAtMs != 0 {
		s += fmt.Sprintf(" target=+%d moved=%d", e.TargetAtMs-e.StartedAtMs, e.NumMoves)
	}
	for _, m := range e.Moves {
		s += fmt.Sprintf(" %c%s_%d:%s>%s", "asw"[m.Role], m.Task.Subtopology, m.Task.Partition, m.From, m.To)
	}
	if e.SettledAtMs != 0 {
		s += fmt.Sprintf(" settled=+%d by %s", e.SettledAtMs-e.StartedAtMs, e.Slowest)
	}
	return s
}

func showCurrent(c *record.CurrentAssignment) string {
	state := map[record.MemberState]string{
		record.MemberStable: "STABLE", record.MemberUnrevokedTasks: "UNREVOKED", record.MemberUnreleasedTasks: "UNRELEASED",
	}[c.State]
	s := state + " " + showAssignment(c.Assigned, true)
	if !c.Revoking.IsEmpty() {
		s += " revoking " + showAssignment(c.Revoking, true)
	}
	return s
}

func showAssignment(a topology.Assignment, epochs bool) string {
	var parts []string
	for i, role := range [...]topology.Tasks{a.Active, a.Standby, a.Warmup} {
		if !role.IsEmpty() {
			parts = append(parts, [...]string{"active", "standby", "warmup"}[i]+"="+showTasks(role, epochs && i == 0))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, " ")
}

func showTasks(t topology.Tasks, epochs bool) string {
	if t == nil {
		return "null"
	}
	var parts []string
	for task, epoch := range t.All() {
		s := fmt.Sprintf("%s_%d", task.Subtopology, task.Partition)
		if epochs {
			s += fmt.Sprintf("@%d", epoch)
		}
		parts = append(parts, s)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func showReply(r *HeartbeatResponse) string {
	if r.Err != nil {
		return fmt.Sprintf("-> error %d: %s", r.Err.Code, r.Err.Message)
	}
	s := fmt.Sprintf("-> %s epoch=%d", r.MemberID, r.MemberEpoch)
	if r.Active != nil || r.Standby != nil || r.Warmup != nil {
		s += fmt.Sprintf(" active=%s standby=%s warmup=%s", showTasks(r.Active, false), showTasks(r.Standby, false), showTasks(r.Warmup, false))
	}
	if r.EndpointEpoch != 0 {
		s += fmt.Sprintf(" endpoint-epoch=%d", r.EndpointEpoch)
	}
	for _, e := range r.Endpoints {
		s += fmt.Sprintf("\n   %s:%d active=%s standby=%s", e.Endpoint.Host, e.Endpoint.Port, showPartitions(e.Active), showPartitions(e.Standby))
	}
	for _, st := range r.Status {
		s += fmt.Sprintf("\n   status %d: %s", st.Code, st.Detail)
	}
	return s
}

func showPartitions(tps []TopicPartitions) string {
	var parts []string
	for _, tp := range tps {
		parts = append(parts, fmt.Sprintf("%s%v", tp.Topic, tp.Partitions))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func showEffects(effects []Effect) (out string) {
	for _, e := range effects {
		switch e := e.(type) {
		case CreateTopics:
			out += "effect: create"
			for _, t := range e.Topics {
				out += fmt.Sprintf(" %s/%d", t.Name, t.Partitions)
			}
			out += "\n"
		case ComputeTarget:
			out += fmt.Sprintf("effect: compute the target of epoch %d\n", e.Job.input.epoch)
		case GroupEmptied:
			out += "effect: group emptied\n"
		case WarmupUnreported:
			out += fmt.Sprintf("effect: nothing reported of %s on %s for %d ms\n", showTasks(e.Tasks, false), e.Member, e.AfterMs)
		case WarmupStalled:
			out += fmt.Sprintf("effect: %s on %s stays at %d of %d for %d ms\n", taskText(e.Task), e.Member, e.Offset, e.End, e.AfterMs)
		case AssignorFailed:
			out += "effect: assignor failed: " + e.Err.Error() + "\n"
		}
	}
	return out
}
