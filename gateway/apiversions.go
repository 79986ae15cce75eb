package gateway

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// versionCache knows what each upstream broker serves. A broker is asked over a connection of the gateway's own, without
// the ids that a client expects (KIP-1242); while that connection lives, so does the answer.
type versionCache struct {
	g       *Gateway
	mu      sync.Mutex
	brokers map[int32]*brokerVersions
}

type brokerVersions struct {
	asking   chan struct{} // closed when the question that runs is answered; nil when none runs
	fresh    bool
	known    bool
	ranges   []protocol.VersionRange
	features *protocol.Features
	err      error
}

func (v *versionCache) init(g *Gateway) { v.g, v.brokers = g, map[int32]*brokerVersions{} }

// get returns what a broker serves; what it served before when it does not answer. It may block.
func (v *versionCache) get(broker int32) ([]protocol.VersionRange, *protocol.Features, error) {
	v.mu.Lock()
	b := v.brokers[broker]
	if b == nil {
		b = &brokerVersions{}
		v.brokers[broker] = b
	}
	if asking := b.asking; asking != nil {
		v.mu.Unlock()
		<-asking
		v.mu.Lock()
	} else if !b.fresh {
		b.asking = make(chan struct{})
		v.mu.Unlock()
		v.ask(broker, b)
		v.mu.Lock()
	}
	defer v.mu.Unlock()
	if !b.known {
		return nil, nil, b.err
	}
	return b.ranges, b.features, nil
}

// max is the highest version of an API that a broker serves, as far as it is known; else the lowest of all.
func (v *versionCache) max(broker int32, key int16) int16 {
	ranges, _, err := v.get(broker)
	if err == nil {
		for _, r := range ranges {
			if r.Key == key {
				return r.Max
			}
		}
	}
	return 0
}

// serves says whether a broker serves a version of an API; true when it is not known.
func (v *versionCache) serves(broker int32, key, version int16) bool {
	ranges, _, err := v.get(broker)
	if err != nil {
		return true
	}
	for _, r := range ranges {
		if r.Key == key {
			return version >= r.Min && version <= r.Max
		}
	}
	return false
}

func (v *versionCache) ask(broker int32, b *brokerVersions) {
	nc, err := v.g.dialBroker(broker)
	var ranges []protocol.VersionRange
	var features *protocol.Features
	if err == nil {
		ranges, features, err = askVersions(nc)
	}
	v.mu.Lock()
	if err == nil {
		b.ranges, b.features, b.fresh, b.known = ranges, features, true, true
	}
	b.err = err
	close(b.asking)
	b.asking = nil
	v.mu.Unlock()
	switch {
	case err == nil:
		v.g.run(func() { v.watch(nc, b) })
	case nc != nil:
		_ = nc.Close()
	}
}

// watch waits for the end of the connection over which a broker was asked: after it the broker may be another version.
func (v *versionCache) watch(nc net.Conn, b *brokerVersions) {
	stop := closeWith(v.g.ctx, nc)
	var one [1]byte
	_, _ = nc.Read(one[:])
	stop()
	_ = nc.Close()
	v.mu.Lock()
	b.fresh = false
	v.mu.Unlock()
}

var errVersions = errors.New("upstream broker does not answer ApiVersions")

// askVersions asks a broker what it serves, in the version that both know.
func askVersions(nc net.Conn) ([]protocol.VersionRange, *protocol.Features, error) {
	version := int16(4) // v5 would carry the ids that the broker checks
	for range 2 {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = version
		req.ClientSoftwareName, req.ClientSoftwareVersion = "coordd", "1"
		_ = nc.SetDeadline(deadlineIn(dialTimeout))
		h := protocol.Header{Key: protocol.KeyApiVersions, Version: version, ClientID: "coordd"}
		if _, err := nc.Write(appendFrame(nil, h, req.AppendTo(nil))); err != nil {
			return nil, nil, err
		}
		var prefix [4]byte
		answer, err := readGrowing(nc, prefix[:0], 4)
		if err != nil {
			return nil, nil, err
		}
		size := int(int32(binary.BigEndian.Uint32(answer)))
		if size < 4 || size > 1<<20 {
			return nil, nil, errVersions
		}
		if answer, err = readGrowing(nc, nil, size); err != nil {
			return nil, nil, err
		}
		read := version
		if size >= 6 && binary.BigEndian.Uint16(answer[4:]) == uint16(coordinator.UnsupportedVersion) {
			read = 0
		}
		_, body, err := protocol.ResponseBody(protocol.KeyApiVersions, read, answer)
		if err != nil {
			return nil, nil, err
		}
		code, ranges, features, err := protocol.ReadApiVersionsResponse(read, body)
		if err != nil {
			return nil, nil, err
		}
		switch code {
		case coordinator.None:
			_ = nc.SetDeadline(noDeadline)
			return ranges, features, nil
		case coordinator.UnsupportedVersion:
			version = 0
			for _, r := range ranges {
				if r.Key == protocol.KeyApiVersions {
					version = min(r.Max, 4)
				}
			}
		default:
			return nil, nil, errVersions
		}
	}
	return nil, nil, errVersions
}

// apiVersions answers for the node that the port stands for, whatever cluster and node the client expects: an error
// there would leave a Streams client hanging on its coordinator (KIP-1242).
func (c *conn) apiVersions(h protocol.Header, body []byte) error {
	req, err := protocol.DecodeApiVersions(h.Version, body)
	if err != nil {
		return err
	}
	code := coordinator.None
	if h.Version >= 3 && !req.ValidSoftware() {
		code = coordinator.InvalidRequest
	}
	var ranges []protocol.VersionRange
	var features *protocol.Features
	c.blocking(func() { ranges, features, err = c.g.versions.get(c.homeBroker()) })
	role := protocol.CoordinatorPort
	if c.port.broker != noBroker {
		role = protocol.BrokerPort
		if err != nil {
			return err // as if the broker were away
		}
	}
	s := c.open(h, nil)
	s.out = protocol.AppendApiVersions(s.out[:0], h, code, protocol.Intersect(ranges, role, c.g.hidden()...), features)
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
