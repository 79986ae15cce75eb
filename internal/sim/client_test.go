package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/internal/vnet"
	"github.com/coordd/coordd/protocol"
)

// wire is one connection of a client: one request at a time.
type wire struct {
	nc          net.Conn
	stop        func() bool
	formatter   *kmsg.RequestFormatter
	correlation int32
}

// dial opens a connection; it ends with ctx.
func dial(ctx context.Context, from *vnet.Host, address, client string, patience time.Duration) (*wire, error) {
	dialCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, err := from.Dial(dialCtx, address)
	if err != nil {
		return nil, err
	}
	return &wire{
		nc: nc, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)),
		stop: context.AfterFunc(ctx, func() { _ = nc.Close() }),
	}, nil
}

func (w *wire) close() {
	if w != nil {
		w.stop()
		_ = w.nc.Close()
	}
}

var errCorrelation = errors.New("answer to another request")

// do sends a request and waits for its answer.
func (w *wire) do(req kmsg.Request, patience time.Duration) (kmsg.Response, error) {
	w.correlation++
	_ = w.nc.SetDeadline(time.Now().Add(patience))
	if _, err := w.nc.Write(w.formatter.AppendRequest(nil, req, w.correlation)); err != nil {
		return nil, err
	}
	return w.receive(req, w.correlation)
}

// interrupted is do, with another request behind when there is no answer after a while; it is answered second.
func (w *wire) interrupted(req kmsg.Request, patience, after time.Duration) (kmsg.Response, error) {
	first := w.correlation + 1
	w.correlation = first + 1
	_ = w.nc.SetDeadline(time.Now().Add(patience))
	if _, err := w.nc.Write(w.formatter.AppendRequest(nil, req, first)); err != nil {
		return nil, err
	}
	behind := versions()
	timer := time.AfterFunc(after, func() { _, _ = w.nc.Write(w.formatter.AppendRequest(nil, behind, first+1)) })
	resp, err := w.receive(req, first)
	if !timer.Stop() && err == nil {
		_, err = w.receive(behind, first+1)
	}
	return resp, err
}

// receive reads the answer that is due.
func (w *wire) receive(req kmsg.Request, due int32) (kmsg.Response, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(w.nc, prefix[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	if _, err := io.ReadFull(w.nc, frame); err != nil {
		return nil, err
	}
	correlation, body, err := protocol.ResponseBody(req.Key(), req.GetVersion(), frame)
	if err != nil {
		return nil, err
	}
	if correlation != due {
		return nil, errCorrelation
	}
	resp := req.ResponseKind()
	return resp, resp.ReadFrom(body)
}

// checkVersions asks what the node serves, as a client does on each new connection. A coordinator that does not serve
// StreamsGroupHeartbeat is fatal to the Java client.
func (w *wire) checkVersions(patience time.Duration) (serves bool, err error) {
	resp, err := w.do(versions(), patience)
	if err != nil {
		return false, err
	}
	for _, api := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		if api.ApiKey == protocol.KeyStreamsGroupHeartbeat && api.MinVersion <= 1 && api.MaxVersion >= 1 {
			return true, nil
		}
	}
	return false, nil
}

func versions() kmsg.Request {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(4)
	req.ClientSoftwareName, req.ClientSoftwareVersion = "sim", "1"
	return req
}

var errNoCoordinator = errors.New("no coordinator")

// findCoordinator asks a node where the group's coordinator is.
func findCoordinator(w *wire, group string, patience time.Duration) (address string, err error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(6)
	req.CoordinatorKeys = []string{group}
	resp, err := w.do(req, patience)
	if err != nil {
		return "", err
	}
	found := resp.(*kmsg.FindCoordinatorResponse).Coordinators
	if len(found) != 1 || found[0].ErrorCode != 0 {
		return "", fmt.Errorf("%w: %+v", errNoCoordinator, found)
	}
	return net.JoinHostPort(found[0].Host, strconv.Itoa(int(found[0].Port))), nil
}
