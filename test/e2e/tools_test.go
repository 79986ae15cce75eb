//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// counted is a topology like that of a word count: a repartition topic between two subtopologies, and a changelog.
func counted(group string) func(*kmsg.StreamsGroupHeartbeatRequest) {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) {
		repartition, changelog := group+"-by-word-repartition", group+"-counts-changelog"
		r.Topology.Subtopologies = []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
			subtopology("0", []string{"orders"}, func(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
				s.RepartitionSinkTopics = []string{repartition}
			}),
			subtopology("1", nil, func(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) {
				s.RepartitionSourceTopics = []kmsg.TopicInfo{{Topic: repartition}}
				s.StateChangelogTopics = []kmsg.TopicInfo{{Topic: changelog, Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}}}
			}),
		}
	}
}

// with adds to a join what a member may say of itself.
func with(joining, more func(*kmsg.StreamsGroupHeartbeatRequest)) func(*kmsg.StreamsGroupHeartbeatRequest) {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) {
		joining(r)
		more(r)
	}
}

// TestTools compares what Kafka's own tools print and how they end, and what an admin client of Go is told, with coordd and with Kafka as the coordinator, over groups
// with the same members.
func TestTools(t *testing.T) {
	b := startBoth(t, scripted, map[string]any{"group.streams.heartbeat.hold.ms": 0})
	var err error
	if b.tools, err = rig.StartTools(java, b.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.tools.Kill)
	t.Run("before", func(t *testing.T) { toolsBefore(t, b) })
	b.each(func(s *side) {
		s.fill(t, 4, map[string]int32{"orders": 3, "clicks": 2, "other": 1})
		s.otherTypes(t)
		// How many epochs the internal topics take depends on when a node sees each: the group starts again once they are there.
		s.join(t, rig.Probe{Group: "count", Member: "member-0", Joining: counted("count")})
		s.leave(t, "count")
	})
	b.compare(t, command{line: "streams-groups --delete --group count", changes: true})
	b.each(func(s *side) {
		s.join(t, rig.Probe{Group: "count", Member: "member-1", Joining: counted("count")})
		s.join(t, rig.Probe{Group: "count", Member: "member-2", Instance: kmsg.StringPtr("second"), Joining: with(counted("count"), func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.RackID = kmsg.StringPtr("rack-b")
			r.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "zone", Value: "b"}}
			r.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "app.example", Port: 8080}
		})})
		s.join(t, rig.Probe{Group: "plain", Member: "member-3", Topic: "clicks"})
		s.join(t, rig.Probe{Group: "waiting", Member: "member-4", Topic: "missing"})
		for member, offsets := range map[string]map[int32]int64{"member-1": {0: 3}, "member-2": {1: 2}} {
			if err := s.members[member].Commit("orders", offsets); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		if err := s.members["member-3"].Commit("clicks", map[int32]int64{0: 4, 1: 1}); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	})
	t.Run("list", func(t *testing.T) { toolsList(t, b) })
	t.Run("describe", func(t *testing.T) { toolsDescribe(t, b) })
	t.Run("topics", func(t *testing.T) { toolsTopics(t, b) })
	t.Run("kadm", func(t *testing.T) { adminReads(t, b) })
	t.Run("active", func(t *testing.T) { toolsActive(t, b) })
	t.Run("kadm active", func(t *testing.T) { adminActive(t, b) })
	t.Run("configs", func(t *testing.T) { toolsConfigs(t, b) })
	t.Run("kadm configs", func(t *testing.T) { adminConfigs(t, b) })
	b.each(func(s *side) {
		s.settle(t, "count") // the settings moved its tasks
		s.leave(t, "count")
		s.leave(t, "plain")
	})
	t.Run("kadm of empty groups", func(t *testing.T) { adminReads(t, b) })
	t.Run("empty", func(t *testing.T) { toolsEmpty(t, b) })
	t.Run("kadm empty", func(t *testing.T) { adminEmpty(t, b) })
	t.Run("delete", func(t *testing.T) { toolsDelete(t, b) })
}

// toolsBefore: nothing is there yet, and usage is wrong.
func toolsBefore(t *testing.T, b *both) {
	b.compare(t,
		command{line: "streams-groups --list"},
		command{line: "streams-groups --list --state"},
		command{line: "streams-groups --describe --group nobody"},
		command{line: "streams-groups --describe --group nobody --members"},
		command{line: "streams-groups --describe --all-groups"},
		command{line: "streams-groups --delete --group nobody", changes: true},
		command{line: "streams-groups --delete-offsets --group nobody --input-topic orders", changes: true},
		command{line: "streams-groups --reset-offsets --group nobody --to-earliest --dry-run --input-topic orders"},
		command{line: "streams-groups --list --state Bogus"},
		command{line: "groups --list"},
	)
}

func toolsList(t *testing.T, b *both) {
	b.compare(t,
		command{line: "streams-groups --list", unordered: true},
		command{line: "streams-groups --list --state", unordered: true},
		command{line: "streams-groups --list --state Stable", unordered: true},
		command{line: "streams-groups --list --state stable,empty", unordered: true},
		command{line: "streams-groups --list --state Assigning"},
		command{line: "streams-groups --list --state Reconciling"},
		command{line: "streams-groups --list --state Dead"},
		command{line: "streams-groups --list --state NotReady", differs: "Kafka's filter never matches NotReady", want: "waiting NotReady"},
		command{line: "groups --list", unordered: true},
		command{line: "groups --list --streams", unordered: true},
		command{line: "groups --list --group-type streams", unordered: true},
		command{line: "groups --list --group-type consumer", unordered: true},
		command{line: "groups --list --group-type classic", unordered: true},
		command{line: "groups --list --protocol streams", unordered: true},
		command{line: "groups --list --protocol consumer", unordered: true},
		command{line: "groups --list --consumer", unordered: true},
		command{line: "groups --list --share", unordered: true},
		command{line: "groups --list --group-type bogus"},
		command{line: "consumer-groups --list", unordered: true},
		command{line: "consumer-groups --list --state", unordered: true},
		command{line: "consumer-groups --list --type classic", unordered: true},
	)
}

func toolsDescribe(t *testing.T, b *both) {
	var commands []command
	for _, scope := range []string{"--group count", "--group plain", "--group waiting", "--all-groups"} {
		for _, view := range []string{"", " --offsets", " --state", " --members", " --topology"} {
			commands = append(commands,
				command{line: "streams-groups --describe " + scope + view, unordered: true},
				command{line: "streams-groups --describe " + scope + view + " --verbose", unordered: true})
		}
	}
	b.compare(t, append(commands,
		command{line: "streams-groups --describe --group count --group plain --state", unordered: true},
		command{line: "streams-groups --describe --group count --members --state"},
		command{line: "consumer-groups --describe --group simple", unordered: true},
		command{line: "consumer-groups --describe --group readers --state"},
		command{line: "streams-groups --describe --group readers"},
		command{line: "consumer-groups --describe --group count"},
		command{line: "consumer-groups --describe --group count --state"},
	)...)
}

func toolsTopics(t *testing.T, b *both) {
	b.compare(t,
		command{line: "topics --list"},
		command{line: "topics --list --exclude-internal"},
		command{line: "topics --describe --topic orders"},
		command{line: "topics --describe --topic count-by-word-repartition"},
		command{line: "topics --describe --topic count-counts-changelog"},
		command{line: "topics --describe --topic missing"},
		command{line: "topics --create --topic made --partitions 2 --replication-factor 1 --config retention.ms=1000", changes: true},
		command{line: "topics --create --topic made --partitions 2", changes: true},
		command{line: "topics --create --topic made --if-not-exists --partitions 2", changes: true},
		command{line: "topics --describe --topic made"},
		command{line: "topics --alter --topic made --partitions 4", changes: true},
		command{line: "topics --describe --topic made"},
		command{line: "topics --create --topic wide --partitions 1 --replication-factor 5", changes: true},
		command{line: "topics --delete --topic made", changes: true},
		command{line: "topics --list"},
	)
}

// toolsActive: what must not be done to a group with members.
func toolsActive(t *testing.T, b *both) {
	b.compare(t,
		command{line: "streams-groups --delete --group count", changes: true},
		command{line: "streams-groups --delete --all-groups", changes: true, unordered: true},
		command{line: "streams-groups --delete-offsets --group count --input-topic orders", changes: true, unordered: true},
		command{line: "streams-groups --delete-offsets --group count --all-input-topics", changes: true, unordered: true},
		command{line: "streams-groups --delete-offsets --group count --input-topic nowhere", changes: true},
		command{line: "streams-groups --reset-offsets --group count --to-earliest --dry-run --input-topic orders", unordered: true},
		command{line: "streams-groups --reset-offsets --group count --to-earliest --execute --all-input-topics", changes: true, unordered: true},
		command{line: "consumer-groups --reset-offsets --group count --to-earliest --dry-run --topic orders", unordered: true},
		command{line: "consumer-groups --reset-offsets --group count --to-earliest --execute --topic orders", changes: true, unordered: true},
		command{line: "consumer-groups --delete-offsets --group count --topic orders", changes: true, unordered: true},
		command{line: "consumer-groups --delete --group count", changes: true, unordered: true},
		command{line: "streams-groups --describe --group count --offsets", unordered: true},
	)
}

// toolsEmpty: the offsets of a group without members.
func toolsEmpty(t *testing.T, b *both) {
	reset := "streams-groups --reset-offsets --group count "
	plan := filepath.Join(b.dir, "plan.csv")
	csv := b.run(t, b.kafka, command{line: reset + "--to-offset 3 --dry-run --export --input-topic orders"}).Stdout
	if err := os.WriteFile(plan, []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	b.compare(t,
		command{line: "streams-groups --list --state Empty", unordered: true},
		command{line: "streams-groups --describe --group count", unordered: true},
		command{line: "streams-groups --describe --group count --members --verbose", unordered: true},
		command{line: "streams-groups --describe --group count --state --verbose", unordered: true},
		command{line: reset + "--to-earliest --dry-run --all-input-topics", unordered: true},
		command{line: reset + "--to-latest --dry-run --input-topic orders", unordered: true},
		command{line: reset + "--to-latest --dry-run --input-topic orders:0,2", unordered: true},
		command{line: reset + "--to-offset 2 --dry-run --input-topic orders", unordered: true},
		command{line: reset + "--to-offset 99 --dry-run --input-topic orders:1", unordered: true},
		command{line: reset + "--to-current --dry-run --input-topic orders", unordered: true},
		command{line: reset + "--shift-by -1 --dry-run --input-topic orders", unordered: true},
		command{line: reset + "--to-datetime 2026-09-21T14:13:25.000 --dry-run --input-topic orders", unordered: true},
		command{line: reset + "--by-duration PT1M --dry-run --input-topic orders", unordered: true},
		command{line: reset + "--to-offset 1 --dry-run --export --input-topic orders"},
		command{line: reset + "--from-file " + plan + " --dry-run", unordered: true},
		command{line: reset + "--to-earliest --dry-run --input-topic clicks", unordered: true},
		command{line: reset + "--to-earliest --dry-run --input-topic nowhere", unordered: true},
		command{line: reset + "--to-earliest --input-topic orders", unordered: true},
		command{line: reset + "--to-offset 1 --execute --input-topic orders:1", changes: true, unordered: true},
		command{line: "streams-groups --describe --group count --offsets --verbose", unordered: true},
		command{line: "topics --list"},
		command{line: reset + "--to-latest --execute --all-input-topics --delete-internal-topic count-counts-changelog", changes: true, unordered: true},
		command{line: "streams-groups --describe --group count", unordered: true},
		command{line: "topics --list"},
		command{line: "streams-groups --delete-offsets --group count --input-topic orders:0", changes: true, unordered: true},
		command{line: "streams-groups --describe --group count", unordered: true},
		command{line: "streams-groups --delete-offsets --group count --input-topic other", changes: true, unordered: true},
		command{line: "streams-groups --delete-offsets --group count --all-input-topics", changes: true, unordered: true},
		command{line: "streams-groups --describe --group count", unordered: true},
		command{line: "streams-groups --reset-offsets --all-groups --to-earliest --execute --all-input-topics", changes: true, unordered: true},
		command{line: "streams-groups --describe --all-groups --offsets", unordered: true},
	)
}

func toolsDelete(t *testing.T, b *both) {
	b.compare(t,
		command{line: "streams-groups --delete --group count --group nobody", changes: true, unordered: true},
		command{line: "streams-groups --list", unordered: true},
		command{line: "topics --list"},
		command{line: "streams-groups --describe --group count"},
		command{line: "streams-groups --delete --group waiting", changes: true, unordered: true},
		command{line: "streams-groups --delete --group plain --delete-all-internal-topics", changes: true, unordered: true},
		command{line: "streams-groups --list", unordered: true},
		command{line: "groups --list", unordered: true},
	)
}
