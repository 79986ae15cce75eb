package assignor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coordd/coordd/topology"
)

func TestSticky(t *testing.T) {
	datadriven.RunTest(t, "testdata/sticky.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "assign" {
			t.Fatalf("unknown command %s", d.Cmd)
		}
		spec := parseSpec(t, d)
		out, err := Sticky().Assign(spec)
		if err != nil {
			return err.Error() + "\n"
		}
		return printAssignment(spec, out)
	})
}

func parseSpec(t *testing.T, d *datadriven.TestData) Spec {
	var spec Spec
	d.MaybeScanArgs(t, "standbys", &spec.NumStandbyReplicas)
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		fields := map[string]string{}
		for _, field := range f[2:] {
			key, value, _ := strings.Cut(field, "=")
			fields[key] = value
		}
		switch f[0] {
		case "sub":
			_, stateful := fields["stateful"]
			spec.Subtopologies = append(spec.Subtopologies, Subtopology{ID: f[1], Tasks: int32(atoi(t, fields["tasks"])), Stateful: stateful})
		case "member":
			spec.Members = append(spec.Members, Member{
				ID: f[1], ProcessID: fields["process"], Offsets: OffsetsOf(parseOffsets(t, fields["offsets"])),
				Current: topology.Assignment{Active: parseTasks(t, fields["active"]).WithEpoch(4), Standby: parseTasks(t, fields["standby"]), Warmup: parseTasks(t, fields["warmup"])},
			})
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return spec
}

func parseTasks(t *testing.T, s string) topology.Tasks {
	var tasks []topology.Task
	for _, name := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		tasks = append(tasks, parseTask(t, name))
	}
	return topology.NewTasks(tasks...)
}

func parseTask(t *testing.T, s string) topology.Task {
	sub, partition, _ := strings.Cut(s, "_")
	return topology.Task{Subtopology: sub, Partition: int32(atoi(t, partition))}
}

func parseOffsets(t *testing.T, s string) map[topology.Task]int64 {
	offsets := map[topology.Task]int64{}
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) {
		name, offset, _ := strings.Cut(item, ":")
		offsets[parseTask(t, name)] = atoi(t, offset)
	}
	return offsets
}

func atoi(t *testing.T, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func printAssignment(spec Spec, out Assignment) string {
	var b strings.Builder
	for _, m := range spec.Members {
		a := out[m.ID]
		fmt.Fprintf(&b, "%s %s: active=%s", m.ProcessID, m.ID, printTasks(a.Active))
		if spec.NumStandbyReplicas > 0 {
			fmt.Fprintf(&b, " standby=%s", printTasks(a.Standby))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func printTasks(tasks topology.Tasks) string {
	var names []string
	for task := range tasks.All() {
		names = append(names, fmt.Sprintf("%s_%d", task.Subtopology, task.Partition))
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, ",")
}

func TestStickyWithoutMembers(t *testing.T) {
	if _, err := Sticky().Assign(Spec{Subtopologies: []Subtopology{{ID: "0", Tasks: 1}}}); !errors.Is(err, ErrNoMembers) {
		t.Error(err)
	}
	if Sticky().Name() != "sticky" {
		t.Error("wrong name")
	}
}

// The memory follows the copies that are possible, not those that are asked for.
func TestStickyWithAbsurdlyManyStandbys(t *testing.T) {
	spec := group(2, 1, Subtopology{ID: "0", Tasks: 1000, Stateful: true})
	spec.NumStandbyReplicas = 1 << 40
	out, err := Sticky().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	for id, a := range out {
		if a.Active.Len() != 500 || a.Standby.Len() != 500 {
			t.Errorf("%s has %d and %d", id, a.Active.Len(), a.Standby.Len())
		}
	}
}

// group is a Spec of equal processes, named so that neither members nor processes are in the order of their numbers.
func group(processes, threads int, subtopologies ...Subtopology) Spec {
	spec := Spec{Subtopologies: subtopologies}
	for p := range processes {
		for m := range threads {
			spec.Members = append(spec.Members, Member{ID: fmt.Sprintf("m%x", (p*threads+m)*7919%1000003), ProcessID: fmt.Sprintf("p%x", p*104729%1000003)})
		}
	}
	slices.SortFunc(spec.Members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return spec
}

// adopt makes an assignment the current one.
func adopt(spec Spec, a Assignment) Spec {
	spec.Members = slices.Clone(spec.Members)
	for i := range spec.Members {
		target := a[spec.Members[i].ID]
		spec.Members[i].Current = topology.Assignment{Active: target.Active.WithEpoch(2), Standby: target.Standby, Warmup: target.Warmup}
	}
	return spec
}

func BenchmarkSticky(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, standbys := range []int{0, 1} {
			var subtopologies []Subtopology
			for i := range 10 {
				subtopologies = append(subtopologies, Subtopology{ID: strconv.Itoa(i), Tasks: int32(size), Stateful: true})
			}
			spec := group(size, 1, subtopologies...)
			spec.NumStandbyReplicas = standbys
			out, _ := Sticky().Assign(spec)
			left := adopt(spec, out)
			left.Members = left.Members[size/10:]
			for _, c := range []struct {
				name string
				spec Spec
			}{{"fresh", spec}, {"same", adopt(spec, out)}, {"leave10pct", left}} {
				b.Run(fmt.Sprintf("%dx%d-s%d-%s", size, 10*size, standbys, c.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						_, _ = Sticky().Assign(c.spec)
					}
				})
			}
		}
	}
}
