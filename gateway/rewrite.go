package gateway

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

// rewriterFor is what has to be done to the upstream's answer of an API that is forwarded; nil for nothing.
func rewriterFor(key, version int16) rewriter {
	switch key {
	case protocol.KeyProduce, protocol.KeyFetch:
		if hasTail(key, version) {
			return rewriteTail
		}
	case protocol.KeyMetadata, protocol.KeyDescribeCluster, protocol.KeyFindCoordinator, protocol.KeyShareFetch,
		protocol.KeyShareAcknowledge:
		return rewriteDecoded
	}
	return nil
}

// rewriteDecoded decodes an answer, replaces its addresses and encodes it anew.
func rewriteDecoded(c *conn, h protocol.Header, answer []byte) ([]byte, error) {
	resp := kmsg.ResponseForKey(h.Key)
	resp.SetVersion(h.Version)
	_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
	if err != nil {
		return nil, err
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, err
	}
	c.g.rewrite(resp)
	return protocol.AppendResponse(nil, h, resp), nil
}

// rewrite replaces the broker addresses in a decoded answer. Brokers without an address here are left out.
func (g *Gateway) rewrite(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		g.rewriteMetadata(r)
	case *kmsg.DescribeClusterResponse:
		g.rewriteCluster(r)
	case *kmsg.FindCoordinatorResponse:
		g.rewriteCoordinators(r)
	case *kmsg.ListGroupsResponse:
		g.filterGroups(r)
	case *kmsg.ShareFetchResponse:
		kept := r.NodeEndpoints[:0]
		for _, n := range r.NodeEndpoints {
			if host, port, ok := g.addressOf(n.NodeID); ok {
				n.Host, n.Port = host, port
				kept = append(kept, n)
			}
		}
		r.NodeEndpoints = kept
	case *kmsg.ShareAcknowledgeResponse:
		kept := r.NodeEndpoints[:0]
		for _, n := range r.NodeEndpoints {
			if host, port, ok := g.addressOf(n.NodeID); ok {
				n.Host, n.Port = host, port
				kept = append(kept, n)
			}
		}
		r.NodeEndpoints = kept
	}
}

func (g *Gateway) rewriteMetadata(r *kmsg.MetadataResponse) {
	kept := r.Brokers[:0]
	for _, b := range r.Brokers {
		if host, port, ok := g.addressOf(b.NodeID); ok {
			b.Host, b.Port = host, port
			kept = append(kept, b)
		}
	}
	for _, n := range g.live() {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = g.clientID(n.ID), n.Host, n.ClientPort
		kept = append(kept, b)
	}
	r.Brokers = kept
}

func (g *Gateway) rewriteCluster(r *kmsg.DescribeClusterResponse) {
	if r.ErrorCode != 0 {
		return
	}
	kept := r.Brokers[:0]
	for _, b := range r.Brokers {
		if host, port, ok := g.addressOf(b.NodeID); ok {
			b.Host, b.Port = host, port
			kept = append(kept, b)
		}
	}
	for _, n := range g.live() {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port = g.clientID(n.ID), n.Host, n.ClientPort
		kept = append(kept, b)
	}
	r.Brokers = kept
}

const coordinatorNotAvailable = 15

// rewriteCoordinators replaces the address of each coordinator that was found; one that has none here is not available.
func (g *Gateway) rewriteCoordinators(r *kmsg.FindCoordinatorResponse) {
	if r.Version < 4 {
		r.NodeID, r.Host, r.Port, r.ErrorCode = g.coordinatorAddress(r.NodeID, r.Host, r.Port, r.ErrorCode)
		return
	}
	for i := range r.Coordinators {
		k := &r.Coordinators[i]
		k.NodeID, k.Host, k.Port, k.ErrorCode = g.coordinatorAddress(k.NodeID, k.Host, k.Port, k.ErrorCode)
	}
}

func (g *Gateway) coordinatorAddress(id int32, host string, port int32, code int16) (int32, string, int32, int16) {
	if code != 0 || id < 0 {
		return -1, "", -1, code
	}
	if host, port, ok := g.addressOf(id); ok {
		return id, host, port, 0
	}
	return -1, "", -1, coordinatorNotAvailable
}
