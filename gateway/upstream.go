package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

const (
	dialTimeout  = 5 * time.Second
	askTimeout   = 30 * time.Second
	maxUpstream  = 1 << 30 // bytes of one answer of an upstream
	upstreamRead = 4 << 10 // buffer of a connection to an upstream; what is larger is read past it
)

var errUpstream = errors.New("upstream connection lost")

// rewriter changes the answer of an upstream to the request of header h. answer has its length prefix, and the result
// has one, too; it may be the same memory.
type rewriter func(c *conn, h protocol.Header, answer []byte) ([]byte, error)

// expected is an answer that an upstream owes.
type expected struct {
	s           *slot // whose answer it is; nil when somebody waits on got
	rewrite     rewriter
	got         chan []byte
	correlation int32
}

// upstream is the connection to one upstream broker that belongs to one client connection. The client connection's
// reader writes to it; a goroutine of its own reads.
type upstream struct {
	c      *conn
	broker int32
	nc     net.Conn
	br     *bufio.Reader

	mu     sync.Mutex
	owed   []expected
	closed bool
}

// brokerAddress is where the upstream says that the broker listens.
func (g *Gateway) brokerAddress(broker int32) (string, bool) {
	image := g.cluster.Image()
	if image == nil {
		return "", false
	}
	for _, b := range image.Brokers() {
		if b.ID == broker {
			return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), true
		}
	}
	return "", false
}

func (g *Gateway) dialBroker(broker int32) (net.Conn, error) {
	addr, ok := g.brokerAddress(broker)
	if !ok {
		g.cluster.RefreshImage()
		return nil, fmt.Errorf("upstream broker %d is not there", broker)
	}
	ctx, cancel := context.WithTimeout(g.ctx, dialTimeout)
	defer cancel()
	nc, err := g.net.Dial(ctx, addr)
	if err != nil {
		g.where.forgetBroker(broker)
		g.cluster.RefreshImage()
	}
	return nc, err
}

// homeBroker is the upstream broker that this connection's requests go to when no other is named: the one that the port
// stands for; on the node's own port the controller, else any.
func (c *conn) homeBroker() int32 {
	if c.port.broker != noBroker {
		return c.port.broker
	}
	if _, live := c.g.brokerAddress(c.home); live {
		return c.home
	}
	c.home = c.g.anyBroker()
	return c.home
}

func (g *Gateway) anyBroker() int32 {
	image := g.cluster.Image()
	if image == nil || len(image.Brokers()) == 0 {
		g.cluster.RefreshImage()
		return noBroker
	}
	for _, b := range image.Brokers() {
		if b.ID == image.ControllerID() {
			return b.ID
		}
	}
	return image.Brokers()[0].ID
}

// to returns the connection to a broker, opening it when there is none.
func (c *conn) to(broker int32) (*upstream, error) {
	if u := c.ups[broker]; u != nil {
		if u.alive() {
			return u, nil
		}
		delete(c.ups, broker)
	}
	var nc net.Conn
	var err error
	c.blocking(func() { nc, err = c.g.dialBroker(broker) })
	if err != nil {
		c.g.log.note("upstream dial", "cannot connect to an upstream broker", "broker", broker, "error", err)
		return nil, err
	}
	u := &upstream{c: c, broker: broker, nc: nc, br: bufio.NewReaderSize(nc, upstreamRead)}
	if c.ups == nil {
		c.ups = map[int32]*upstream{}
	}
	c.ups[broker] = u
	c.g.metrics.upstreams.Inc()
	c.g.run(u.read)
	return u, nil
}

func (u *upstream) alive() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.closed
}

func (u *upstream) close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	_ = u.nc.Close()
}

// expect notes that an answer will come; it must precede the request's bytes.
func (u *upstream) expect(e expected) {
	u.mu.Lock()
	u.owed = append(u.owed, e)
	u.mu.Unlock()
}

// forward sends a request frame on and answers the client by what comes back.
func (c *conn) forward(broker int32, h protocol.Header, frame []byte, rewrite rewriter) error {
	u, err := c.to(broker)
	if err != nil {
		return err
	}
	s := c.open(h, frame)
	s.began = notOurs
	u.expect(expected{s: s, rewrite: rewrite, correlation: h.Correlation})
	_, err = u.nc.Write(frame)
	return err
}

// ask makes a request of the gateway's own over the client's connection to a broker and waits for the answer. It runs on
// the reader; req has its version.
func (c *conn) ask(broker int32, req kmsg.Request) (kmsg.Response, error) {
	h := protocol.Header{Key: req.Key(), Version: req.GetVersion()}
	answer, err := c.askFrame(broker, h, req.AppendTo(nil))
	if err != nil {
		return nil, err
	}
	return decodeAnswer(req, answer[4:])
}

// ownCorrelation is on requests that are the gateway's own; answers come in order, so that it need not be unique.
const ownCorrelation = 0x636f6f72

// askFrame makes a request of the gateway's own, of the key and version of h, and returns the answer frame.
func (c *conn) askFrame(broker int32, h protocol.Header, body []byte) ([]byte, error) {
	u, err := c.to(broker)
	if err != nil {
		return nil, err
	}
	h.Correlation, h.ClientID = ownCorrelation, c.client.ID
	got := make(chan []byte, 1)
	u.expect(expected{got: got, correlation: h.Correlation})
	frame := appendFrame(nil, h, body)
	var answer []byte
	c.blocking(func() {
		if _, err = u.nc.Write(frame); err == nil {
			answer, err = c.awaitAnswer(got)
		}
	})
	return answer, err
}

func (c *conn) awaitAnswer(got <-chan []byte) ([]byte, error) {
	timer := time.NewTimer(askTimeout)
	defer timer.Stop()
	select {
	case answer, ok := <-got:
		if !ok {
			return nil, errUpstream
		}
		return answer, nil
	case <-timer.C:
		return nil, errUpstream
	case <-c.done:
		return nil, errClosed
	}
}

// appendFrame appends a whole request frame of a body that is encoded already.
func appendFrame(dst []byte, h protocol.Header, body []byte) []byte {
	dst, start := protocol.BeginFrame(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Correlation))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.ClientID)))
	dst = append(dst, h.ClientID...)
	if protocol.Flexible(h.Key, h.Version) {
		dst = append(dst, 0)
	}
	return protocol.EndFrame(append(dst, body...), start)
}

// decodeAnswer reads the answer to req, without its length prefix.
func decodeAnswer(req kmsg.Request, answer []byte) (kmsg.Response, error) {
	_, body, err := protocol.ResponseBody(req.Key(), req.GetVersion(), answer)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	return resp, resp.ReadFrom(body)
}

// read takes the answers of the upstream in their order. When the upstream goes while it owes answers, the client's
// connection ends, as it would have ended with the broker; otherwise it is opened again when it is needed.
func (u *upstream) read() {
	defer u.c.g.metrics.upstreams.Dec()
	err := u.readAnswers()
	u.close()
	u.mu.Lock()
	owed := u.owed
	u.owed = nil
	u.mu.Unlock()
	for _, e := range owed {
		if e.got != nil {
			close(e.got)
		}
	}
	if len(owed) > 0 {
		u.c.g.where.forgetBroker(u.broker)
		if !errors.Is(err, net.ErrClosed) {
			u.c.g.log.note("upstream lost", "an upstream broker ended a connection that it owed answers", "broker", u.broker, "error", err)
		}
		u.c.close()
	}
}

func (u *upstream) readAnswers() error {
	for {
		head, err := u.br.Peek(8)
		if err != nil {
			return err
		}
		size := int(int32(binary.BigEndian.Uint32(head)))
		correlation := int32(binary.BigEndian.Uint32(head[4:]))
		u.mu.Lock()
		if len(u.owed) == 0 || u.owed[0].correlation != correlation || size < 4 || size > maxUpstream {
			u.mu.Unlock()
			return fmt.Errorf("unexpected answer of %d bytes with correlation id %d", size, correlation)
		}
		e := u.owed[0]
		u.mu.Unlock()
		if err := u.take(&e, size); err != nil {
			return err
		}
	}
}

// taken says that the answer owed first has come.
func (u *upstream) taken() {
	u.mu.Lock()
	u.owed[0] = expected{}
	u.owed = u.owed[1:]
	u.mu.Unlock()
}

// take reads the answer at hand, of size bytes, and gives it to whom it belongs.
func (u *upstream) take(e *expected, size int) error {
	switch {
	case e.got != nil:
		answer, err := readGrowing(u.br, nil, 4+size)
		if err != nil {
			return err
		}
		u.taken()
		e.got <- answer
		return nil
	case size > spliceSize && e.rewrite == nil:
		return u.relayAnswer(e.s, size, nil)
	case size > spliceSize && hasTail(e.s.h.Key, e.s.h.Version):
		return u.relayAnswer(e.s, size, &e.s.h)
	}
	s := e.s
	answer, err := readGrowing(u.br, s.out[:0], 4+size)
	if err == nil && e.rewrite != nil {
		answer, err = e.rewrite(u.c, s.h, answer)
	}
	if err != nil {
		return err
	}
	s.out = answer
	u.taken()
	s.answer()
	return nil
}

// readGrowing reads n bytes behind dst[:0], taking memory only as they come.
func readGrowing(r io.Reader, dst []byte, n int) ([]byte, error) {
	for len(dst) < n {
		step := min(n-len(dst), max(len(dst), readBufSize))
		start := len(dst)
		if cap(dst)-start < step {
			grown := make([]byte, start, start+step)
			copy(grown, dst)
			dst = grown
		}
		dst = dst[:start+step]
		if _, err := io.ReadFull(r, dst[start:]); err != nil {
			return nil, err
		}
	}
	return dst, nil
}
