package cases

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coordd/coordd/assignor"
)

const (
	inputs   = "../assignor/cases"
	recorded = "../results/assignor.jsonl"
)

func names(t *testing.T) []string {
	t.Helper()
	all, err := Names(inputs)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func load(t *testing.T, name string) assignor.Spec {
	t.Helper()
	spec, err := Load(inputs, name)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func kafka(t *testing.T, name string) map[string]Kafka {
	t.Helper()
	lines, err := LoadKafka(recorded, name)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestMeasuresAreKafkas: what Kafka's assignors made of a case measures the same here as in AssignorBench.
func TestMeasuresAreKafkas(t *testing.T) {
	sticky, ha := kafka(t, "sticky"), kafka(t, "ha")
	compared := 0
	for _, name := range names(t) {
		if strings.HasPrefix(name, "5000x") || strings.HasPrefix(name, "1000x") {
			continue
		}
		spec := load(t, name)
		for which, of := range map[string]map[string]Kafka{"sticky": sticky, "ha": ha} {
			want, ok := of[name]
			if !ok {
				t.Fatalf("%s: no line of %s", name, which)
			}
			out, err := LoadOutput(inputs, name, which, spec)
			if err != nil {
				t.Fatal(err)
			}
			got := Measure(spec, out)
			got.OrphansToStandby, got.MovedToStandby = 0, 0
			if which == "ha" { // it knows processes only
				got.ActiveSpreadMember, got.MovedActiveMember = 0, 0
			}
			if got != want.Quality {
				t.Errorf("%s by %s:\n%+v\nrecorded:\n%+v", name, which, got, want.Quality)
			}
			compared++
		}
	}
	if compared < 80 {
		t.Errorf("only %d outputs", compared)
	}
}

// TestExchangesAreNotWorse: what makes hand-overs to standbys no worse than Kafka's survives the way from the process that is timed.
func TestExchangesAreNotWorse(t *testing.T) {
	const name = "100x1000-s1-leave10pct"
	spec := load(t, name)
	out, err := assignor.Sticky().Assign(spec)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(Measure(spec, out))
	if err != nil {
		t.Fatal(err)
	}
	var q Quality
	if err := json.Unmarshal(line, &q); err != nil {
		t.Fatal(err)
	}
	k := kafka(t, "sticky")[name].Quality
	if w := Worse(q, k); len(w) > 0 || q.MovedActiveMember <= k.MovedActiveMember {
		t.Errorf("%d tasks moved: %v", q.MovedActiveMember, w)
	}
	q.MovedToStandby = 0
	if w := Worse(q, k); len(w) != 1 {
		t.Errorf("moves to processes without a standby: %v", w)
	}
}

// checkWhole: every task once, its standbys in other processes.
func checkWhole(t *testing.T, spec assignor.Spec, q Quality) {
	t.Helper()
	processes := map[string]bool{}
	for i := range spec.Members {
		processes[spec.Members[i].ProcessID] = true
	}
	standbys := min(spec.NumStandbyReplicas, len(processes)-1) * q.Of // everything is stateful
	if q.Assigned != q.Of || q.Duplicates != 0 || q.Standby != standbys || q.StandbyBesideActive != 0 {
		t.Errorf("%d of %d tasks active, %d twice; %d standbys instead of %d, %d beside their active", q.Assigned, q.Of, q.Duplicates, q.Standby, standbys, q.StandbyBesideActive)
	}
}
