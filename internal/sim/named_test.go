package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTopicsThatNobodyWatchedAreReadBeforeAnApplicationStarts: with so many topics upstream that only those are watched closely
// that groups need, an application starts right after its source has grown: its changelog has the size of now. So it is
// for one whose members were away meanwhile.
func TestTopicsThatNobodyWatchedAreReadBeforeAnApplicationStarts(t *testing.T) {
	dir := dataDir(t)
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		c := startCluster(t, dir, observer, 1)
		defer c.shutdown()
		awaitNodes(t, c)
		for n := range 1000 {
			c.up.addTopic(fmt.Sprintf("other-%d", n), 1)
		}
		c.up.addTopic("life-in", 2)
		time.Sleep(time.Minute) // every node has seen them
		a := &lifeMember{admin: newConfigAdmin(t, c), id: "a"}
		starts := func(partitions int32) {
			t.Helper()
			time.Sleep(11 * time.Second)
			c.up.growTopic("life-in", partitions)
			a.epoch, a.owned = 0, [3][]kmsg.TaskIDs{}
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				for _, s := range a.beat(withChangelog).Status {
					if s.StatusCode == 1 || s.StatusCode == 2 {
						t.Fatalf("told %+v with a source of %d partitions", s, partitions)
					}
				}
			}
			c.up.mu.Lock()
			defer c.up.mu.Unlock()
			if n := c.up.topics["life-changelog"].Partitions; n != partitions {
				t.Fatalf("a changelog of %d partitions for a source of %d", n, partitions)
			}
		}
		starts(4)
		a.leave()
		c.up.dropTopic("life-changelog")
		starts(6)
		for _, failure := range observer.broken() {
			t.Error(failure)
		}
	})
}
