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
