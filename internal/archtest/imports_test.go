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
	{"github.com/hashicorp/raft", []string{"raftnode"}, "raftnode gives the library honest names; others would meet its traps"},
	{"github.com/hashicorp/raft-boltdb/v2", []string{"raftnode"}, "the log is raftnode's"},
	{"go.etcd.io/bbolt", []string{"raftnode"}, "the log is raftnode's"},
	{"github.com/twmb/franz-go/pkg/kmsg", []string{"protocol", "gateway", "upstream"}, "the wire stays at the edge"},
	{"github.com/twmb/franz-go/pkg/kgo", []string{"upstream"}, "coordd's own work upstream has one place"},
	{"github.com/twmb/franz-go/pkg/kadm", []string{"upstream"}, "coordd's own work upstream has one place"},
	{"github.com/twmb/franz-go/pkg/kfake", []string{"devcluster", "test/e2e/upstream"}, "kfake is an upstream for trying out, not a part of a node"},
	{"github.com/spf13/viper", []string{"config"}, "settings are read in one place"},
	{"github.com/spf13/cobra", []string{"cmd/coordd"}, "commands have no logic to share"},
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
		for _, rule := range onlyIn {
			if slices.Contains(p.Imports, rule.path) && !slices.Contains(rule.users, name) {
				t.Errorf("%s imports %s: %s", name, rule.path, rule.why)
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
