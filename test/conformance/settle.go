package conformance

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// settle plays well-behaved clients: every member heartbeats, reports what it was last assigned (so a revocation is
// acknowledged by the next heartbeat) until nothing changes any more.
func settle(r *runner, arg any) any {
	o := fields{}
	if m := asObj(arg); m != nil {
		o = fields(m)
	} else {
		o["members"] = arg
	}
	names := strs(o["members"])
	pause := time.Duration(o.num("pause_ms", 30)) * time.Millisecond
	maxRounds := int(o.num("max_rounds", 200))
	gone := map[string]string{}
	last := map[string]*kmsg.StreamsGroupHeartbeatResponse{}
	quiet, rounds := 0, 0
	stable := false
	for ; rounds < maxRounds; rounds++ {
		changed := false
		for _, n := range names {
			if gone[n] != "" {
				continue
			}
			m := r.member(n)
			kind, f := beatRegular, fields{"tasks": "assigned"}
			if m.epoch <= 0 {
				kind, f = beatJoin, fields{}
				m.active, m.standby, m.warmup = nil, nil, nil
			}
			if o.has("version") {
				f["version"] = o["version"]
			}
			before := m.epoch
			resp, _ := r.heartbeat(kind, m, f)
			if resp.ErrorCode != 0 {
				gone[n] = errName(resp.ErrorCode)
				changed = true
				continue
			}
			if m.epoch != before || resp.ActiveTasks != nil || (last[n] != nil && show(statusOut(last[n].Status)) != show(statusOut(resp.Status))) {
				changed = true
			}
			last[n] = resp
		}
		if changed {
			quiet = 0
		} else {
			quiet++
		}
		if quiet >= 2 {
			d := r.describeOne(r.s.id, false, false, 1)
			st, _ := d["state"].(string)
			if st == "Stable" && quiet >= 3 || quiet >= 15 {
				stable = true
				break
			}
		}
		time.Sleep(pause)
	}
	d := r.describeOne(r.s.id, false, false, 1)
	out := obj{"group": obj{"error": d["error"], "state": d["state"], "epoch": d["epoch"], "assignment_epoch": d["assignment_epoch"]}}
	if !stable {
		out["unsettled"] = fmt.Sprintf("no rest after %d rounds", rounds)
	}
	ms := obj{}
	seen := map[string]string{}
	total := map[string]obj{"active": {}, "standby": {}, "warmup": {}}
	dup, conflict := []string{}, []string{}
	procs := map[string]map[string]bool{}
	for _, n := range names {
		if gone[n] != "" {
			ms[n] = obj{"error": gone[n]}
			continue
		}
		m := r.member(n)
		ms[n] = obj{
			"error": "NONE", "epoch": int(m.epoch), "status": statusOut(last[n].Status),
			"active": tasksOut(m.active), "standby": tasksOut(m.standby), "warmup": tasksOut(m.warmup),
		}
		if procs[m.process] == nil {
			procs[m.process] = map[string]bool{}
		}
		for role, ts := range map[string][]kmsg.TaskIDs{"active": m.active, "standby": m.standby, "warmup": m.warmup} {
			for _, t := range ts {
				for _, p := range t.Partitions {
					id := fmt.Sprintf("%s:%d", t.SubtopologyID, p)
					c, _ := total[role][t.SubtopologyID].(int)
					total[role][t.SubtopologyID] = c + 1
					if role == "active" {
						if seen[id] != "" {
							dup = append(dup, id)
						}
						seen[id] = n
					}
					if procs[m.process][id] {
						conflict = append(conflict, id+" twice in "+m.process)
					}
					procs[m.process][id] = true
				}
			}
		}
	}
	sort.Strings(dup)
	sort.Strings(conflict)
	least, most := -1, 0
	for _, n := range names {
		if gone[n] == "" {
			c := 0
			for _, t := range r.member(n).active {
				c += len(t.Partitions)
			}
			most = max(most, c)
			if least < 0 || c < least {
				least = c
			}
		}
	}
	out["members"] = ms
	out["totals"] = obj{"active_tasks": total["active"], "standby_tasks": total["standby"], "warmup_tasks": total["warmup"],
		"active_on_two_members": dup, "twice_in_one_process": conflict, "most_minus_least_active": most - max(least, 0)}
	return out
}

// heartbeatUntil repeats one member's heartbeat (reporting its assignment) until a condition holds.
func heartbeatUntil(r *runner, arg any) any {
	o := fields(asObj(arg))
	m := r.member(o.str("member", "A"))
	until := fields(asObj(o["until"]))
	if len(until) == 0 {
		panic("heartbeat_until needs until: {...}")
	}
	f := fields{}
	for k, v := range o {
		switch k {
		case "until", "timeout_ms", "pause_ms", "member", "with":
		default:
			f[k] = v
		}
	}
	if !f.has("tasks") && !f.has("active") {
		f["tasks"] = "assigned"
	}
	with := strs(o["with"]) // other members that keep heartbeating meanwhile
	deadline := time.Now().Add(time.Duration(o.num("timeout_ms", 15000)) * time.Millisecond)
	var out obj
	for {
		for _, n := range with {
			r.heartbeat(beatRegular, r.member(n), fields{"tasks": "assigned"})
		}
		resp, _ := r.heartbeat(beatRegular, m, f)
		out = r.heartbeatOut(resp)
		ok := true
		for k, v := range until {
			switch k {
			case "error":
				ok = ok && out["error"] == fmt.Sprint(v)
			case "epoch":
				ok = ok && int64(m.epoch) == num(v) && resp.ErrorCode == 0
			case "status": // exactly these
				got := []string{}
				for _, s := range resp.Status {
					got = append(got, statusName(s.StatusCode))
				}
				sort.Strings(got)
				want := strs(v)
				sort.Strings(want)
				ok = ok && resp.ErrorCode == 0 && strings.Join(got, ",") == strings.Join(want, ",")
			case "assigned": // the heartbeat brought task lists
				ok = ok && resp.ErrorCode == 0 && (resp.ActiveTasks != nil) == (v == true)
			case "active_count":
				n := 0
				for _, t := range m.active {
					n += len(t.Partitions)
				}
				ok = ok && resp.ErrorCode == 0 && int64(n) == num(v)
			case "state":
				ok = ok && r.describeOne(r.s.id, false, false, 1)["state"] == fmt.Sprint(v)
			default:
				panic("unknown condition " + k)
			}
		}
		if ok {
			out["reached"] = true
			return out
		}
		if time.Now().After(deadline) {
			out["reached"] = false
			return out
		}
		time.Sleep(time.Duration(o.num("pause_ms", 50)) * time.Millisecond)
	}
}
