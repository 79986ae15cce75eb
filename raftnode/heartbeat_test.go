package raftnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestHeartbeatIsRepeatedUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 50 * time.Millisecond
		var b beats
		var calls atomic.Int32
		hold := make(chan struct{})
		late := func(r *raft.AppendEntriesResponse) error {
			n := calls.Add(1)
			if n < 3 {
				<-hold
			}
			r.LastLog = uint64(n)
			return nil
		}
		start := time.Now()
		if r, err := b.send(pause, nil, late); err != nil || r.LastLog != 3 || time.Since(start) != 2*pause {
			t.Errorf("answer %v, %v after %v", r, err, time.Since(start))
		}
		if n := b.waiting.Load(); n != 2 {
			t.Errorf("%d wait", n)
		}
		close(hold)
		synctest.Wait()
		calls.Store(10)
		if r, err := b.send(pause, nil, late); err != nil || r.LastLog != 11 || calls.Load() != 11 {
			t.Errorf("a prompt answer: %v, %v after %d calls", r, err, calls.Load())
		}
		failed := errors.New("refused")
		if _, err := b.send(pause, nil, func(*raft.AppendEntriesResponse) error { return failed }); err != failed {
			t.Errorf("a failure: %v", err)
		}
		calls.Store(0)
		start = time.Now()
		_, err := b.send(pause, nil, func(*raft.AppendEntriesResponse) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return failed
		})
		if err != failed || calls.Load() != maxBeats || time.Since(start) != time.Second+(maxBeats-1)*pause {
			t.Errorf("%v after %d calls and %v", err, calls.Load(), time.Since(start))
		}
	})
}

func TestHeartbeatEndsWithTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b beats
		cut, hold := make(chan struct{}), make(chan struct{})
		time.AfterFunc(time.Second, func() { close(cut) })
		start := time.Now()
		_, err := b.send(50*time.Millisecond, cut, func(*raft.AppendEntriesResponse) error { <-hold; return nil })
		if !errors.Is(err, errMuted) || time.Since(start) != time.Second || b.waiting.Load() != maxBeats {
			t.Errorf("%v after %v, %d wait", err, time.Since(start), b.waiting.Load())
		}
		close(hold)
	})
}

// stuckConn is a connection whose bytes do not arrive while it is older than the age told.
type stuckConn struct {
	net.Conn
	born int32
	age  *atomic.Int32
	hold chan struct{}
}

func (c *stuckConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.born < c.age.Load() {
		<-c.hold
	}
	return n, err
}

// TestLeadershipOutlivesStuckConnections: three times, nothing comes any more on any connection that was opened before.
// Leadership must not depend on the requests that wait for it.
func TestLeadershipOutlivesStuckConnections(t *testing.T) {
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		var age atomic.Int32
		hold := make(chan struct{})
		c.wrap = func(_ int, conn net.Conn) net.Conn {
			return &stuckConn{Conn: conn, born: age.Load(), age: &age, hold: hold}
		}
		c.startAll()
		l := c.leader(0)
		c.mustPropose(l, 0, "before")
		term := c.nodes[l].Group(0).Status().Term
		for step := range 100 {
			if step%15 == 0 && step < 45 {
				age.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
			if s := c.nodes[l].Group(0).Status(); !s.Serving || s.Term != term {
				t.Errorf("leadership was lost: %+v", s)
				break
			}
		}
		close(hold)
		c.mustPropose(c.leader(0), 0, "after")
		if got := c.agree(0); !slices.Equal(got, []string{"before", "after"}) {
			t.Errorf("replicas hold %q", got)
		}
	})
}

// TestFailoverTime kills leaders and takes the time until another one serves. RAFT_KILLS sets
// how many and prints the distribution.
func TestFailoverTime(t *testing.T) {
	kills := 60 // of fewer the median scatters by more than what is left to its bound
	if n, err := strconv.Atoi(os.Getenv("RAFT_KILLS")); err == nil {
		kills = n
	}
	virtual(t, 3, 1, noBalance, func(t *testing.T, c *cluster) {
		c.startAll()
		var took []time.Duration
		for k := range kills {
			l := c.leader(0)
			c.mustPropose(l, 0, fmt.Sprint(k))
			time.Sleep(time.Duration(500+k%50) * time.Millisecond)
			n := c.nodes[l]
			start := time.Now()
			c.net.Host(host(l)).Close()
			c.net.Isolate(host(l))
			next := -1
			for next < 0 {
				time.Sleep(time.Millisecond)
				for i, n := range c.nodes {
					if i != l && n.Group(0).Status().Serving {
						next = i
					}
				}
			}
			took = append(took, time.Since(start))
			c.nodes[l] = n
			c.crash(l)
			c.start(l)
			c.agree(0)
		}
		slices.Sort(took)
		t.Logf("%d kills: median %v, p90 %v, p99 %v, max %v", kills, took[kills/2], took[kills*9/10], took[kills*99/100], took[kills-1])
		// One time in a thousand the survivors split their votes, which costs an election timeout more.
		if median, worst := took[kills/2], took[kills-1]; median > 600*time.Millisecond || worst > 5*LAN().Heartbeat {
			t.Errorf("median %v, max %v", median, worst)
		}
	})
}
