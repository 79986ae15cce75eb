package differential

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/coordd/coordd/test/conformance"
)

// Error codes that the rules speak of.
const (
	none                 = 0
	unknownServerError   = -1
	unknownMemberID      = 25
	invalidRequest       = 42
	groupIDNotFound      = 69
	fencedMemberEpoch    = 110
	unreleasedInstanceID = 111
	invalidTopology      = 130
	invalidTopologyEpoch = 131
)

// beat compares the answers to a heartbeat. Each rule stands for a line of docs/differences.md.
func (d *duel) beat(step obj, k, c obj) verdict {
	if len(d.kafka.heard) == 0 || len(d.coordd.heard) == 0 {
		return wrong("no heartbeat was sent")
	}
	kx, cx := d.kafka.heard[len(d.kafka.heard)-1], d.coordd.heard[len(d.coordd.heard)-1]
	kc, cc := kx.resp.ErrorCode, cx.resp.ErrorCode
	d.early, d.earlySoon = d.early || d.earlySoon, false
	d.noteShutdown(&kx)
	promised := func(rule string, code int16, next then) verdict {
		if cc != code {
			return wrong("%s: coordd must answer %d, not %d", rule, code, cc)
		}
		return verdict{rule: rule, then: next}
	}
	changed := goOn // how to go on when Kafka has accepted what coordd refuses
	if kc == none || kc == unknownServerError && otherHolder(&kx) {
		changed = end
	}
	if cc != invalidTopology {
		if v, ok := d.updated(&kx, &cx, k, promised); ok {
			return v
		}
	}
	switch {
	case cc == invalidTopology && kc != cc && neverRuns(d.script.subtopologies(d.script.topologyOf(step))):
		return verdict{rule: "topology that can never run", then: changed}
	case d.script.sharesChangelog(step) && cc == invalidTopology:
		return verdict{rule: "malformed topology", then: changed}
	case d.script.malformed(step) && (kc == unknownServerError || kc == none || cc == invalidTopology):
		return promised("malformed topology", invalidTopology, changed)
	case kx.repeats() && kc != invalidRequest && (kc == none || kc != cc):
		return promised("task or subtopology twice, negative partition", invalidRequest, changed)
	case kx.twoRoles() && kc != invalidRequest && (kc == none || kc != cc):
		return promised("task in two roles", invalidRequest, changed)
	case kc == groupIDNotFound && kx.req.MemberEpoch > 0 && k["message"] == "Streams group $s not found.":
		return promised("heartbeat to no group", unknownMemberID, goOn)
	case kc == groupIDNotFound && kx.req.MemberEpoch > 0 && cc == unknownMemberID && k["message"] == "Group $s is not a streams group.":
		return verdict{rule: "heartbeat to a group of another type"} // the join that follows is told so
	case kc == unreleasedInstanceID && cc == kc && otherHolder(&kx):
		// Kafka takes the holder's tasks.
		return verdict{rule: takesNoTasks, text: conformance.FirstDifference(k, c, "exact"), then: end}
	case kc == unreleasedInstanceID && cx.holder != nil && cx.holder.id == cx.req.MemberID && cx.holder.epoch != -2:
		if cc == invalidTopologyEpoch {
			return verdict{rule: "static join repeated"} // as a join of a member that is there, which may not change the topology so
		}
		if cx.req.ShutdownApplication {
			return promised("static join repeated", none, end) // Kafka does not hear the wish
		}
		return d.repeatedJoin(promised)
	case kc == unknownServerError && d.endpointsUnresolved(&cx):
		return promised("endpoints without topics", none, end)
	case cx.behind() && (kc == fencedMemberEpoch || kc == none):
		o, _ := step["heartbeat"].(obj)
		return d.behind(&kx, &cx, k, c, o["remember"] != false)
	case kc == none && cc == none && cx.req.MemberEpoch == 0 && cx.known && cx.holder != nil && cx.holder.id != cx.req.MemberID:
		if cx.resp.MemberEpoch <= kx.resp.MemberEpoch && cx.resp.MemberEpoch < cx.was.epoch {
			return wrong("place taken over by another member: epoch %d after %d", cx.resp.MemberEpoch, cx.was.epoch)
		}
		return verdict{rule: "place taken over by another member", then: end}
	case kc == groupIDNotFound && cc == kc:
		return verdict{} // coordd does not always know what there is instead
	case kc != none || cc != none:
		var ignored []string
		if kc == invalidTopology || kc == invalidRequest && (kx.repeats() || kx.twoRoles()) {
			ignored = []string{"message"} // coordd's names the reason
		}
		v := verdict{text: conformance.FirstDifference(k, c, "exact", ignored...)}
		if otherHolder(&kx) && kc != invalidRequest && kc != groupIDNotFound {
			v.rule, v.then = takesNoTasks, end
		}
		return v
	case kx.req.MemberEpoch < 0:
		return verdict{text: conformance.FirstDifference(k, c, "exact")}
	}
	return d.accepted(&kx, &cx, k, c)
}

const takesNoTasks = "a refused static member takes no tasks"

// otherHolder says that a join or heartbeat wants the place of a static member, which makes Kafka forget that one's tasks even
// when it refuses the request.
func otherHolder(kx *exchange) bool {
	return kx.req.MemberEpoch >= 0 && kx.holder != nil && kx.holder.id != kx.req.MemberID && len(kx.holder.told.all()) > 0
}

// noteShutdown sees a wish to shut down that reaches Kafka when the group is empty, and forgets it when it is empty again.
func (d *duel) noteShutdown(kx *exchange) {
	switch {
	case kx.req.ShutdownApplication && kx.req.MemberEpoch < 0 && kx.members == 0 && kx.resp.ErrorCode != groupIDNotFound && kx.resp.ErrorCode != invalidRequest:
		d.ghost = true
	case kx.members > 0 && len(d.kafka.members) == 0:
		d.ghost, d.early, d.renamed = false, false, false
	case kx.resp.ErrorCode == none && kx.req.MemberEpoch == 0 && !kx.exists:
		d.earlySoon = kx.req.ShutdownApplication // this answer tells it
	case kx.resp.ErrorCode == none && kx.req.ShutdownApplication && (d.ghost || d.early):
		d.ghost, d.early, d.renamed = false, false, true
	}
}

// endpointsUnresolved says that the group has endpoints, and topics that keep it from running.
func (d *duel) endpointsUnresolved(cx *exchange) bool {
	endpoints := cx.req.UserEndpoint != nil
	for _, m := range d.coordd.members {
		endpoints = endpoints || m.endpoint
	}
	return endpoints && slices.ContainsFunc(cx.statusCodes(), func(code int8) bool { return code >= 1 && code <= 3 })
}

func (x *exchange) statusCodes() (codes []int8) {
	for _, s := range x.resp.Status {
		codes = append(codes, s.StatusCode)
	}
	return codes
}

// repeatedJoin is the join of a static member that is there already. It may bring news of the member, that Kafka refuses.
func (d *duel) repeatedJoin(promised func(string, int16, then) verdict) verdict {
	const rule = "static join repeated"
	v := promised(rule, none, goOn)
	if v.text != "" {
		return v
	}
	k, c := d.kafka.describe(), d.coordd.describe()
	if topologyEpoch(k) != topologyEpoch(c) {
		return verdict{rule: topologyUpdates, then: end}
	}
	before, after := k["epoch"].(int), c["epoch"].(int)
	switch {
	case after != before && after != before+1:
		return wrong("%s: group epoch %d, Kafka's %d", rule, after, before)
	case after == before && conformance.FirstDifference(k, c, "totals", "epoch", "state", "topology") == "":
		v.then = settle
	default:
		v.then = end
	}
	return v
}

// behind is a heartbeat with an older epoch than the member was told: coordd tells it its tasks again when it owns nothing
// else, and does not move it on before it knows.
func (d *duel) behind(kx, cx *exchange, k, c obj, remembered bool) verdict {
	const rule = "told again what was lost"
	if cx.resp.ErrorCode == fencedMemberEpoch {
		if kx.resp.ErrorCode == none {
			return wrong("fenced, although Kafka accepts it")
		}
		if cx.was.moved && cx.req.MemberEpoch == cx.was.earlier && cx.holdsReported(cx.was.told) {
			return wrong("%s: coordd must accept the previous epoch %d of a member that reports nothing else than its tasks", rule, cx.was.earlier)
		}
		return verdict{text: conformance.FirstDifference(k, c, "exact")}
	}
	if cx.resp.ErrorCode == invalidRequest && kx.resp.ErrorCode == fencedMemberEpoch {
		return verdict{rule: rule} // accepted for its epoch, and refused for something else
	}
	if cx.resp.ErrorCode != none {
		return verdict{text: conformance.FirstDifference(k, c, "exact")}
	}
	tasks, ok := listsOf(cx.resp.ActiveTasks, cx.resp.StandbyTasks, cx.resp.WarmupTasks)
	switch {
	case !cx.holdsReported(cx.was.told, cx.was.before):
		return wrong("%s: coordd accepts the report of tasks that the member was never given", rule)
	case !ok || !tasks.equal(cx.was.told):
		return wrong("%s: the answer lists %v, not the tasks that the member was told, %v", rule, tasks, cx.was.told)
	case cx.resp.MemberEpoch != cx.was.epoch:
		return wrong("%s: moved from epoch %d to %d before it knew", rule, cx.was.epoch, cx.resp.MemberEpoch)
	}
	v := verdict{rule: rule}
	d.unknownShift = true
	switch {
	case kx.resp.ErrorCode == fencedMemberEpoch && tellsOfItself(cx):
		v.then = end
	case kx.resp.ErrorCode == fencedMemberEpoch && (remembered || d.kafka.describe()["assignment_epoch"] != d.coordd.describe()["assignment_epoch"]):
		v.then = settle // one member knows its epoch now, and one heartbeat was one for the whole group
	case kx.resp.ErrorCode == none && (kx.resp.MemberEpoch != kx.was.epoch || kx.resp.ActiveTasks != nil):
		v.then = settle
	}
	return v
}

// tellsOfItself says that the request has news of the member or a wish, which only a server that accepts it knows.
func tellsOfItself(x *exchange) bool {
	r := x.req
	return r.RackID != nil || r.ProcessID != nil || r.UserEndpoint != nil || r.ClientTags != nil || r.RebalanceTimeoutMillis != -1 ||
		r.TaskOffsets != nil || r.TaskEndOffsets != nil || r.ShutdownApplication
}

// accepted compares two answers without an error.
func (d *duel) accepted(kx, cx *exchange, k, c obj) verdict {
	d.statuses(k, c)
	if text := conformance.FirstDifference(k, c, "exact", "active", "standby", "warmup", "endpoint_epoch", "endpoints", "epoch"); text != "" {
		if d.script.ambiguous() && topicsProblem(kx) != topicsProblem(cx) {
			return verdict{rule: "order in which repartition topics are counted", then: end}
		}
		return wrong("%s", text)
	}
	v := d.tasks(kx, cx)
	if v.text != "" && d.lost && !sameReport(kx, cx) {
		// The member knows more on coordd, which has told it again what it had lost.
		return verdict{rule: "told again what was lost", then: settle}
	}
	if v.text == "" && v.then == goOn && kx.resp.MemberEpoch != cx.resp.MemberEpoch {
		if d.lost && !sameReport(kx, cx) {
			return verdict{rule: "told again what was lost", then: settle}
		}
		if v := d.assignedApart(); v.text == "" {
			return v
		}
		return wrong("epoch: want %d, got %d", kx.resp.MemberEpoch, cx.resp.MemberEpoch)
	}
	if v.text != "" || v.then != goOn {
		d.unknownShift = true // other tasks are other endpoints
		return v
	}
	if e := d.endpoints(kx, cx, k, c); e.text != "" || e.then != goOn {
		return e
	}
	return v
}

// topicsProblem is the status that says what is wrong with the group's topics, 0 when nothing is.
func topicsProblem(x *exchange) int8 {
	for _, code := range x.statusCodes() {
		if code >= 1 && code <= 3 {
			return code
		}
	}
	return 0
}

func sameReport(kx, cx *exchange) bool {
	k, kok := kx.reported()
	c, cok := cx.reported()
	return kok == cok && k.equal(c)
}

// tasks compares the task lists.
func (d *duel) tasks(kx, cx *exchange) verdict {
	kl, kok := listsOf(kx.resp.ActiveTasks, kx.resp.StandbyTasks, kx.resp.WarmupTasks)
	cl, cok := listsOf(cx.resp.ActiveTasks, cx.resp.StandbyTasks, cx.resp.WarmupTasks)
	const rule = "tasks told again"
	report, reported := cx.reported()
	switch {
	case cok && (!kok || !kl.equal(cl)) && reported && givenBack(cx, cl):
		return verdict{rule: "given back at once what it releases", then: settle}
	case kok && cok:
		if kl.equal(cl) {
			return verdict{}
		}
		if kl.counts() == cl.counts() {
			d.apart = true
			return verdict{rule: "ties of the assignor"}
		}
		return d.assignedApart()
	case kok:
		return d.assignedApart()
	case cok:
		if cl.equal(cx.was.told) && reported && !report.equal(cx.was.told) {
			return verdict{rule: rule}
		}
		return d.assignedApart()
	case reported && cx.req.MemberEpoch > 0 && !report.equal(cx.was.told):
		return wrong("%s: the member reports %v and has %v, and is not told so", rule, report, cx.was.told)
	}
	return verdict{}
}

// givenBack says that among the new tasks of the answer are some that the member was to give up, and does not report any more.
func givenBack(cx *exchange, now lists) bool {
	report, _ := cx.reported()
	released := map[string]bool{}
	for _, t := range cx.was.before.all() {
		released[t] = !slices.Contains(report.all(), t)
	}
	for i := range now {
		for _, t := range now[i] {
			if released[t] && !slices.Contains(cx.was.told[i], t) {
				return true
			}
		}
	}
	return false
}

// assignedApart is for answers that differ since the assignors have broken ties differently. The targets must be as balanced
// on both sides, with the same tasks; then the members catch up, and all goes on from there.
func (d *duel) assignedApart() verdict {
	k, c := d.kafka.describe(), d.coordd.describe()
	if !d.apart && targets(k) == targets(c) {
		kx, cx := d.kafka.heard[len(d.kafka.heard)-1], d.coordd.heard[len(d.coordd.heard)-1]
		return wrong("tasks: want %v, got %v", kx.resp.ActiveTasks, cx.resp.ActiveTasks)
	}
	d.apart = true
	for _, field := range []string{"error", "epoch", "assignment_epoch"} {
		if k[field] != c[field] {
			return wrong("tasks differ, and %s of the group: want %v, got %v", field, k[field], c[field])
		}
	}
	if a, b := balance(k), balance(c); a != b {
		return wrong("the targets are not alike: want %s, got %s", a, b)
	}
	return verdict{rule: "ties of the assignor", then: settle}
}

// targets are the tasks that each member is to have.
func targets(described obj) string {
	all := map[string]any{}
	for id, m := range described["members"].(obj) {
		all[id] = m.(obj)["target"]
	}
	return fmt.Sprint(all)
}

// balance are the tasks of all targets together, and the difference between most and least active tasks of a member: where all
// processes have as many members, which ties do not change.
func balance(described obj) string {
	var active, standby []string
	least, most := -1, 0
	sizes := map[string]int{}
	for _, m := range described["members"].(obj) {
		sizes[fmt.Sprint(m.(obj)["process"])]++
		target := m.(obj)["target"].(obj)
		mine := flat(target["active"])
		active, standby = append(active, mine...), append(standby, flat(target["standby"])...)
		most = max(most, len(mine))
		if least < 0 || len(mine) < least {
			least = len(mine)
		}
	}
	slices.Sort(active)
	slices.Sort(standby)
	if n := slices.Sorted(maps.Values(sizes)); len(n) > 0 && n[0] != n[len(n)-1] {
		return fmt.Sprintf("active %v standby %v", active, standby)
	}
	return fmt.Sprintf("active %v standby %v, most and least active differ by %d", active, standby, most-least)
}

// flat turns "0:1,2" into "0:1" and "0:2".
func flat(l any) (out []string) {
	tasks, _ := l.([]any)
	for _, t := range tasks {
		sub, parts, _ := strings.Cut(fmt.Sprint(t), ":")
		for _, p := range strings.Split(parts, ",") {
			out = append(out, sub+":"+p)
		}
	}
	return out
}

// anElection is less than the endpoint epoch that a leader begins with, the unix seconds of its election.
const anElection = 1e9

// endpoints compares endpoint epochs and lists. coordd's epoch rises also for a member that is gone.
func (d *duel) endpoints(kx, cx *exchange, k, c obj) verdict {
	shift := cx.resp.EndpointInformationEpoch - kx.resp.EndpointInformationEpoch
	switch {
	case shift > anElection:
		return verdict{rule: "the leader has changed", then: end} // on a busy machine
	case !kx.exists && kx.resp.EndpointInformationEpoch == 1 && cx.resp.EndpointInformationEpoch == 0:
		d.unknownShift = true // the group took the place of an empty classic one, and Kafka begins at 0 with the next heartbeat
	case d.unknownShift:
		d.shift, d.unknownShift = shift, false
	case shift == d.shift && !cx.stale:
	case shift == d.shift+1 && cx.stale, shift == d.shift && cx.stale && cx.rose:
		d.shift = shift
	default:
		return wrong("endpoint epoch: want %d (ahead by %d), got %d", kx.resp.EndpointInformationEpoch, d.shift, cx.resp.EndpointInformationEpoch)
	}
	kp, cp := kx.resp.PartitionsByUserEndpoint, cx.resp.PartitionsByUserEndpoint
	switch {
	case d.shift == 0 && (kp == nil) != (cp == nil):
		return verdict{text: "endpoints: " + conformance.FirstDifference(obj{"e": k["endpoints"]}, obj{"e": c["endpoints"]}, "exact")}
	case cx.req.MemberEpoch > 0 && (cx.req.EndpointInformationEpoch != cx.resp.EndpointInformationEpoch) != (cp != nil):
		return wrong("endpoints: listed %v, at epoch %d for a member that knows %d", cp != nil, cx.resp.EndpointInformationEpoch, cx.req.EndpointInformationEpoch)
	case kp == nil || cp == nil:
		return verdict{}
	case d.apart:
		if len(kp) != len(cp) {
			return wrong("endpoints: want %d, got %d", len(kp), len(cp))
		}
		return verdict{}
	}
	oneEntryForATopic(k)
	return verdict{text: conformance.FirstDifference(obj{"endpoints": k["endpoints"]}, obj{"endpoints": c["endpoints"]}, "exact")}
}

// oneEntryForATopic unites what Kafka lists once for each subtopology that reads a topic.
func oneEntryForATopic(k obj) {
	l, _ := k["endpoints"].([]any)
	for i, e := range l {
		l[i] = brackets.ReplaceAllStringFunc(fmt.Sprint(e), func(topics string) string {
			parts := strings.Fields(strings.Trim(topics, "[]"))
			byTopic := map[string][]string{}
			for _, p := range parts {
				topic, numbers, _ := strings.Cut(p, "/")
				for _, n := range strings.Split(numbers, ",") {
					if !slices.Contains(byTopic[topic], n) {
						byTopic[topic] = append(byTopic[topic], n)
					}
				}
			}
			var united []string
			for topic, numbers := range byTopic {
				slices.SortFunc(numbers, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
				united = append(united, topic+"/"+strings.Join(numbers, ","))
			}
			slices.Sort(united)
			return "[" + strings.Join(united, " ") + "]"
		})
	}
}

var brackets = regexp.MustCompile(`\[[^\]]*\]`)
