package streams

import (
	"fmt"
	"strconv"
	"testing"
	"unsafe"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// flood is as long a report as fits into a request: tasks of one subtopology that the group has for the most part not, in an order
// that is no order, and of others that it does not have at all.
func flood() (list []TaskOffset) {
	const n = 140_000
	for i := range int32(n) {
		t := topology.Task{Subtopology: "0", Partition: i * 7919 % n}
		if i%7 == 0 {
			t.Subtopology = strconv.Itoa(int(100 + i%1000))
		}
		list = append(list, TaskOffset{Task: t, Offset: 1000})
	}
	return list
}

func (w *world) floodWith(list, ends []TaskOffset) Decision {
	for m := range w.group().Members() {
		req := &HeartbeatRequest{Version: 1, GroupID: testGroup, MemberID: m.ID, MemberEpoch: 7, EndpointEpoch: w.soft.EndpointEpoch,
			RebalanceTimeoutMs: -1, TaskOffsets: list, TaskEndOffsets: ends}
		client := &coordinator.Client{ID: "c", Host: "/h"}
		return Heartbeat(HeartbeatInput{Group: w.group(), Soft: w.soft, Env: w.env(), Client: client, Request: req})
	}
	panic("no members")
}

func TestFewOffsetsOfTasksThatDoNotExistAreKept(t *testing.T) {
	w := statefulWorld(t, 100)
	list := flood()
	d := w.floodWith(list, list)
	if d.Reply.Err != nil {
		t.Fatal(d.Reply.Err)
	}
	want := maxOtherOffsets
	for _, o := range list {
		if o.Subtopology == "0" && o.Partition < 100 {
			want++
		}
	}
	id := w.group().Topology.Subtopologies[0].ID
	for _, kept := range [][]TaskOffset{d.Soft.TaskOffsets, d.Soft.TaskEndOffsets} {
		if len(kept) != want || cap(kept) != want {
			t.Fatalf("%d offsets are kept, in place for %d, instead of %d", len(kept), cap(kept), want)
		}
		for i, o := range kept {
			shared := unsafe.StringData(o.Subtopology) == unsafe.StringData(id)
			if i > 0 && kept[i-1].Compare(o.Task) >= 0 || shared != (o.Subtopology == "0") {
				t.Fatalf("%d: %v after %v", i, o, kept[max(0, i-1)])
			}
		}
	}
}

// What makes no sense is refused, whether its task exists or not, and nothing of the heartbeat is taken.
func TestReportsOfTasksTwiceAreRefused(t *testing.T) {
	w := statefulWorld(t, 100)
	for _, wrong := range []topology.Task{{Subtopology: "0", Partition: 5}, {Subtopology: "0", Partition: 139_999}, {Subtopology: "gone", Partition: 1}, {Subtopology: "gone", Partition: -1}} {
		list := append(flood(), TaskOffset{Task: wrong}, TaskOffset{Task: topology.Task{Subtopology: "0", Partition: 1 << 30}}, TaskOffset{Task: wrong})
		for field, d := range map[string]Decision{"TaskOffsets": w.floodWith(list, nil), "TaskEndOffsets": w.floodWith([]TaskOffset{}, list)} {
			want := fmt.Sprintf("Task offsets contain a duplicate entry for subtopology %s and partition %d in %s.", wrong.Subtopology, wrong.Partition, field)
			if wrong.Partition < 0 {
				want = fmt.Sprintf("%s contain the negative partition -1.", field)
			}
			if d.Reply.Err == nil || d.Reply.Err.Code != coordinator.InvalidRequest || d.Reply.Err.Message != want || d.Records != nil ||
				d.Soft.Member != "" || d.Soft.TaskOffsets != nil || d.Soft.TaskEndOffsets != nil {
				t.Errorf("%v in %s: %v, records %v", wrong, field, d.Reply.Err, d.Records)
			}
		}
	}
}

// Where nobody knows which tasks there are, not more is kept than a process can have on disk.
func TestOffsetsOfUnknownTasksAreBounded(t *testing.T) {
	group := &topology.Topology{Subtopologies: []topology.Subtopology{{ID: "0"}}}
	for _, c := range []struct {
		name string
		r    reportReader
	}{
		{"topics are missing", reportReader{topology: group, configured: &topology.Configured{}}},
		{"the member's own topology without counts", reportReader{topology: group, configured: &topology.Configured{}, stale: true, own: group}},
		{"the member's own topology is not known", reportReader{topology: &topology.Topology{}, configured: &topology.Configured{}, stale: true}},
	} {
		kept, err := c.r.read("TaskOffsets", flood())
		if err != nil || len(kept) != maxUnsureOffsets+maxOtherOffsets {
			t.Errorf("%s: %d offsets are kept, %v", c.name, len(kept), err)
		}
	}
}

func TestReportedTasksAreMerged(t *testing.T) {
	of := func(partitions ...int32) (list []TaskOffset) {
		for _, p := range partitions {
			list = append(list, TaskOffset{Task: topology.Task{Subtopology: "0", Partition: p}})
		}
		return list
	}
	var got []int32
	for task := range reportedTasks(of(1, 3, 9), nil, of(0, 1, 2, 3), of(9)) {
		got = append(got, task.Partition)
	}
	if fmt.Sprint(got) != "[0 1 2 3 9]" {
		t.Error(got)
	}
}

// BenchmarkReportFlood is a heartbeat with as many offsets as fit.
func BenchmarkReportFlood(b *testing.B) {
	w := statefulWorld(b, 100)
	list := flood()
	b.ReportAllocs()
	for b.Loop() {
		if d := w.floodWith(list, nil); d.Reply.Err != nil {
			b.Fatal(d.Reply.Err)
		}
	}
}
