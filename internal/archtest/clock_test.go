package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ofTheWallClock are calls that take the monotonic time out of a moment: what is computed from the rest jumps when somebody
// sets the machine's clock.
var ofTheWallClock = []string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}

// mayUseTheWallClock are the files that may, and why.
var mayUseTheWallClock = map[string]string{
	"server/clock.go":           "reads it once, and counts on from there",
	"raftnode/seglog/format.go": "keeps what the library says of an entry; nothing is measured with it",
	"gateway/gateway.go":        "a deadline of long ago ends what a connection waits for",
	"cmd/coordd/why.go":         "prints a moment of the journal",
	"cmd/coordd/resetplan.go":   "asks for records by the time of day that they carry",
}

// TestNothingIsMeasuredByTheWallClock: clocks are set, back and forth. Durations and deadlines come of the monotonic time
// that a time.Time carries.
func TestNothingIsMeasuredByTheWallClock(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if within(name, forTests) {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join("../..", name, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			path := name + "/" + file
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(ofTheWallClock, s.Sel.Name) {
					used[path] = true
					if mayUseTheWallClock[path] == "" {
						t.Errorf("%s: %s takes the monotonic time out of a moment", fset.Position(call.Pos()), s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	for path := range mayUseTheWallClock {
		if !used[path] {
			t.Errorf("%s does not use the wall clock any more", path)
		}
	}
}
