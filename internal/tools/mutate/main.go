package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "run only the mutations whose description or test contains this text")
	table := flag.Bool("table", false, "print the table of docs/testing.md and run nothing")
	flag.Parse()
	if *table {
		fmt.Print(markdown())
		return
	}
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries every mutation and fails if a test does not notice one.
func run(only string) (err error) {
	dir, err := os.MkdirTemp("", "coordd-mutate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyModule(dir); err != nil {
		return err
	}
	var unnoticed []string
	good := map[string]bool{}
	for _, m := range mutations {
		if !strings.Contains(m.keeps+" "+m.test, only) {
			continue
		}
		start := time.Now()
		if !good[m.dir+m.test] {
			if out, err := test(dir, &m); err != nil {
				return fmt.Errorf("%s fails without a mutation, too:\n%s", m.test, out)
			}
			good[m.dir+m.test] = true
		}
		noticed, err := try(dir, &m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.keeps, err)
		}
		word := "noticed  "
		if !noticed {
			word = "UNNOTICED"
			unnoticed = append(unnoticed, m.keeps)
		}
		fmt.Printf("%s %5.1fs  %s: %s\n", word, time.Since(start).Seconds(), m.test, m.keeps)
	}
	if unnoticed != nil {
		return fmt.Errorf("no test fails without these lines: %s", strings.Join(unnoticed, "; "))
	}
	return nil
}

// try runs the mutation's test on the mutated copy and says whether it failed.
func try(dir string, m *mutation) (noticed bool, err error) {
	path := filepath.Join(dir, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	mutated, err := m.apply(source)
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(path, mutated, 0o600); err != nil {
		return false, err
	}
	out, failed := test(dir, m)
	if err := os.WriteFile(path, source, 0o600); err != nil {
		return false, err
	}
	if failed == nil {
		return false, nil
	}
	if !bytes.Contains(out, []byte("--- FAIL")) && !bytes.Contains(out, []byte("panic: ")) {
		return false, fmt.Errorf("the mutated package does not run:\n%s", out)
	}
	return true, nil
}

// apply returns the source with the mutation.
func (m *mutation) apply(source []byte) ([]byte, error) {
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has the text %d times instead of once; mutations.go is to follow the code:\n%s", m.file, n, m.old)
	}
	return bytes.Replace(source, []byte(m.old), []byte(m.fresh), 1), nil
}

func test(dir string, m *mutation) ([]byte, error) {
	var pattern []string
	for part := range strings.SplitSeq(m.test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	// A mutated program may wait for ever; every test named here takes seconds.
	args := []string{"test", "-count=1", "-timeout=2m", "-run", strings.Join(pattern, "/"), "./" + m.dir}
	if usesRapid(filepath.Join(dir, m.dir)) {
		args = append(args, "-rapid.shrinktime=0s", "-rapid.nofailfile") // that it fails is enough
	}
	c := exec.Command("go", args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err == nil && bytes.Contains(out, []byte("no tests to run")) {
		return out, errors.New("no such test")
	}
	return out, err
}

// usesRapid says whether the package's tests take rapid's flags.
func usesRapid(dir string) bool {
	paths, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, path := range paths {
		if source, err := os.ReadFile(path); err == nil && bytes.Contains(source, []byte(`"pgregory.net/rapid"`)) {
			return true
		}
	}
	return false
}

// copyModule copies what the tests of the listed packages need. The working directory is the module's root.
func copyModule(to string) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || path == "bin" || path == "test"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), content, 0o600)
	})
}

// markdown is the table of docs/testing.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("| invariant | the line keeps | in | without it fails |\n|---|---|---|---|\n")
	for _, m := range mutations {
		fmt.Fprintf(&b, "| %d | %s | `%s` | `%s` |\n", m.invariant, m.keeps, m.file, m.test)
	}
	return b.String()
}
