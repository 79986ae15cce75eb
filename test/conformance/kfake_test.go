package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"gopkg.in/yaml.v3"
)

// kfakesFaults show, on kfake alone and without a node of coordd, why it cannot serve a scenario: what the last step is
// answered, and what Kafka 4.4 answers.
var kfakesFaults = map[string]struct {
	steps        string
	kfake, kafka string
}{
	"list-groups-filters": {
		steps: `
  - create_topic: {name: $s-in, partitions: 1}
  - consumer_heartbeat: {group: $s-consumer, member: C, epoch: 0, topics: [$s-in]}
  - list_groups: {version: 3}`,
		kfake: `{error: NONE, groups: {$s-consumer: {protocol_type: "", state: "", type: ""}}}`,
		kafka: `{error: NONE, groups: {$s-consumer: {protocol_type: consumer, state: "", type: ""}}}`,
	},
	"types-absent": {
		steps: `
  - classic_describe: $s`,
		kfake: `{error: GROUP_ID_NOT_FOUND, members: 0, message: null, protocol_type: "", state: Dead}`,
		kafka: `{error: GROUP_ID_NOT_FOUND, members: 0, message: Group $s not found., protocol_type: "", state: Dead}`,
	},
	"types-empty-streams-then-others": {
		steps: `
  - create_topic: {name: $s-in, partitions: 1}
  - classic_join: {member: coordd, protocol_type: coordd, topics: [$s-in]}
  - offset_commit: {member: coordd, epoch: last, offsets: {$s-in: {0: 5}}}
  - classic_leave: {member: coordd}
  - classic_join: {member: K, topics: [$s-in]}`,
		kfake: `{error: INCONSISTENT_GROUP_PROTOCOL}`,
		kafka: `{error: NONE, generation: 3, leader: true, members: 1, sync: {error: NONE}}`,
	},
}

// TestKfakeCannotServeWhatIsLeftOut keeps the list of scenarios that are not played over kfake as short as it can be: a
// scenario is played from the day on which kfake answers as Kafka does.
func TestKfakeCannotServeWhatIsLeftOut(t *testing.T) {
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	for name := range notOverKfake {
		fault, ok := kfakesFaults[name]
		if !ok {
			t.Errorf("%s: nothing shows that kfake cannot serve it", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := "about: kfake\nsteps:" + fault.steps + "\n"
			if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			scenarios, err := LoadScenarios(dir, "")
			if err != nil || len(scenarios) != 1 {
				t.Fatal(scenarios, err)
			}
			answers := Run(scenarios[0], Options{Bootstrap: kafka.ListenAddrs()[0], Patience: 10 * time.Second}).Steps
			switch got := normal(t, answers[len(answers)-1].Out); got {
			case normal(t, fault.kfake):
			case normal(t, fault.kafka):
				t.Error("kfake answers as Kafka does: play the scenario over it")
			default:
				t.Errorf("kfake answers\n%s\ninstead of\n%s", got, fault.kfake)
			}
		})
	}
}

// normal is an answer as text: of an answer, or of its text.
func normal(t *testing.T, answer any) string {
	t.Helper()
	text, ok := answer.(string)
	if !ok {
		b, err := Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
