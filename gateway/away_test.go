package gateway

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lockedBuffer takes log lines from any goroutine.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestTheEndOfANodeThatSaidSoIsNoWarning: operators are warned of a node that goes without a word, not of one that is
// stopped on purpose.
func TestTheEndOfANodeThatSaidSoIsNoWarning(t *testing.T) {
	for _, planned := range []bool{false, true} {
		var log lockedBuffer
		var away atomic.Bool
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1, config: func(c *Config) {
			c.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &log})
			c.Network.Away = func(node int32) bool { return node == 2 && away.Load() }
		}})
		w.lead(2)
		w.hold("g")
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group = "g"
		if r := do[*kmsg.OffsetFetchResponse](dialPort(t, w.nodes[0].addr()), fetch, 5); r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
		hops := w.nodes[0].g.hops
		connected := func() bool {
			hops.mu.Lock()
			defer hops.mu.Unlock()
			return hops.peers[2] != nil
		}
		if !connected() {
			t.Fatal("the request was not answered by way of the other node")
		}
		away.Store(planned)
		w.nodes[1].g.Close()
		eventually(t, "the connection has ended", func() bool { return !connected() })
		if warned := strings.Contains(log.String(), "the connection to another node ended"); warned == planned {
			t.Errorf("planned %v: warned %v: %s", planned, warned, log.String())
		}
	}
}
