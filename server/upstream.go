package server

import (
	"context"
	mathrand "math/rand/v2"
	"net"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/upstream"
)

// UpstreamOptions say how a node reaches the Kafka cluster behind.
type UpstreamOptions struct {
	Bootstrap []string
	Logger    hclog.Logger
	// Dial is nil for TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// UseUpstream fills in the parts of a node that work on the Kafka cluster behind. Call closed when the node has stopped.
func UseUpstream(parts *Parts, o UpstreamOptions) (closed func(), err error) {
	client, err := upstream.Open(upstream.Options{Bootstrap: o.Bootstrap, Logger: o.Logger, Dial: o.Dial})
	if err != nil {
		return nil, err
	}
	parts.Topics = client
	parts.NewStore = func(verify func(string, func(error))) Store {
		return upstreamStore{
			Offsets: upstream.NewOffsets(upstream.OffsetsConfig{
				Client: client, Logger: o.Logger, Rand: mathrand.Float64, Verify: verify,
			}),
			foreign: upstream.NewForeign(client),
		}
	}
	return client.Close, nil
}

// upstreamStore is the store `upstream` together with the question who uses a group id there.
type upstreamStore struct {
	*upstream.Offsets
	foreign *upstream.Foreign
}

// Foreign implements Store.
func (s upstreamStore) Foreign(group string, done func(string, error)) { s.foreign.Ask(group, done) }

// Close implements Store.
func (s upstreamStore) Close() {
	s.Offsets.Close()
	s.foreign.Close()
}
