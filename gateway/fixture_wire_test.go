package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

// wire is a client that speaks raw frames.
type wire struct {
	t    testing.TB
	nc   net.Conn
	corr int32
}

func dialPort(t testing.TB, addr string) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	return &wire{t: t, nc: nc}
}

func (w *wire) encode(req kmsg.Request) []byte {
	w.corr++
	h := protocol.Header{Key: req.Key(), Version: req.GetVersion(), Correlation: w.corr, ClientID: "tester"}
	return appendFrame(nil, h, req.AppendTo(nil))
}

func (w *wire) send(b []byte) {
	w.t.Helper()
	if _, err := w.nc.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

// receive reads the answer to req and checks that it is the one with this correlation id.
func (w *wire) receive(req kmsg.Request, corr int32) (kmsg.Response, error) {
	frame, err := w.frame()
	if err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != corr {
		return nil, fmt.Errorf("answer %d where %d is due", got, corr)
	}
	return decodeAnswer(req, frame)
}

func (w *wire) frame() ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(w.nc, prefix[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(w.nc, frame)
	return frame, err
}

// do makes one request.
func do[R kmsg.Response](w *wire, req kmsg.Request, version int16) R {
	w.t.Helper()
	req.SetVersion(version)
	w.send(w.encode(req))
	resp, err := w.receive(req, w.corr)
	if err != nil {
		w.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(R)
}

func beat(group, member string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	r := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = group, member, epoch, -1
	r.Version = 1
	return r
}
