package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
)

// withChangelog adds a changelog to the topology of a join.
func withChangelog(r *kmsg.StreamsGroupHeartbeatRequest) {
	if r.Topology != nil {
		log := kmsg.NewTopicInfo()
		log.Topic = "life-changelog"
		r.Topology.Subtopologies[0].StateChangelogTopics = append(r.Topology.Subtopologies[0].StateChangelogTopics, log)
	}
}

// beatFor sends heartbeats for a while, about four each second.
func (m *lifeMember) beatFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		m.beat(withChangelog)
	}
}

func (u *upstream) setRefuse(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refuse = err
}

// creationsSince are the requests to create topics since then, and those of them that came over one link.
func (u *upstream) creationsSince(since time.Time, from *link) (all, its int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.creations {
		if !c.at.Before(since) {
			all++
			if c.from == from {
				its++
			}
		}
	}
	return all, its
}

// TestCreationOverLeaders: while the upstream refuses a topic, leaders come and go. Each asks at its own pace that slows
// down, a leader that was deposed asks no more although it still reaches the upstream, and nobody has to do anything
// when the topic is allowed.
func TestCreationOverLeaders(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		// A request to the node that is cut off takes longer than the usual session.
		c := startCluster(t, dir, observer, 1, "group.streams.session.timeout.ms=60000")
		defer c.shutdown()
		awaitNodes(t, c)
		c.up.addTopic("life-in", 2)
		c.up.setRefuse(&topicctl.Refusal{Reason: "POLICY_VIOLATION", Message: "no"})
		began := time.Now()
		shard := observer.shardOf(lifeGroup)
		a := &lifeMember{admin: newConfigAdmin(t, c), id: "a"}
		for range 3 {
			a.beatFor(10 * time.Second)
			if s := a.last.Status; len(s) != 1 || s[0].StatusCode != 3 || !strings.Contains(s[0].StatusDetail, "; creation failed: life-changelog (POLICY_VIOLATION: no).") {
				t.Errorf("told %+v", s)
			}
			c.killLeader(t, shard)
		}
		a.beatFor(10 * time.Second)
		deposed := c.leader(shard)
		c.isolate(deposed)
		awaitLeader(t, c, shard, deposed)
		cut := time.Now()
		a.beatFor(30 * time.Second)
		if all, its := c.up.creationsSince(cut, c.links[deposed]); its != 0 || all == 0 {
			t.Errorf("%d attempts by the leader that was deposed, of %d", its, all)
		}
		c.rejoin(deposed)
		// Five leaders in some 80 s: after 0, 0.5, 1.5, 3.5 and 7.5 s each, and then every 10 s at most.
		if all, _ := c.up.creationsSince(began, nil); all < 10 || all > 5*6+8 {
			t.Errorf("%d attempts in %v", all, time.Since(began))
		}
		c.up.setRefuse(nil)
		a.beatFor(15 * time.Second)
		if len(a.last.Status) != 0 || len(a.owned[0]) == 0 {
			t.Errorf("after the topic was allowed: %+v, tasks %v", a.last.Status, a.owned)
		}
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
