package gateway

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestConnectionsBeyondTheLimitAreClosed(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, config: func(c *Config) { c.MaxConnections = 2 }})
	for i := range 3 {
		nc, err := net.Dial("tcp", w.nodes[0].addr())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if i < 2 {
			eventually(t, "connection accepted", func() bool {
				w.nodes[0].g.mu.Lock()
				defer w.nodes[0].g.mu.Unlock()
				return len(w.nodes[0].g.conns) == i+1
			})
			continue
		}
		_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("the third connection got %v", err)
		}
	}
}
