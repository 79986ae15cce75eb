package gateway

import (
	"io"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// seedFrames are requests of every API and version with one group in them wherever a group can be.
func seedFrames() [][]byte {
	var frames [][]byte
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		api, _ := protocol.Lookup(key)
		for v := api.Min; v <= api.Max; v++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			nameGroups(reflect.ValueOf(req).Elem())
			h := protocol.Header{Key: key, Version: v, Correlation: int32(v), ClientID: "c"}
			frames = append(frames, appendFrame(nil, h, req.AppendTo(nil)))
		}
	}
	return frames
}

func nameGroups(v reflect.Value) {
	for _, name := range []string{"Group", "GroupID"} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
			f.SetString("g")
		}
	}
	for _, name := range []string{"Groups", "GroupIDs"} {
		f := v.FieldByName(name)
		if !f.IsValid() || f.Kind() != reflect.Slice {
			continue
		}
		one := reflect.MakeSlice(f.Type(), 1, 1)
		if e := one.Index(0); e.Kind() == reflect.String {
			e.SetString("g")
		} else {
			nameGroups(e)
		}
		f.Set(one)
	}
}

// FuzzClientPort sends bytes to a client connection: it must end with them, whatever they are.
func FuzzClientPort(f *testing.F) {
	for _, frame := range seedFrames() {
		f.Add(frame)
		f.Add(frame[:len(frame)*2/3])
		cut := slices.Clone(frame[:len(frame)-1]) // and one that says itself that it is shorter than its layout
		f.Add(protocol.EndFrame(cut, 0))
	}
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 88, 0, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	w := newWorld(f, worldConfig{nodes: 1, config: withoutUpstream})
	w.hold("g")
	g := w.nodes[0].g
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		c := newConn(g.node, theirs)
		if err := g.admit(c); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_ = ours.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = ours.Write(b)
		_ = ours.Close()
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			t.Fatal("the connection does not end")
		}
	})
}

// FuzzHop sends bytes to the answering side of the inner hop, and as answers to the asking side.
func FuzzHop(f *testing.F) {
	client := coordinator.Client{ID: "c", Host: "/h", Principal: "User:p"}
	for _, frame := range seedFrames() {
		f.Add(appendHopRequest([]byte{hopVersion}, &hopRequest{id: 1, client: client, payload: frame}))
	}
	f.Add(appendHopRequest([]byte{hopVersion}, &hopRequest{id: 1, kind: hopHolds, client: client, payload: []byte("g")}))
	for _, r := range []hopRequest{
		{id: 2, kind: hopVacate, client: client, payload: []byte("g")},
		{id: 3, kind: hopBeat, client: client, payload: append(appendHold(nil, 7, 1), seedFrames()[0]...)},
		{id: 4, kind: hopLetGo, client: client, payload: appendHold(nil, 7, 1)},
		{id: 5, kind: hopGone, client: client, payload: appendHold(nil, 7, 1)},
		{id: 6, kind: hopAwait, client: client, payload: make([]byte, 8)},
		{id: 7, kind: hopEnded, client: client, payload: appendHold(nil, 7, 1)},
	} {
		f.Add(appendHopRequest([]byte{hopVersion}, &r))
	}
	f.Add(appendHopRequest([]byte{hopVersion}, &hopRequest{kind: hopPing}))
	f.Add(appendHopRequest([]byte{hopVersion}, &hopRequest{id: 8, kind: hopHolds, asked: time.Hour << 10, client: client, payload: []byte("g")}))
	hello := appendHopAnswer(nil, &hopAnswer{clock: time.Second})
	f.Add(hello)
	f.Add(appendHopAnswer(hello, &hopAnswer{id: 1, clock: 2 * time.Second, code: 16, notStarted: true}))
	f.Add([]byte{hopVersion, 0xff, 0xff, 0xff, 0xff, 0, 0})
	w := newWorld(f, worldConfig{nodes: 1, config: func(c *Config) {
		withoutUpstream(c)
		c.freshFor = time.Hour
	}})
	w.hold("g")
	g := w.nodes[0].g
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		ended := make(chan struct{})
		go func() { g.serveHop(theirs); close(ended) }()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_ = ours.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = ours.Write(b)
		_ = ours.Close()
		<-ended

		asking, peer := net.Pipe()
		a := newHopClients(g)
		h := &hopClient{all: a, node: 9, pending: map[uint64]func([]byte, *coordinator.Error){}}
		h.dial = func() (net.Conn, error) { return asking, nil }
		told := make(chan struct{})
		h.pending[1] = func([]byte, *coordinator.Error) { close(told) }
		go h.serve()
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		_ = peer.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = peer.Write(b)
		_ = peer.Close()
		<-told
	})
}
