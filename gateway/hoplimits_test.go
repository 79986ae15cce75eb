package gateway

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestConnectionsOfOtherNodesAreBounded(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 2})
	g := w.nodes[0].g
	var first net.Conn
	for range maxHopsIn + 5 {
		nc, err := net.Dial("tcp", g.net.Hops.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if first == nil {
			first = nc
		}
	}
	_ = first.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the oldest connection got %v", err)
	}
	eventually(t, "the others are kept", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.hopsIn) == maxHopsIn
	})
}

// deadlines is a connection that notes which deadline each read had.
type deadlines struct {
	net.Conn
	now  bool
	seen []bool
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.now = !t.IsZero(); return nil }
func (d *deadlines) Read(p []byte) (int, error) {
	d.seen = append(d.seen, d.now)
	return 1, nil
}

func TestAFrameThatHasBegunHasADeadline(t *testing.T) {
	d := &deadlines{}
	r := &hopReader{nc: d}
	for _, inFrame := range []bool{false, true, true, false, true} {
		r.inFrame = inFrame
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{false, true, true, false, true} {
		if d.seen[i] != want {
			t.Errorf("read %d had a deadline: %v, want %v", i, d.seen[i], want)
		}
	}
}
