package archtest

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/coordd/coordd/"

// packageInfo is what `go list` tells of a package.
type packageInfo struct {
	ImportPath string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []packageInfo {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports,GoFiles", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []packageInfo
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p packageInfo
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// forTests are the folders whose packages no node is made of: they may use what they need to drive and to watch one, such
// as a Kafka client (kmsg, kgo, kadm), an embedded Kafka (kfake) or a generator (rapid). Files named _test.go are free for
// the same reason: the rules look at the imports of packages, not of their tests.
var forTests = []string{
	"test",     // end-to-end tests, benchmarks and what starts processes for them
	"internal", // the in-memory network, the simulation and these rules
	// The samples and generators of records: no test file, since the tests of fsm, fsm/record and test/e2e/records share
	// them and Go exports nothing from test files.
	"fsm/record/recordtest",
}

// pure are the packages whose functions depend on their arguments only.
var pure = []string{"topology", "assignor", "fsm", "coordinator"}

// impure may not be imported by pure packages, each for its reason.
var impure = map[string]string{
	"net":                           "addresses and connections are the gateway's and raftnode's business",
	"os":                            "files and environment come in through arguments",
	"time":                          "time is an argument, in milliseconds",
	"math/rand":                     "the same input must give the same output on every node",
	"math/rand/v2":                  "the same input must give the same output on every node",
	"crypto/rand":                   "the same input must give the same output on every node",
	"log":                           "what happened is returned as a value and logged by the shell",
	"github.com/hashicorp/go-hclog": "what happened is returned as a value and logged by the shell",
	"context":                       "a decision is made at once; nothing waits in it",
}

// onlyIn names who may import a library or package, and why nobody else.
var onlyIn = []struct {
	path  string
	users []string
	why   string
}{
	{"github.com/hashicorp/raft", []string{"raftnode", "raftnode/seglog"}, "raftnode gives the library honest names; others would " +
		"meet its traps. seglog is its log store, and speaks of entries and their absence in the library's terms"},
	{"github.com/coordd/coordd/raftnode/seglog", []string{"raftnode"}, "the log is raftnode's"},
	{"github.com/hashicorp/raft-boltdb/v2", []string{"raftnode"}, "term and vote are raftnode's"},
	{"go.etcd.io/bbolt", []string{"raftnode"}, "term and vote are raftnode's"},
	{"github.com/twmb/franz-go/pkg/kmsg", []string{"protocol", "gateway", "upstream"}, "the wire stays at the edge"},
	{"github.com/twmb/franz-go/pkg/kgo", []string{"upstream"}, "coordd's own work upstream has one place"},
	{"github.com/twmb/franz-go/pkg/kadm", []string{"upstream"}, "coordd's own work upstream has one place"},
	{"github.com/twmb/franz-go/pkg/kfake", []string{"devcluster"}, "kfake is an upstream for trying out, not a part of a node"},
	{"github.com/spf13/viper", []string{"config"}, "settings are read in one place"},
	{"github.com/spf13/cobra", []string{"cmd/coordd"}, "commands have no logic to share"},
	{"pgregory.net/rapid", nil, "generators are for tests"},
}

// never names who may not import which packages of the project, all with what is below them, and why.
var never = []struct {
	users []string // all but those for tests when nil
	paths []string
	why   string
}{
	{nil, forTests, "what a node is made of does not depend on what tests it"},
	{nil, []string{"cmd"}, "main has no logic to share"},
	{[]string{"topology"}, []string{"assignor", "fsm", "coordinator"}, "topologies and tasks are what the others speak of"},
	{[]string{"assignor"}, []string{"fsm", "coordinator"}, "an assignor sees a Spec, not a group"},
	{[]string{"fsm"}, []string{"assignor", "coordinator"}, "replay must not depend on the rules by which records were decided"},
	{[]string{"coordinator"}, []string{"server", "gateway", "protocol"}, "decisions know neither the wire nor the node"},
	{[]string{"coordinator/streams", "coordinator/offsets"}, []string{"coordinator/shard"}, "rules of a group know nothing of the machine that runs them"},
	{[]string{"raftnode"}, []string{"fsm", "coordinator", "protocol", "gateway", "server"}, "Raft carries entries that it does not look into"},
	{[]string{"protocol"}, []string{"gateway", "server", "raftnode", "upstream", "coordinator/shard"}, "encoding needs no node"},
	{[]string{"gateway"}, []string{"server", "raftnode", "upstream", "topicctl", "fsm"}, "the gateway asks through its interfaces"},
	{[]string{"upstream", "topicctl"}, []string{"server", "gateway", "protocol", "raftnode"}, "what speaks to the Kafka behind knows no client"},
}

func TestPurePackagesTouchNothing(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if !within(name, pure) {
			continue
		}
		for _, imported := range p.Imports {
			if why, bad := impure[imported]; bad {
				t.Errorf("%s imports %s: %s", name, imported, why)
			}
			if own, ok := strings.CutPrefix(imported, module); ok && !within(own, pure) {
				t.Errorf("%s imports %s: pure packages know only each other", name, own)
			}
		}
	}
}

func TestLibrariesStayInTheirRooms(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if within(name, forTests) {
			continue
		}
		for _, rule := range onlyIn {
			if slices.Contains(p.Imports, rule.path) && !slices.Contains(rule.users, name) {
				t.Errorf("%s imports %s: %s", name, rule.path, rule.why)
			}
		}
	}
}

func TestNobodyImportsUpwards(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if within(name, forTests) {
			continue
		}
		for _, rule := range never {
			if rule.users != nil && !within(name, rule.users) {
				continue
			}
			for _, imported := range p.Imports {
				if own, ok := strings.CutPrefix(imported, module); ok && within(own, rule.paths) {
					t.Errorf("%s imports %s: %s", name, own, rule.why)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func within(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return name == root || strings.HasPrefix(name, root+"/") })
}
