package conformance

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func parseTasks(v any, owned []kmsg.TaskIDs) []kmsg.TaskIDs {
	if v == nil {
		return nil
	}
	if s, ok := v.(string); ok && s == "assigned" {
		return append([]kmsg.TaskIDs{}, owned...)
	}
	out := []kmsg.TaskIDs{}
	for _, s := range strs(v) {
		sub, parts, ok := strings.Cut(s, ":")
		if !ok {
			panic("a task list entry looks like \"0:0,1,2\", not " + s)
		}
		t := kmsg.NewTaskIDs()
		t.SubtopologyID = sub
		t.Partitions = []int32{}
		for _, p := range strings.Split(parts, ",") {
			if p = strings.TrimSpace(p); p == "" {
				continue
			}
			n, err := strconv.Atoi(p)
			check(err)
			t.Partitions = append(t.Partitions, int32(n))
		}
		out = append(out, t)
	}
	return out
}

// report gives the three task lists that a member reports: the tasks it was assigned last, or what a client may send that is
// not so far yet, or has lost something, or is wrong.
func (m *member) report(what string) (active, standby, warmup []kmsg.TaskIDs) {
	active, standby, warmup = notNil(m.active), notNil(m.standby), notNil(m.warmup)
	switch what {
	case "assigned":
	case "previous": // it has not applied the last change
		active, standby, warmup = notNil(m.before[0]), notNil(m.before[1]), notNil(m.before[2])
	case "fewer": // it has not started, or has given up, one of its tasks
		if len(active) > 0 {
			active = withoutFirst(active)
		} else if len(standby) > 0 {
			standby = withoutFirst(standby)
		}
	case "more": // it claims a task that it was not given
		active = withOther(active, standby, warmup)
	case "swapped":
		active, standby = standby, active
	default:
		panic("tasks can be assigned, previous, fewer, more or swapped, not " + what)
	}
	return active, standby, warmup
}

func withoutFirst(in []kmsg.TaskIDs) []kmsg.TaskIDs {
	first := in[0]
	first.Partitions = first.Partitions[1:]
	if len(first.Partitions) == 0 {
		return notNil(in[1:])
	}
	return append([]kmsg.TaskIDs{first}, in[1:]...)
}

// withOther adds the first partition of subtopology 0 that is in none of the lists.
func withOther(active, standby, warmup []kmsg.TaskIDs) []kmsg.TaskIDs {
	const subtopology = "0"
	held := map[int32]bool{}
	for _, tasks := range [][]kmsg.TaskIDs{active, standby, warmup} {
		for _, t := range tasks {
			if t.SubtopologyID == subtopology {
				for _, p := range t.Partitions {
					held[p] = true
				}
			}
		}
	}
	other := int32(0)
	for held[other] {
		other++
	}
	out, added := []kmsg.TaskIDs{}, false
	for _, t := range active {
		if t.SubtopologyID == subtopology {
			t.Partitions, added = append(append([]int32{}, t.Partitions...), other), true
		}
		out = append(out, t)
	}
	if !added {
		t := kmsg.NewTaskIDs()
		t.SubtopologyID, t.Partitions = subtopology, []int32{other}
		out = append(out, t)
	}
	return out
}

func tasksOut(ts []kmsg.TaskIDs) any {
	if ts == nil {
		return nil
	}
	out := []string{}
	for _, t := range ts {
		ps := append([]int32{}, t.Partitions...)
		sort.Slice(ps, func(i, j int) bool { return ps[i] < ps[j] })
		p := make([]string, len(ps))
		for i, n := range ps {
			p[i] = strconv.Itoa(int(n))
		}
		out = append(out, t.SubtopologyID+":"+strings.Join(p, ","))
	}
	sort.Strings(out)
	return out
}

func parseOffsets(v any) []kmsg.TaskOffset { // ["0:1=100"]
	if v == nil {
		return nil
	}
	out := []kmsg.TaskOffset{}
	for _, s := range strs(v) {
		t, o, _ := strings.Cut(s, "=")
		sub, p, _ := strings.Cut(t, ":")
		to := kmsg.NewTaskOffset()
		to.SubtopologyID = sub
		pn, err := strconv.Atoi(p)
		check(err)
		on, err := strconv.ParseInt(o, 10, 64)
		check(err)
		to.Partition, to.Offset = int32(pn), on
		out = append(out, to)
	}
	return out
}

func offsetsOut(ts []kmsg.TaskOffset) any {
	if ts == nil {
		return nil
	}
	out := []string{}
	for _, t := range ts {
		out = append(out, fmt.Sprintf("%s:%d=%d", t.SubtopologyID, t.Partition, t.Offset))
	}
	sort.Strings(out)
	return out
}
