package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// TestMutationsFollowTheCode: every mutation can be made, which takes a moment; `make mutate` makes them.
func TestMutationsFollowTheCode(t *testing.T) {
	for _, m := range mutations {
		source, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.apply(source); err != nil {
			t.Error(err)
		}
	}
}

// TestDocsListTheMutations: docs/testing.md has the table that `go run ./internal/tools/mutate -table` prints.
func TestDocsListTheMutations(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join(root, "docs/testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), markdown()) {
		t.Errorf("docs/testing.md lacks the table:\n%s", markdown())
	}
}
