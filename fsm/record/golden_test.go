package record_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
)

const kafkaDir = "testdata/kafka-4.4.0"

// TestKafkaBytes compares with what Kafka's own classes wrote (test/e2e/records/RecordGolden.java).
func TestKafkaBytes(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range recordtest.Samples() {
		seen[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			kafka, err := os.ReadFile(filepath.Join(kafkaDir, s.Name+".bin"))
			if err != nil {
				t.Fatal(err)
			}
			var d record.Decoder
			got, n, err := d.Decode(kafka)
			if err != nil || n != len(kafka) {
				t.Fatalf("decoded %d of %d bytes: %v", n, len(kafka), err)
			}
			if diff := cmp.Diff(s.Record, got); diff != "" {
				t.Errorf("decoded value differs (-want +got):\n%s", diff)
			}
			ours, err := record.AppendRecord(nil, s.Record)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(ours, kafka) == s.ReadOnly {
				t.Errorf("read only: %v\n ours %x\nkafka %x", s.ReadOnly, ours, kafka)
			}
		})
	}
	files, err := os.ReadDir(kafkaDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[strings.TrimSuffix(f.Name(), ".bin")] {
			t.Errorf("%s has no sample", f.Name())
		}
	}
}
