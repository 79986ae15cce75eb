//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/test/rig"
)

var (
	java *rig.Java
	work string // folder of this run
)

func TestMain(m *testing.M) {
	flag.Parse()
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if !set["test.parallel"] { // what runs at once here mostly waits: more of it than there are cores
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	var err error
	if java, err = rig.Prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		if errors.Is(err, rig.ErrNoJava) {
			fmt.Fprintln(os.Stderr, "e2e: install a JDK 17 and Maven (Debian: apt-get install openjdk-17-jdk-headless maven) and run `make e2e` again")
		}
		return 1
	}
	if work, err = os.MkdirTemp("", "coordd-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		rig.StopAll()
		os.Exit(130)
	}()
	code := m.Run()
	rig.StopAll()
	if code == 0 {
		_ = os.RemoveAll(work)
	} else {
		fmt.Fprintln(os.Stderr, "e2e: logs and data are kept in", work)
	}
	return code
}

var coordd = sync.OnceValues(func() (string, error) { return build("./cmd/coordd") })

var kfake = sync.OnceValues(func() (string, error) { return build("./test/e2e/upstream") })

func build(pkg string) (string, error) {
	bins, err := rig.Build(context.Background(), filepath.Join(work, "bin"), pkg)
	if err != nil {
		return "", err
	}
	return bins[0], nil
}
