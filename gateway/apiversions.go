package gateway

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// apiVersions answers for the node that the port stands for, whatever cluster and node the client expects: an error
// there would leave a Streams client hanging on its coordinator (KIP-1242). While nothing is known of the upstream there
// is no answer, and after a while the connection ends, as if the node were away: clients come again, but a key that is
// missing they take for one that is not served.
func (c *conn) apiVersions(h protocol.Header, body []byte) error {
	req, err := protocol.DecodeApiVersions(h.Version, body)
	if err != nil {
		return err
	}
	code := coordinator.None
	if h.Version >= 3 && !req.ValidSoftware() {
		code = coordinator.InvalidRequest
	}
	var versions *Versions
	c.blocking(func() { versions, err = c.g.versions.get(c.homeBroker(), c.done) })
	if err != nil {
		c.g.log.note("versions", "closing a connection: nothing is known of what the upstream serves", "client", c.client.Host)
		return err
	}
	role := protocol.CoordinatorPort
	if c.port.broker != noBroker {
		role = protocol.BrokerPort
	}
	s := c.open(h, nil)
	s.out = protocol.AppendApiVersions(s.out[:0], h, code, protocol.Intersect(versions.Ranges, role, c.g.hidden()...), versions.Features)
	s.code = code
	s.answer()
	return nil
}

// hidden are the APIs that are not listed because of the upstream's quirks.
func (g *Gateway) hidden() []int16 {
	var keys []int16
	if g.cfg.Quirks.NoDescribeTopicPartitions {
		keys = append(keys, 75)
	}
	if g.cfg.Quirks.NoTelemetry {
		keys = append(keys, 71, 72)
	}
	return keys
}

// versionsOf returns what an upstream broker serves, as far as that is known; nil for nothing.
func (c *conn) versionsOf(broker int32) *Versions {
	if known := c.g.versions.latest(broker); known != nil {
		return known
	}
	var got *Versions
	c.blocking(func() { got, _ = c.g.versions.get(broker, c.done) })
	return got
}

// max is the highest version of an API; 0 when nothing is known of it.
func (v *Versions) max(key int16) int16 {
	if v != nil {
		for _, r := range v.Ranges {
			if r.Key == key {
				return r.Max
			}
		}
	}
	return 0
}

// serves says whether a version of an API is served; true when nothing is known.
func (v *Versions) serves(key, version int16) bool {
	if v == nil {
		return true
	}
	for _, r := range v.Ranges {
		if r.Key == key {
			return version >= r.Min && version <= r.Max
		}
	}
	return false
}
