package convergence

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/coordd/coordd/assignor"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/assignors.md")

const page = "../../docs/assignors.md"

// assignors are those that are compared.
var assignors = []assignor.Assignor{assignor.Sticky(), assignor.HighlyAvailable()}

// TestConvergence plays every scenario with every assignor. What must hold at each moment is checked on the way; that
// highly_available keeps its promise, at the end; and the numbers are those of docs/assignors.md.
func TestConvergence(t *testing.T) {
	var rows []row
	for i := range scenarios {
		for _, standbys := range scenarios[i].standbys {
			for _, a := range assignors {
				rows = append(rows, row{scenario: &scenarios[i], standbys: standbys, assignor: a.Name()})
			}
		}
	}
	t.Run("scenarios", func(t *testing.T) {
		for i := range rows {
			r, a := &rows[i], assignors[i%len(assignors)]
			t.Run(fmt.Sprintf("%s/standbys %d/%s", r.scenario.name, r.standbys, r.assignor), func(t *testing.T) {
				t.Parallel()
				w, o, err := play(r.scenario, a, r.standbys)
				if err != nil {
					t.Fatal(err)
				}
				r.outcome = o
				if err := w.check(r, o); err != nil {
					t.Errorf("%v\n%s", err, w.show())
				}
			})
		}
	})
	made := table(rows)
	if t.Failed() {
		t.Fatalf("so far:\n%s", made)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	old, changed, ok := within(string(text), made)
	switch {
	case !ok:
		t.Fatalf("%s has no place for the table", page)
	case *rewrite:
		if err := os.WriteFile(page, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	case old != made:
		t.Errorf("%s has another table (go test ./test/convergence -rewrite makes it anew); now it is\n%s", page, made)
	}
}
