// Command records writes what coordd writes for the samples of records and for random records, one file each, so that
// Apache Kafka's own classes can read it:
//
//	go run ./test/e2e/records -dir DIR
//	java -cp "$libs/*" test/e2e/records/RecordGolden.java read DIR
//
// The Java program fails when Kafka would write other bytes for what it read.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/fsm/record/recordtest"
)

func main() {
	dir := flag.String("dir", "", "where to write; it is created")
	random := flag.Int("random", 1000, "number of random records beside the samples")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*dir, *random); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir string, random int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, s := range recordtest.Samples() {
		if err := put(dir, s.Name, s.Record); err != nil {
			return err
		}
	}
	records := recordtest.Records()
	for seed := 0; random > 0; seed++ {
		r := records.Example(seed)
		if r.Key.Type >= record.TypeOffsetsClaim { // Kafka knows nothing of our own types
			continue
		}
		if err := put(dir, fmt.Sprintf("random-%05d", seed), r); err != nil {
			return err
		}
		random--
	}
	return nil
}

func put(dir, name string, r record.Record) error {
	b, err := record.AppendRecord(nil, r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(dir, name+".bin"), b, 0o644)
}
