package cases

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/topology"
)

// TestHighlyAvailableOnKafkasCases lets the highly available assignor go on until nothing changes, all copies being caught up
// after each step. On its way it must not exceed its budget of warm-ups, nor run a task where its state is not while it is
// elsewhere; at its end members have as many active tasks each as by the sticky assignor, and processes and threads are no worse
// off than by Kafka's.
func TestHighlyAvailableOnKafkasCases(t *testing.T) {
	recorded := kafka(t, "sticky")
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			first := load(t, name)
			plain, err := assignor.Sticky().Assign(first)
			if err != nil {
				t.Fatal(err)
			}
			spec, steps, moved, warmups := first, 0, 0, 0
			budget := max(Warmups, Measure(first, plain).Of/500)
			for ; ; steps++ {
				spec = WithOffsets(spec)
				spec.NumWarmupReplicas = budget
				out, err := assignor.HighlyAvailable().Assign(spec)
				if err != nil {
					t.Fatal(err)
				}
				n := warmupsOf(out)
				if n > budget {
					t.Fatalf("step %d: %d warm-ups, allowed are %d", steps, n, budget)
				}
				if without := runWithoutState(spec, out); without > 0 {
					t.Fatalf("step %d: %d tasks run without their state, which is elsewhere", steps, without)
				}
				warmups += n
				moved += Measure(spec, out).MovedActiveMember
				if unchanged(spec, out) {
					break
				}
				if steps > 1000 {
					t.Fatalf("still %d warm-ups after %d steps", n, steps)
				}
				spec = follow(spec, out)
			}
			want, got := Measure(first, plain), Measure(first, current(spec))
			checkWhole(t, first, got)
			t.Logf("%d steps with %d warm-ups, %d tasks moved (sticky at once %d)", steps, warmups, moved, want.MovedActiveMember)
			if got.ActiveSpreadMember > want.ActiveSpreadMember {
				t.Errorf("active tasks of members differ by %d at the end, by sticky %d", got.ActiveSpreadMember, want.ActiveSpreadMember)
			}
			k, ok := recorded[name]
			if ok && (got.ActiveSpreadProcess > k.ActiveSpreadProcess || got.ActivePerThreadSpread > k.ActivePerThreadSpread) {
				t.Errorf("active tasks of processes differ by %d at the end, of threads by %g; Kafka's sticky: %d, %g",
					got.ActiveSpreadProcess, got.ActivePerThreadSpread, k.ActiveSpreadProcess, k.ActivePerThreadSpread)
			}
		})
	}
}

func warmupsOf(out assignor.Assignment) (n int) {
	for _, a := range out {
		n += a.Warmup.Len()
	}
	return n
}

// runWithoutState counts the tasks that become active in a process without a copy while another one has any.
func runWithoutState(spec assignor.Spec, out assignor.Assignment) (n int) {
	g := newGroup(spec)
	for i := range spec.Members {
		g.each(spec.Members[i].Current.Warmup, func(t int) { g.standbyOn[t] = append(g.standbyOn[t], g.process[i]) })
	}
	for i := range spec.Members {
		p := g.process[i]
		g.each(out[spec.Members[i].ID].Active, func(t int) {
			owner := g.owner[t]
			if (owner < 0 || g.process[owner] != p) && !g.hadStandby(t, p) && (owner >= 0 || len(g.standbyOn[t]) > 0) {
				n++
			}
		})
	}
	return n
}

func unchanged(spec assignor.Spec, out assignor.Assignment) bool {
	for i := range spec.Members {
		if !spec.Members[i].Current.SameTasks(out[spec.Members[i].ID]) {
			return false
		}
	}
	return true
}

// follow has all members take what they were assigned.
func follow(spec assignor.Spec, out assignor.Assignment) assignor.Spec {
	spec.Members = slices.Clone(spec.Members)
	for i := range spec.Members {
		spec.Members[i].Current = out[spec.Members[i].ID]
	}
	return spec
}

func current(spec assignor.Spec) assignor.Assignment {
	out := make(map[string]topology.Assignment, len(spec.Members))
	for i := range spec.Members {
		out[spec.Members[i].ID] = spec.Members[i].Current
	}
	return out
}
