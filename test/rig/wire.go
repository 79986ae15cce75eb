package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is one plain Kafka connection with one request in flight: a client whose every step a test can see, without the
// retries of a real one.
type Conn struct {
	Addr string

	nc       net.Conn
	format   *kmsg.RequestFormatter
	versions map[int16][2]int16
	next     int32
	buf      []byte
}

const (
	dialTimeout = time.Second
	maxAnswer   = 64 << 20
)

// Dial connects and asks for the versions.
func Dial(addr string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	c := &Conn{Addr: addr, nc: nc, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("rig"))}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "rig", "1"
	resp, err := c.roundTrip(req, 5*time.Second)
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	answer := resp.(*kmsg.ApiVersionsResponse)
	if answer.ErrorCode != 0 {
		return nil, errors.Join(fmt.Errorf("ApiVersions: error %d", answer.ErrorCode), nc.Close())
	}
	c.versions = map[int16][2]int16{}
	for _, k := range answer.ApiKeys {
		c.versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return c, nil
}

// SignIn signs in with a name and a password (SASL PLAIN).
func (c *Conn) SignIn(user, password string, within time.Duration) error {
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Mechanism = "PLAIN"
	resp, err := c.DoVersion(hello, 1, within)
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		return fmt.Errorf("SaslHandshake: %w", Code(code))
	}
	proof := kmsg.NewPtrSASLAuthenticateRequest()
	proof.SASLAuthBytes = []byte("\x00" + user + "\x00" + password)
	if resp, err = c.DoVersion(proof, 2, within); err != nil {
		return err
	}
	if code := resp.(*kmsg.SASLAuthenticateResponse).ErrorCode; code != 0 {
		return fmt.Errorf("SaslAuthenticate: %w", Code(code))
	}
	return nil
}

// Do sends a request in the newest version both sides know and waits for the answer. After an error the connection is of
// no more use.
func (c *Conn) Do(req kmsg.Request, within time.Duration) (kmsg.Response, error) {
	v, ok := c.versions[req.Key()]
	if !ok {
		return nil, fmt.Errorf("%s does not list API key %d", c.Addr, req.Key())
	}
	req.SetVersion(min(req.MaxVersion(), v[1]))
	return c.roundTrip(req, within)
}

// DoVersion is Do with the given version of the request.
func (c *Conn) DoVersion(req kmsg.Request, version int16, within time.Duration) (kmsg.Response, error) {
	req.SetVersion(version)
	return c.roundTrip(req, within)
}

func (c *Conn) roundTrip(req kmsg.Request, within time.Duration) (kmsg.Response, error) {
	c.next++
	c.buf = c.format.AppendRequest(c.buf[:0], req, c.next)
	if err := c.nc.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	if _, err := c.nc.Write(c.buf); err != nil {
		return nil, err
	}
	frame, err := ReadFrame(c.nc)
	if err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != c.next {
		return nil, fmt.Errorf("answer %d to request %d", got, c.next)
	}
	body := frame[4:]
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("answer with tags in its header")
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

// ReadFrame reads one length-prefixed frame, which has at least the four bytes of a correlation id.
func ReadFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxAnswer {
		return nil, fmt.Errorf("answer of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// Close closes the connection.
func (c *Conn) Close() {
	if c != nil {
		_ = c.nc.Close()
	}
}

// Coordinator asks for the coordinator of a group: its node id and address.
func (c *Conn) Coordinator(group string, within time.Duration) (id int32, addr string, err error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := c.Do(req, within)
	if err != nil {
		return 0, "", err
	}
	r := resp.(*kmsg.FindCoordinatorResponse)
	id, host, port, code := r.NodeID, r.Host, r.Port, r.ErrorCode
	if len(r.Coordinators) == 1 {
		k := r.Coordinators[0]
		id, host, port, code = k.NodeID, k.Host, k.Port, k.ErrorCode
	}
	if code != 0 {
		return 0, "", Code(code)
	}
	return id, net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// Code is an error code of the Kafka protocol.
type Code int16

func (c Code) Error() string { return fmt.Sprintf("error code %d", int16(c)) }

// Retriable says whether the code only says that the coordinator is elsewhere, away or loading.
func (c Code) Retriable() bool { return c == 14 || c == 15 || c == 16 }
