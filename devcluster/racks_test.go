package devcluster

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Racks of the brokers behind, of leaders of partitions and of members come together through a whole node: the member in the rack
// where all leaders are gets the task that one of two must have more. Who lacks a tag is told, and gets tasks.
func TestRacksOfLeadersAndMembers(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=4000", "group.streams.heartbeat.hold.ms=0",
		"group.streams.rack.aware.assignment.strategy=min_traffic", "group.streams.rack.aware.assignment.tags=zone")
	if _, err := r.adm.CreateTopic(r.ctx, 3, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	const there = "krack" // where all brokers are that devcluster embeds
	racks := map[string]string{"a": "elsewhere", "b": there}
	tasks, epochs := map[string]int{}, map[string]int32{}
	beat := func(member string) {
		resp := r.beatWith("app", epochs[member], func(req *kmsg.StreamsGroupHeartbeatRequest) {
			req.MemberID = member
			if req.MemberEpoch == 0 {
				req.ProcessID, req.RackID = kmsg.StringPtr("process-"+member), kmsg.StringPtr(racks[member])
				if member == "a" {
					req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "zone", Value: "z"}}
				}
			}
		})
		if resp.ErrorCode != 0 {
			t.Fatalf("%s: %+v", member, resp)
		}
		epochs[member] = resp.MemberEpoch
		if resp.ActiveTasks != nil {
			tasks[member] = 0
		}
		for _, of := range resp.ActiveTasks {
			tasks[member] += len(of.Partitions)
		}
		missing := false
		for _, s := range resp.Status {
			missing = missing || s.StatusCode == 6
		}
		if missing != (member == "b") {
			t.Fatalf("%s is told that tags are missing: %t", member, missing)
		}
	}
	for tasks["a"] == 0 || tasks["b"] == 0 {
		beat("a")
		beat("b")
		select {
		case <-r.ctx.Done():
			t.Fatalf("tasks: %v", tasks)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if tasks["a"] != 1 || tasks["b"] != 2 {
		t.Errorf("numbers of tasks: %v", tasks)
	}
}
