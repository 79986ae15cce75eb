//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestRecordsAreKafkas lets the classes of kafka-group-coordinator read what coordd writes and write it again, and compares
// what they write for the samples with the golden files that coordd reads in `make test`.
func TestRecordsAreKafkas(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	ours, theirs := filepath.Join(t.TempDir(), "ours"), filepath.Join(t.TempDir(), "theirs")
	command := func(name string, args ...string) []byte {
		t.Helper()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, tail(out))
		}
		return out
	}
	command("go", "run", "./records", "-dir", ours)
	command("java", "-cp", filepath.Join(java.Jars, "*"), "records/RecordGolden.java", "read", ours)
	command("java", "-cp", filepath.Join(java.Jars, "*"), "records/RecordGolden.java", "write", theirs)
	golden, err := filepath.Glob("../../fsm/record/testdata/kafka-4.4.0/*.bin")
	if err != nil || len(golden) == 0 {
		t.Fatal("no golden files: ", err)
	}
	for _, file := range golden {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(theirs, filepath.Base(file)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what Kafka writes (%v)", file, err)
		}
	}
	t.Logf("FIGURE records: Kafka reads what coordd writes; %d golden files are Kafka's", len(golden))
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }
