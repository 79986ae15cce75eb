package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Options say how to reach the upstream. Bootstrap is required.
type Options struct {
	// Bootstrap lists host:port of some brokers.
	Bootstrap []string
	// Dial opens connections; nil means TCP. TLS comes on top of it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS, when set, is the configuration of a TLS connection to the brokers.
	TLS *tls.Config
	// SASL, when set, is how coordd signs in as itself.
	SASL *SASL
	// Logger gets the client library's messages, all at debug or trace; nil means none.
	Logger hclog.Logger
	// ClientID is the client id of coordd's requests; "coordd" by default.
	ClientID string
	// Lanes is the number of connections to each broker that commits are spread over, because a broker works on one
	// request of a connection at a time; 4 by default.
	Lanes int
	// Joins is the number of groups that may join at the same time, each over a connection of its own, because a
	// broker may hold a first join for group.initial.rebalance.delay.ms (3 s by default); 32 by default.
	Joins int
	// RequestTimeout bounds the wait for one answer; 5 s by default.
	RequestTimeout time.Duration
}

// SASL is a sign-in by password. Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
type SASL struct{ Mechanism, User, Password string }

// Client is coordd's own access to the upstream. Its methods may be called from any goroutine.
type Client struct {
	opts Options
	base []kgo.Opt

	// admin retries by itself, for a few seconds: topics, descriptions.
	admin *kgo.Client
	lanes []*lane
	joins *joinPool

	coordinators coordinators
	metadata     *metadataWatch
	foreign      *foreign
	// throttle is why and until when the upstream takes no CreateTopics; nil: it does.
	throttle atomic.Pointer[createThrottle]
}

// lane is one connection to each broker. Requests of a lane are never sent again by the client library.
type lane struct {
	cl *kgo.Client
	// classic never sends TxnOffsetCommit above v4: from v5 on the upstream itself adds the group to the transaction
	// (KIP-890), which only a producer that speaks transactions v2 expects. It is nil until it is needed.
	mu      sync.Mutex
	classic *kgo.Client
	closed  bool
}

// Versions above which topics have no names.
const (
	maxOffsetCommit    = 9
	maxOffsetFetch     = 9
	maxTxnOffsetCommit = 5
	maxTxnClassic      = 4
)

var errClosed = errors.New("upstream client is closed")

// Open makes a Client. It does not connect: the upstream may be away.
func Open(opts Options) (*Client, error) {
	if len(opts.Bootstrap) == 0 {
		return nil, errors.New("no bootstrap servers of the upstream")
	}
	if opts.Logger == nil {
		opts.Logger = hclog.NewNullLogger()
	}
	if opts.ClientID == "" {
		opts.ClientID = "coordd"
	}
	opts.Lanes = orDefault(opts.Lanes, 4)
	opts.Joins = orDefault(opts.Joins, 32)
	opts.RequestTimeout = orDefault(opts.RequestTimeout, 5*time.Second)
	if opts.Dial == nil {
		opts.Dial = new(net.Dialer).DialContext
	}
	base, err := baseOptions(opts)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: opts, base: base}
	c.foreign = newForeign(c)
	c.joins = newJoinPool(opts.Joins, func() (*kgo.Client, error) { return c.newClient(maxTxnOffsetCommit) })
	if c.admin, err = kgo.NewClient(append(base[:len(base):len(base)],
		kgo.RequestRetries(20), kgo.RetryTimeout(4*time.Second), kgo.RetryBackoffFn(retryBackoff))...); err != nil {
		return nil, fmt.Errorf("upstream client: %w", err)
	}
	if c.metadata, err = newMetadataWatch(base, c.admin); err != nil {
		c.admin.Close()
		return nil, fmt.Errorf("upstream client: %w", err)
	}
	for range opts.Lanes {
		cl, err := c.newClient(maxTxnOffsetCommit)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("upstream client: %w", err)
		}
		c.lanes = append(c.lanes, &lane{cl: cl})
	}
	return c, nil
}

func orDefault[T int | int32 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

func baseOptions(opts Options) ([]kgo.Opt, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(opts.Bootstrap...),
		kgo.ClientID(opts.ClientID),
		kgo.Dialer(dialer(opts)),
		kgo.WithLogger(&logAdapter{opts.Logger}),
		kgo.RequestTimeoutOverhead(opts.RequestTimeout),
		kgo.ConnIdleTimeout(2 * time.Minute),
		kgo.MetadataMinAge(time.Second),
		kgo.DisableClientMetrics(),
	}
	mechanism, err := opts.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		base = append(base, kgo.SASL(mechanism))
	}
	return base, nil
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	if s == nil {
		return nil, nil
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q", s.Mechanism)
}

// dialError says that a request was not sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return "dial upstream: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

const dialTimeout = 3 * time.Second

func dialer(opts Options) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := opts.Dial(ctx, network, address)
		if err != nil {
			return nil, &dialError{err}
		}
		if opts.TLS == nil {
			return conn, nil
		}
		config := opts.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, &dialError{err}
		}
		return secure, nil
	}
}

// retryBackoff is the wait before try n+1 of a request that the library repeats.
func retryBackoff(n int) time.Duration {
	return min(500*time.Millisecond, 25*time.Millisecond<<min(n, 6))
}

// newClient makes a client whose offset requests name topics.
func (c *Client) newClient(txnOffsetCommit int16) (*kgo.Client, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(8, maxOffsetCommit)
	versions.SetMaxKeyVersion(9, maxOffsetFetch)
	versions.SetMaxKeyVersion(28, txnOffsetCommit)
	return kgo.NewClient(append(c.base[:len(c.base):len(c.base)],
		kgo.MaxVersions(versions), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))...)
}

// forTransactions returns the lane's client for a TxnOffsetCommit that a client sent at version.
func (l *lane) forTransactions(c *Client, version int16) (*kgo.Client, error) {
	if version > maxTxnClassic {
		return l.cl, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.classic == nil {
		cl, err := c.newClient(maxTxnClassic)
		if err != nil {
			return nil, err
		}
		l.classic = cl
	}
	return l.classic, nil
}

func (l *lane) close() {
	l.mu.Lock()
	classic := l.classic
	l.classic, l.closed = nil, true
	l.mu.Unlock()
	l.cl.Close()
	if classic != nil {
		classic.Close()
	}
}

// Close ends every connection; what is in flight fails. Close the Offsets first.
func (c *Client) Close() {
	c.foreign.close()
	c.admin.Close()
	c.metadata.cl.Close()
	for _, l := range c.lanes {
		l.close()
	}
	c.joins.close()
}

// logAdapter shows the library's messages at debug and trace: what matters of them is logged by who asked.
type logAdapter struct{ log hclog.Logger }

// Level implements kgo.Logger.
func (l *logAdapter) Level() kgo.LogLevel {
	switch {
	case l.log.IsTrace():
		return kgo.LogLevelDebug
	case l.log.IsDebug():
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

// Log implements kgo.Logger.
func (l *logAdapter) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if level == kgo.LogLevelDebug {
		l.log.Trace(msg, keyvals...)
		return
	}
	l.log.Debug(msg, keyvals...)
}
