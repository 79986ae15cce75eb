// Command replay plays random scripts on a Kafka and a coordd that run already, and compares the answers; see
// docs/testing.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/coordd/coordd/test/differential"
)

func main() {
	r := differential.Run{}
	flag.StringVar(&r.Kafka, "kafka", "", "HOST:PORT of a Kafka 4.4 with the settings of test/conformance/broker.properties")
	flag.StringVar(&r.Coordd, "coordd", "", "HOST:PORT of a coordd node with the settings of test/conformance")
	flag.Uint64Var(&r.First, "seed", 1, "seed of the first script")
	flag.IntVar(&r.Count, "count", 1, "scripts; 0: until interrupted")
	flag.IntVar(&r.Width, "width", 4, "scripts at a time")
	flag.IntVar(&r.Budget, "budget", 150, "scripts that the minimiser of a failing one may play")
	print := flag.Bool("print", false, "print the scripts and play nothing")
	suffix := flag.String("suffix", "", "play each seed as it is under this suffix of its group's name, to repeat one on the same servers")
	flag.Parse()
	os.Exit(run(r, *print, *suffix))
}

func run(r differential.Run, print bool, suffix string) int {
	if print {
		for i := range r.Count {
			show(differential.Generate(r.First + uint64(i)))
		}
		return 0
	}
	r.Patience = 20 * time.Second
	r.Suffix = suffix
	r.Failed = func(short *differential.Script, result differential.Result, long *differential.Script) {
		fmt.Printf("---- seed %d, %d steps of %d\n%v\n", short.Seed, len(short.Steps), len(long.Steps), result.Failure)
		show(short)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sum, err := r.Do(ctx)
	fmt.Println(sum)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "replay:", err)
		return 2
	case sum.Failed > 0:
		return 1
	}
	return 0
}

func show(s *differential.Script) {
	b, err := s.YAML()
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
	}
	_, _ = os.Stdout.Write(b)
}
