package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// client is a small Kafka client: one connection per broker address, one request at a time.
type client struct {
	bootstrap string // groups
	topicsAt  string // topics and topic metadata; the same as bootstrap unless told otherwise
	conns     map[string]net.Conn
	coord     map[string]string // group -> address
	fmtr      *kmsg.RequestFormatter
	corr      int32
	timeout   time.Duration // for one answer
	patience  time.Duration // for retries
}

var errClosed = errors.New("the broker closed the connection")

func newClient(o Options) *client {
	topicsAt := o.TopicsBootstrap
	if topicsAt == "" {
		topicsAt = o.Bootstrap
	}
	return &client{
		bootstrap: o.Bootstrap, topicsAt: topicsAt,
		conns: map[string]net.Conn{}, coord: map[string]string{},
		fmtr:    kmsg.NewRequestFormatter(kmsg.FormatterClientID("oracle")),
		timeout: 15 * time.Second, patience: o.Patience,
	}
}

func (c *client) close() {
	for _, n := range c.conns {
		_ = n.Close()
	}
}

func (c *client) drop(addr string) {
	if n := c.conns[addr]; n != nil {
		_ = n.Close()
		delete(c.conns, addr)
	}
}

// do sends one request to addr and decodes the answer.
func (c *client) do(addr string, req kmsg.Request) (kmsg.Response, error) {
	reused := c.conns[addr] != nil
	resp, err := c.doOnce(addr, req)
	if err != nil {
		c.drop(addr)
		if reused && errors.Is(err, errClosed) { // the server was restarted since the last request
			if resp, err = c.doOnce(addr, req); err != nil {
				c.drop(addr)
			}
		}
	}
	return resp, err
}

func (c *client) doOnce(addr string, req kmsg.Request) (kmsg.Response, error) {
	n := c.conns[addr]
	if n == nil {
		var err error
		if n, err = net.DialTimeout("tcp", addr, 5*time.Second); err != nil {
			return nil, err
		}
		c.conns[addr] = n
	}
	c.corr++
	buf := c.fmtr.AppendRequest(nil, req, c.corr)
	if err := n.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if _, err := n.Write(buf); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(n, head[:]); err != nil {
		if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			return nil, errClosed
		}
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(n, body); err != nil {
		return nil, err
	}
	if len(body) < 4 || int32(binary.BigEndian.Uint32(body)) != c.corr {
		return nil, fmt.Errorf("wrong correlation id in the answer to api key %d", req.Key())
	}
	body = body[4:]
	resp := req.ResponseKind()
	if req.IsFlexible() && req.Key() != 18 {
		if len(body) < 1 {
			return nil, fmt.Errorf("short answer to api key %d", req.Key())
		}
		body = body[1:] // an empty tag section
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("cannot decode the answer to api key %d v%d: %w", req.Key(), req.GetVersion(), err)
	}
	return resp, nil
}

// transportError is a server that cannot be reached or stays not ready; the rest of a scenario is pointless then.
type transportError struct{ error }

// retry repeats f through short disconnects (a broker that restarts or fails over) for up to c.patience.
func (c *client) retry(f func() (again bool, err error)) error {
	deadline := time.Now().Add(c.patience)
	for {
		again, err := f()
		if !again && err == nil {
			return nil
		}
		var ne net.Error
		if err != nil && !again && !errors.As(err, &ne) {
			return err
		}
		if time.Now().After(deadline) {
			if err == nil {
				err = errors.New("still not ready")
			}
			return transportError{fmt.Errorf("%w (tried for %s)", err, c.patience)}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (c *client) findCoordinator(group string) (string, error) {
	if a := c.coord[group]; a != "" {
		return a, nil
	}
	var addr string
	err := c.retry(func() (bool, error) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version = 4
		req.CoordinatorKeys = []string{group}
		r, err := c.do(c.bootstrap, req)
		if err != nil {
			return false, err
		}
		resp := r.(*kmsg.FindCoordinatorResponse)
		if len(resp.Coordinators) != 1 {
			return false, fmt.Errorf("FindCoordinator gave %d coordinators", len(resp.Coordinators))
		}
		co := resp.Coordinators[0]
		switch co.ErrorCode {
		case 0:
			addr = net.JoinHostPort(co.Host, strconv.Itoa(int(co.Port)))
			return false, nil
		case 14, 15:
			return true, nil
		case 24: // INVALID_GROUP_ID (an empty group id): let the request itself show the error
			addr = c.bootstrap
			return false, nil
		}
		return false, fmt.Errorf("FindCoordinator: %s", errName(co.ErrorCode))
	})
	if err == nil {
		c.coord[group] = addr
	}
	return addr, err
}

// group sends a request to the group's coordinator, looking it up again when it has moved or is loading.
// code returns the error code that tells so.
func (c *client) group(group string, req kmsg.Request, code func(kmsg.Response) int16) (kmsg.Response, error) {
	var out kmsg.Response
	err := c.retry(func() (bool, error) {
		addr, err := c.findCoordinator(group)
		if err != nil {
			return false, err
		}
		r, err := c.do(addr, req)
		if err != nil {
			delete(c.coord, group)
			if ne := net.Error(nil); errors.As(err, &ne) && !ne.Timeout() {
				return true, err
			}
			return false, err
		}
		switch code(r) {
		case 14, 15, 16:
			delete(c.coord, group)
			return true, fmt.Errorf("%s from %s", errName(code(r)), addr)
		}
		out = r
		return false, nil
	})
	return out, err
}

func (c *client) metadata(addr string, topics []string) (*kmsg.MetadataResponse, error) {
	var out *kmsg.MetadataResponse
	err := c.retry(func() (bool, error) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		if topics != nil {
			req.Topics = []kmsg.MetadataRequestTopic{}
			for _, t := range topics {
				mt := kmsg.NewMetadataRequestTopic()
				mt.Topic = kmsg.StringPtr(t)
				req.Topics = append(req.Topics, mt)
			}
		}
		r, err := c.do(addr, req)
		if err != nil {
			return false, err
		}
		out = r.(*kmsg.MetadataResponse)
		return false, nil
	})
	return out, err
}

// admin sends a topic or config request to addr and, if that one is not the controller, to the controller.
func (c *client) admin(addr string, req kmsg.Request, code func(kmsg.Response) int16) (kmsg.Response, error) {
	var out kmsg.Response
	err := c.retry(func() (bool, error) {
		r, err := c.do(addr, req)
		if err != nil {
			return false, err
		}
		if code(r) == 41 {
			m, err := c.metadata(addr, []string{})
			if err != nil {
				return false, err
			}
			for _, b := range m.Brokers {
				if b.NodeID == m.ControllerID {
					addr = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
				}
			}
			return true, nil
		}
		out = r
		return false, nil
	})
	return out, err
}
