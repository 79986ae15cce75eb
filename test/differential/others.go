package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/test/conformance"
)

// described compares groups as StreamsGroupDescribe shows them.
func (d *duel) described(k, c obj) verdict {
	if ignored := absentGroup(k, c); ignored != nil {
		return verdict{text: conformance.FirstDifference(k, c, "exact", ignored...)}
	}
	if text := partitionCounts(k, c); text != "" {
		return wrong("%s", text)
	}
	if text := conformance.FirstDifference(k, c, "exact"); text == "" {
		return verdict{}
	}
	if conformance.FirstDifference(k, c, "shape") == "" {
		d.apart = true
		return verdict{rule: "ties of the assignor"}
	}
	if text := conformance.FirstDifference(k, c, "totals"); text != "" {
		return wrong("%s", text)
	}
	return d.assignedApart()
}

// absentGroup leaves the messages about a group out that both say is not there: coordd does not always know what there is instead.
func absentGroup(k, c any) []string {
	if k.(obj)["error"] == "GROUP_ID_NOT_FOUND" && c.(obj)["error"] == "GROUP_ID_NOT_FOUND" {
		return []string{"message"}
	}
	return nil
}

// counted is an internal topic as descriptions show it: the names of those that exist end with their partitions.
var counted = regexp.MustCompile(`^(\S+-(\d+)) partitions=(\d+)`)

// partitionCounts takes the partition counts of internal topics out of both descriptions. Kafka tells those that it knew at the last
// heartbeat, coordd those of the topics that exist.
func partitionCounts(k, c obj) string {
	for side, o := range []obj{k, c} {
		t, _ := o["topology"].(obj)
		subs, _ := t["subtopologies"].(obj)
		for _, sub := range subs {
			for _, field := range []string{"changelogs", "repartition_sources"} {
				l, _ := sub.(obj)[field].([]any)
				for i, e := range l {
					m := counted.FindStringSubmatch(fmt.Sprint(e))
					if m == nil {
						continue
					}
					if runs := o["state"] != "NotReady" && o["state"] != "Empty"; side == 1 && runs && m[2] != m[3] {
						return fmt.Sprintf("topic %s has %s partitions, described are %s", m[1], m[2], m[3])
					}
					l[i] = strings.Replace(fmt.Sprint(e), "partitions="+m[3], "", 1)
				}
			}
		}
	}
	return ""
}

// listed compares lists of groups: Kafka does not find a group that is not ready by the state that it lists it with.
func (d *duel) listed(step obj, k, c obj) verdict {
	text := conformance.FirstDifference(k, c, "exact")
	if text == "" {
		return verdict{}
	}
	_, arg := operation(step)
	states, _ := arg.(obj)["states"].([]any)
	asked := slices.ContainsFunc(states, func(s any) bool {
		return strings.EqualFold(strings.ReplaceAll(fmt.Sprint(s), "_", ""), "NotReady")
	})
	group, _ := c["groups"].(obj)["$s"].(obj)
	if asked && group != nil && group["state"] == "NotReady" && k["groups"].(obj)["$s"] == nil {
		delete(c["groups"].(obj), "$s")
		return verdict{rule: "state filter in any spelling", text: conformance.FirstDifference(k, c, "exact")}
	}
	return wrong("%s", text)
}

// followers is how long replicas may need for what is committed.
const followers = 200 * time.Millisecond

// offsets compares commits and fetches. Where members have other tasks on the two servers, a commit with an epoch that is not the
// newest may be right on one of them only.
func (d *duel) offsets(op string, step obj, k, c any) verdict {
	text := conformance.FirstDifference(k, c, "exact")
	if strings.HasSuffix(text, "got GROUP_ID_NOT_FOUND") {
		// A group that is gone may be believed in by the node that was asked, until its replica has caught up.
		time.Sleep(followers)
		text = conformance.FirstDifference(k, d.coordd.player.Do(step).Out, "exact")
	}
	if text == "" || !d.apart || op != "offset_commit" {
		return verdict{text: text}
	}
	for _, out := range []any{k, c} {
		for _, e := range out.(obj) {
			if code := e.(obj)["error"]; code != "NONE" && code != "STALE_MEMBER_EPOCH" {
				return verdict{text: text}
			}
		}
	}
	return verdict{rule: "ties of the assignor", then: end}
}

// classicJoin compares JoinGroup. With a member id it makes Kafka lose an empty streams group.
func (d *duel) classicJoin(k, c obj) verdict {
	text := conformance.FirstDifference(k, c, "exact")
	switch {
	case text != "":
		return wrong("%s", text)
	case k["error"] == "NONE":
		d.forgetGroup()
	case k["error"] == "UNKNOWN_MEMBER_ID":
		kept := d.coordd.describe()
		if kept["error"] == "NONE" {
			if kept["state"] != "Empty" {
				return wrong("the group is %v", kept["state"])
			}
			return verdict{rule: "JoinGroup with a member id loses no group", then: end}
		}
	}
	return verdict{}
}
