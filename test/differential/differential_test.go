package differential

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestGenerateIsRepeatableAndReadable(t *testing.T) {
	ops := map[string]int{}
	for seed := range uint64(500) {
		a, err := Generate(seed).YAML()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := Generate(seed).YAML(); err != nil || !bytes.Equal(a, b) {
			t.Fatalf("seed %d makes two scripts: %v\n%s\n%s", seed, err, a, b)
		}
		s := Generate(seed)
		if _, err := s.scenario("x"); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, a)
		}
		for _, step := range s.Steps {
			op, _ := operation(step)
			ops[op]++
		}
	}
	for _, op := range []string{"join", "heartbeat", "leave", "static_leave", "forget", "settle", "describe", "list_groups", "delete_group",
		"set_group_config", "offset_commit", "offset_fetch", "offset_delete", "classic_join", "classic_leave", "classic_heartbeat", "classic_describe",
		"consumer_heartbeat", "consumer_describe"} {
		if ops[op] == 0 {
			t.Errorf("no script has a step %s", op)
		}
	}
}

func TestMinimiseKeepsWhatFails(t *testing.T) {
	var steps []obj
	for i := range 30 {
		steps = append(steps, obj{"sleep": i})
	}
	has := func(s *Script, n int) bool {
		return slices.ContainsFunc(s.Steps, func(o obj) bool { return o["sleep"] == n })
	}
	short := Minimise(&Script{Steps: steps}, 1000, func(s *Script) bool { return has(s, 3) && has(s, 17) && has(s, 29) })
	if len(short.Steps) != 3 {
		t.Errorf("%d steps are left of the 3 that matter: %v", len(short.Steps), short.Steps)
	}
	tries := 0
	Minimise(&Script{Steps: steps}, 7, func(*Script) bool { tries++; return false })
	if tries != 7 {
		t.Errorf("%d scripts were played, 7 allowed", tries)
	}
}

// beat is a heartbeat of A, which was told epoch 5 with task 0:0, and 4 with 0:0 and 0:1 before that, and its answer.
func beat(req func(*kmsg.StreamsGroupHeartbeatRequest), code int16, answer func(*kmsg.StreamsGroupHeartbeatResponse)) exchange {
	x := exchange{req: kmsg.NewPtrStreamsGroupHeartbeatRequest(), resp: kmsg.NewPtrStreamsGroupHeartbeatResponse(), known: true, members: 1}
	x.was = member{id: "A", epoch: 5, earlier: 4, moved: true, told: lists{{"0:0"}}, before: lists{{"0:0", "0:1"}}}
	x.req.MemberID, x.req.MemberEpoch, x.req.RebalanceTimeoutMillis = "A", 5, -1
	x.resp.ErrorCode = code
	if code == none {
		x.resp.MemberID, x.resp.MemberEpoch = "A", 5
	}
	if req != nil {
		req(x.req)
	}
	if answer != nil {
		answer(x.resp)
	}
	return x
}

// sends makes a join with a topology of that epoch out of a heartbeat.
func sends(epoch int32) func(*kmsg.StreamsGroupHeartbeatRequest) {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) {
		t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		t.Epoch = epoch
		r.MemberEpoch, r.Topology = 0, &t
	}
}

var joining = obj{"join": obj{"member": "A"}}

func refused(epoch int32) exchange { return beat(sends(epoch), invalidRequest, nil) }

func toldStale(r *kmsg.StreamsGroupHeartbeatResponse) {
	r.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: staleTopology}}
}

func tasks(partitions ...int32) []kmsg.TaskIDs {
	return []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: partitions}}
}

func report(active ...int32) func(*kmsg.StreamsGroupHeartbeatRequest) {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = tasks(active...), []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
}

func told(epoch int32, active ...int32) func(*kmsg.StreamsGroupHeartbeatResponse) {
	return func(r *kmsg.StreamsGroupHeartbeatResponse) {
		r.MemberEpoch = epoch
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = tasks(active...), []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
}

// TestRulesHoldWhatIsPromised gives each rule an answer of coordd that keeps the promise, and others that break it.
func TestRulesHoldWhatIsPromised(t *testing.T) {
	late := func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberEpoch = 4 }
	lateWith := func(active ...int32) func(*kmsg.StreamsGroupHeartbeatRequest) {
		return func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberEpoch = 4; report(active...)(r) }
	}
	for _, c := range []struct {
		name   string
		step   obj
		kafka  exchange
		coordd exchange
		wrong  string // what the verdict says, "" when all is well
	}{
		{"same", nil, beat(nil, 0, nil), beat(nil, 0, nil), ""},
		{"another epoch", nil, beat(nil, 0, nil), beat(nil, 0, func(r *kmsg.StreamsGroupHeartbeatResponse) { r.MemberEpoch = 6 }), "epoch"},
		{"another error", nil, beat(nil, fencedMemberEpoch, nil), beat(nil, unknownMemberID, nil), "error"},
		{"an error that Kafka does not have", nil, beat(nil, 0, nil), beat(nil, invalidRequest, nil), "error"},
		{"unasked tasks", nil, beat(nil, 0, nil), beat(nil, 0, told(5, 0)), "tasks"},
		{"told again", nil, beat(report(0, 1), 0, nil), beat(report(0, 1), 0, told(5, 0)), ""},
		{"not told again", nil, beat(report(0, 1), 0, nil), beat(report(0, 1), 0, nil), "is not told so"},
		{"told something else", nil, beat(report(0, 1), 0, nil), beat(report(0, 1), 0, told(5, 1)), "tasks"},
		{"lost answer", nil, beat(late, fencedMemberEpoch, nil), beat(late, 0, told(5, 0)), ""},
		{"lost answer, fenced", nil, beat(late, fencedMemberEpoch, nil), beat(late, fencedMemberEpoch, nil), "must accept"},
		{"lost answer, moved on", nil, beat(late, fencedMemberEpoch, nil), beat(late, 0, told(6, 0)), "before it knew"},
		{"lost answer, other tasks", nil, beat(late, fencedMemberEpoch, nil), beat(late, 0, told(5, 0, 1)), "not the tasks"},
		{"lost answer, foreign task", nil, beat(lateWith(2), fencedMemberEpoch, nil), beat(lateWith(2), 0, told(5, 0)), "never given"},
		{"lost answer, foreign task, fenced", nil, beat(lateWith(2), fencedMemberEpoch, nil), beat(lateWith(2), fencedMemberEpoch, nil), ""},
		{"no group", nil, beat(nil, groupIDNotFound, nil), beat(nil, unknownMemberID, nil), ""},
		{"no group, as in Kafka", nil, beat(nil, groupIDNotFound, nil), beat(nil, groupIDNotFound, nil), "must answer"},
		{"malformed", obj{"join": obj{"member": "A", "topology": "bad1"}}, beat(nil, unknownServerError, nil), beat(nil, invalidTopology, nil), ""},
		{"malformed, accepted", obj{"join": obj{"member": "A", "topology": "bad1"}}, beat(nil, 0, nil), beat(nil, 0, nil), "must answer"},
		{"another topology", joining, refused(3), beat(sends(3), invalidTopologyEpoch, nil), ""},
		{"another topology, accepted", joining, refused(3), beat(sends(3), none, nil), "must answer"},
		{"the next topology", joining, refused(4), beat(sends(4), none, nil), ""},
		{"the next topology, refused", joining, refused(4), beat(sends(4), invalidTopologyEpoch, nil), "must answer"},
		{"stale", joining, beat(sends(2), none, toldStale), beat(sends(2), none, toldStale), ""},
		{"stale, not told so", joining, beat(sends(2), none, toldStale), beat(sends(2), none, nil), "not told so"},
		{"task twice", nil, beat(report(0, 0), unknownServerError, nil), beat(report(0, 0), invalidRequest, nil), ""},
		{"task twice, accepted", nil, beat(report(0, 0), 0, nil), beat(report(0, 0), 0, nil), "must answer"},
	} {
		step := c.step
		if step == nil {
			step = obj{"heartbeat": obj{"member": "A"}}
		}
		stable := func() obj {
			return obj{"error": "NONE", "epoch": 5, "assignment_epoch": 5, "topology": obj{"epoch": 3}, "members": obj{"A": obj{"target": obj{"active": []any{"0:0"}}}}}
		}
		d := &duel{
			script: &Script{Members: obj{"A": obj{}}},
			kafka:  &server{heard: []exchange{c.kafka}, describe: stable}, coordd: &server{heard: []exchange{c.coordd}, describe: stable},
		}
		v := d.beat(step, out(&c.kafka), out(&c.coordd))
		switch {
		case c.wrong == "" && v.text != "":
			t.Errorf("%s: %s", c.name, v.text)
		case c.wrong != "" && !strings.Contains(v.text, c.wrong):
			t.Errorf("%s: the verdict is %q, and says nothing of %q", c.name, v.text, c.wrong)
		}
	}
}

// out is the part of an answer that the comparison sees beside the exchange.
func out(x *exchange) obj {
	o := obj{"error": int(x.resp.ErrorCode), "message": nil}
	switch x.resp.ErrorCode {
	case none:
		o["status"] = []any{}
	case groupIDNotFound:
		o["message"] = "Streams group $s not found."
	case invalidRequest:
		if x.req.Topology != nil {
			o["message"] = "Topology updates are not supported yet."
		}
	}
	return o
}
