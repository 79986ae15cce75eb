package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaultsNameTests: every test that docs/testing.md names beside a fault is there.
func TestFaultsNameTests(t *testing.T) {
	const root = "../.."
	docs, err := os.ReadFile(filepath.Join(root, "docs/testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(docs), "\n## Faults that others met\n")
	if !found {
		t.Fatal("docs/testing.md has no section on the faults that others met")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, name := range declared.FindAllStringSubmatch(string(source), -1) {
			tests[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"TestScripts": "coordinator/streams/testdata/%", "TestAnswers": "test/conformance/scenarios/%.yaml",
	}
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| the fault ") {
			continue
		}
		rows++
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test beside the fault: %s", line)
		}
		for _, name := range names {
			test, part, _ := strings.Cut(name[1], "/")
			if !tests[test] {
				t.Errorf("there is no %s", test)
			}
			if part == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, strings.Replace(files[test], "%", part, 1))); files[test] == "" || err != nil {
				t.Errorf("there is no %s: %v", name[1], err)
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d faults are listed", rows)
	}
}
