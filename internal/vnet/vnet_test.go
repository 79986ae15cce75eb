package vnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// connected gives both ends of a connection from host a to host b.
func connected(t *testing.T, n *Network) (net.Conn, net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := n.Host("a").Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
}

func TestLatencyDelaysDialAndData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.SetLatency(10 * time.Millisecond)
		start := time.Now()
		c, s := connected(t, n)
		if d := time.Since(start); d != 20*time.Millisecond {
			t.Errorf("dial took %v, want one round trip", d)
		}
		start = time.Now()
		_, _ = c.Write([]byte("hello"))
		read(t, s, "hello")
		if d := time.Since(start); d != 10*time.Millisecond {
			t.Errorf("data took %v", d)
		}
	})
}

func TestCutHoldsBackUntilHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := connected(t, n)
		n.Cut("a", "b")
		_, _ = c.Write([]byte("later"))
		_ = s.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read on a cut link: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host("a").Dial(ctx, "b:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("dial on a cut link: %v", err)
		}
		_ = c.Close()
		_ = s.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { n.Heal("a", "b") })
		read(t, s, "later")
		if _, err := s.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("after the close: %v", err)
		}
	})
}

func TestRefuseResetsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		_, s := connected(t, n)
		l, _ := n.Host("b").Listen(":7")
		defer func() { _ = l.Close() }()
		n.Refuse("a", "b")
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Fatal("read on a reset connection succeeded")
		}
		if _, err := n.Host("a").Dial(t.Context(), "b:7"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial: %v", err)
		}
		n.Heal("a", "b")
		if _, err := n.Host("a").Dial(t.Context(), "b:7"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHostCloseResetsPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := connected(t, n)
		go n.Host("b").Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("peer reads %v", err)
		}
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("own side reads %v", err)
		}
		_ = c.Close()
		if n.NumConns() != 0 {
			t.Errorf("%d connections left", n.NumConns())
		}
	})
}

func TestWindowHoldsWriterBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		c, s := connected(t, n)
		big := bytes.Repeat([]byte("0123456789abcdef"), 3*window/16)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if k, err := c.Write(big); k != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v", k, err)
		}
		_ = c.SetWriteDeadline(time.Time{})
		go func() {
			_, _ = c.Write(big[window:])
			_ = c.Close()
		}()
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, big) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
	})
}

func TestDeadlineWakesWaitingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := connected(t, New())
		time.AfterFunc(time.Second, func() { _ = c.SetReadDeadline(time.Now()) })
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		_ = c.SetReadDeadline(time.Time{})
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read after close: %v", err)
		}
	})
}
