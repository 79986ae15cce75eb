// Command run measures coordd beside real Kafka, both started here and measured in turn by cbench under the same client,
// and prints every figure with its ratio and its bar: `make bench`, or `make bench SECTION=heartbeats,joins`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coordd/coordd/test/rig"
)

const limit = 55 * time.Minute // of the whole run

// bench is one run.
type bench struct {
	java     *rig.Java
	dir      string
	coordd   string // binaries
	kfake    string
	cbench   string
	upstream string // kind of what stands behind coordd
	quick    bool
	null     bool // Kafka in coordd's place
	nodes    []int
	table    table
	// cases selects those of the section assignors.
	cases *regexp.Regexp
	// haProcesses is up to how many processes Kafka's highly available assignor runs.
	haProcesses int
}

// sections in the order in which they run.
var sections = []struct {
	name, what string
	run        func(context.Context, *bench) error
}{
	{"heartbeats", "steady heartbeats at 64 x 1 and 8 x 16 (connections x depth), one node and three", heartbeats},
	{"joins", "durable joins on three nodes at 1, 16 and 64 in flight", joins},
	{"commits", "commits of offsets at 1, 16 and 64 in flight in either store, three nodes, beside three nodes of Kafka", commitRates},
	{"failover", "kill -9 of the node that leads most groups", failover},
	{"memory", "memory of 5,000 members", memory},
	{"converge", "500 and 100 members that join one group at once, and 10% that leave, heartbeats of 100 ms, one node", converge},
	{"held", "100 members at the shipped interval: all join, one joins, 10% leave; memory of 5,000 held heartbeats", held},
	{"big", "5,000 members with 10,000 tasks join one group at once; other groups of its shard; three nodes", big},
	{"size", "steady heartbeats of 5,000 members in groups of 10 and in one group", size},
	{"assignors", "sticky and highly_available beside Kafka's on the same inputs", assignors},
	{"topics", "memory and CPU of the watch of 50,000 topics for 20 groups, one node", topics},
	{"restart", "a million committed offsets in coordd's log: memory, restart, changes of leaders; one node and three", restart},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "ask" {
		ask(os.Args[2])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "inuse" {
		inUse(os.Args[2])
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "assign" {
		fail(assign())
		return
	}
	b := &bench{}
	section := flag.String("section", "", "sections to run, separated by commas (default all): "+sectionNames())
	nodes := flag.String("nodes", "1,3", "cluster sizes of the section heartbeats")
	out := flag.String("out", "", "file for the table (default: only stdout)")
	flag.StringVar(&b.upstream, "upstream", "kfake", "what stands behind coordd: kfake or kafka")
	selected := flag.String("cases", "", "section assignors: a regular expression that the names of cases match")
	flag.IntVar(&b.haProcesses, "ha-processes", 0, "section assignors: Kafka's highly available assignor on up to so many processes, once each (1000: seconds to minutes a case)")
	flag.BoolVar(&b.quick, "quick", false, "short segments and few rounds: to try the bench, not to quote it")
	flag.BoolVar(&b.null, "null", false, "Kafka in coordd's place: what the ratios are when there is no difference")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./test/bench/run [flags]")
		for _, s := range sections {
			_, _ = fmt.Fprintf(flag.CommandLine.Output(), "  section %-11s %s\n", s.name, s.what)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	if b.cases, err = regexp.Compile(*selected); err != nil {
		fail(fmt.Errorf("--cases: %w", err))
	}
	for n := range strings.SplitSeq(*nodes, ",") {
		switch n {
		case "1":
			b.nodes = append(b.nodes, 1)
		case "3":
			b.nodes = append(b.nodes, 3)
		default:
			fail(fmt.Errorf("--nodes %s: 1 or 3", n))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = b.run(ctx, *section)
	rig.StopAll()
	if len(b.table.rows) > 0 {
		fmt.Printf("\n%s\n\n%s", machine(), b.table.markdown())
	}
	if *out != "" && err == nil {
		err = os.WriteFile(*out, []byte(machine()+"\n\n"+b.table.markdown()), 0o644)
	}
	fail(err)
	if b.table.missed() > 0 {
		fail(fmt.Errorf("%d figures miss their bar", b.table.missed()))
	}
}

func (b *bench) run(ctx context.Context, wanted string) (err error) {
	names := strings.FieldsFunc(wanted, func(r rune) bool { return r == ',' || r == ' ' })
	for _, n := range names {
		if !strings.Contains(","+sectionNames()+",", ","+n+",") {
			return fmt.Errorf("no section %q: there are %s", n, sectionNames())
		}
	}
	if b.upstream != "kfake" && b.upstream != "kafka" {
		return fmt.Errorf("--upstream %s: kfake or kafka", b.upstream)
	}
	if b.java, err = rig.Prepare(ctx); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "coordd-bench-"); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	for _, s := range sections {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		fmt.Printf("## %s: %s\n", s.name, s.what)
		if err := s.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w (logs in %s)", s.name, err, b.dir)
		}
		rig.StopAll()
	}
	return os.RemoveAll(b.dir)
}

func (b *bench) build(ctx context.Context) error {
	bin := filepath.Join(b.dir, "bin")
	var err error
	if b.cbench, err = rig.BuildModule(ctx, bin, "test/bench/cbench"); err != nil || b.null {
		return err
	}
	bins, err := rig.Build(ctx, bin, "./cmd/coordd", "./test/e2e/upstream")
	if err != nil {
		return err
	}
	b.coordd, b.kfake = bins[0], bins[1]
	return nil
}

func sectionNames() string {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	return strings.Join(names, ",")
}

func fail(err error) {
	if err != nil {
		rig.StopAll()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
