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
	parts.Topics, parts.Logs, parts.Origins = client, client, client
	parts.NewStore = func(verify func(string, func(error))) Store {
		return upstream.NewOffsets(upstream.OffsetsConfig{
			Client: client, Logger: o.Logger, Rand: mathrand.Float64, Verify: verify,
		})
	}
	return client.Close, nil
}
