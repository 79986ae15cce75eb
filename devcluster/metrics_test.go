package devcluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// scrape is what a node tells of its own metrics.
func (r *running) scrape(node int) []byte {
	r.t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://%s/metrics", r.admin[node].Addr))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var own []byte
	for line := range bytes.Lines(body) {
		if bytes.Contains(line, []byte("coordd_")) {
			own = append(own, line...)
		}
	}
	return own
}

var family = regexp.MustCompile(`(?m)^# TYPE (\S+) `)

// Every metric keeps the rules of Prometheus for names, and is told of in docs/metrics.md.
func TestMetricsAreNamedWellAndDocumented(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0")
	if _, err := r.adm.CreateTopic(r.ctx, 1, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []int32{0, 7, -1} { // a group, a refusal
		r.beat("app", epoch)
	}
	documented, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var states, groups int
	for node := range nodes {
		text := r.scrape(node)
		problems, err := promlint.New(bytes.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("node %d: %v %v", node, problems, err)
		}
		for _, m := range family.FindAllSubmatch(text, -1) {
			name := "`" + string(m[1])
			if !bytes.Contains(documented, []byte(name+"`")) && !bytes.Contains(documented, []byte(name+"{")) {
				t.Errorf("%s is not documented", m[1])
			}
		}
		states += strings.Count(string(text), "coordd_streams_groups{")
		groups += strings.Count(string(text), "coordd_streams_groups{state=\"Empty\"} 1\n")
	}
	if states != 6*nodes || groups != 1 {
		t.Errorf("%d lines of states, %d nodes that coordinate the empty group", states, groups)
	}
}
