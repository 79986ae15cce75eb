package gateway

import (
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

const (
	maxKnownGroups = 10_000
	coordinatorTTL = 10 * time.Second
)

// coordinatorCache knows which upstream brokers coordinate groups that are not ours. Clients ask in tight loops while a
// coordinator does not answer, so the upstream is asked once; an entry goes with the first NOT_COORDINATOR, with its
// broker, or by age.
type coordinatorCache struct {
	mu     sync.Mutex
	groups map[string]knownCoordinator
}

type knownCoordinator struct {
	broker int32
	at     time.Time
}

func (cc *coordinatorCache) init() { cc.groups = map[string]knownCoordinator{} }

func (cc *coordinatorCache) get(group string) (int32, bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	k, ok := cc.groups[group]
	if !ok || time.Since(k.at) > coordinatorTTL {
		return 0, false
	}
	return k.broker, true
}

func (cc *coordinatorCache) put(group string, broker int32) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if len(cc.groups) >= maxKnownGroups {
		clear(cc.groups)
	}
	cc.groups[strings.Clone(group)] = knownCoordinator{broker, time.Now()}
}

func (cc *coordinatorCache) forget(group string) {
	cc.mu.Lock()
	delete(cc.groups, group)
	cc.mu.Unlock()
}

func (cc *coordinatorCache) forgetBroker(broker int32) {
	cc.mu.Lock()
	for group, k := range cc.groups {
		if k.broker == broker {
			delete(cc.groups, group)
		}
	}
	cc.mu.Unlock()
}

// findCoordinator answers own groups, and others that were asked for before, from memory; the rest is the upstream's. A
// group that this node's replica does not hold is the upstream's only when the leader of its shard says so: clients take
// the answer for long.
func (c *conn) findCoordinator(h protocol.Header, body, frame []byte) error {
	req, err := protocol.DecodeFindCoordinator(h.Version, body)
	if err != nil {
		return err
	}
	if req.Type != protocol.CoordinatorOfGroup {
		if err := c.awaitView(); err != nil {
			return err
		}
		return c.forward(c.homeBroker(), h, frame, rewriteDecoded)
	}
	answers := make([]protocol.Found, len(req.Keys))
	rest := protocol.FindCoordinator{Type: req.Type}
	var open []int // where the answers for rest go
	for i, owner := range c.owners(req.Keys) {
		key := req.Keys[i]
		var ok bool
		switch owner {
		case ownerHere:
			answers[i] = c.g.ownCoordinator(key)
		case ownerUnknown:
			answers[i] = protocol.NotFound(key, notAvailable)
		default:
			if answers[i], ok = c.g.knownCoordinator(key); !ok {
				rest.Keys = append(rest.Keys, key)
				open = append(open, i)
			}
		}
	}
	if len(open) > 0 {
		if err := c.awaitView(); err != nil {
			return err
		}
		theirs, err := c.askCoordinators(h.Version, &rest)
		if err != nil {
			return err
		}
		for _, i := range open {
			k, ok := theirs[req.Keys[i]]
			if !ok {
				k = protocol.NotFound(req.Keys[i], notAvailable)
			}
			answers[i] = k
		}
	}
	s := c.open(h, nil)
	s.out = protocol.AppendFindCoordinator(s.out[:0], h, answers)
	s.code = firstFailure(answers)
	s.answer()
	return nil
}

func firstFailure(answers []protocol.Found) coordinator.Code {
	for i := range answers {
		if answers[i].Err != nil {
			return answers[i].Err.Code
		}
	}
	return coordinator.None
}

// owners says of groups whose they are, asking the leaders of those that are not known here.
func (c *conn) owners(groups []string) []owner {
	owners := make([]owner, len(groups))
	var unsure []int
	for i, group := range groups {
		if owners[i] = c.g.foreign.ownerOf(group); owners[i] == ownerUnknown {
			unsure = append(unsure, i)
		}
	}
	if len(unsure) == 0 {
		return owners
	}
	c.blocking(func() {
		var wg sync.WaitGroup
		width := make(chan struct{}, batchWidth)
		for _, i := range unsure {
			width <- struct{}{}
			wg.Go(func() {
				defer func() { <-width }()
				owners[i] = c.g.foreign.ask(groups[i], c.done)
			})
		}
		wg.Wait()
	})
	return owners
}

// ownCoordinator tells the coordinator of a group of ours.
func (g *Gateway) ownCoordinator(group string) protocol.Found {
	id, host, port, ok := g.coordinatorOf(group)
	if !ok {
		return protocol.NotFound(group, notAvailable)
	}
	return protocol.Found{Key: group, Node: id, Host: host, Port: port}
}

// knownCoordinator tells the upstream's coordinator of another group without asking the upstream.
func (g *Gateway) knownCoordinator(group string) (protocol.Found, bool) {
	broker, ok := g.where.get(group)
	if !ok {
		return protocol.Found{}, false
	}
	host, port, ok := g.addressOf(broker)
	return protocol.Found{Key: group, Node: broker, Host: host, Port: port}, ok
}

// askCoordinators asks the upstream for the coordinators of groups in the version of the client's request, and gives
// them addresses here.
func (c *conn) askCoordinators(version int16, req *protocol.FindCoordinator) (map[string]protocol.Found, error) {
	h := protocol.Header{Key: protocol.KeyFindCoordinator, Version: version}
	answer, err := c.askFrame(c.homeBroker(), h, protocol.AppendFindCoordinatorRequest(nil, version, req))
	if err != nil {
		return nil, err
	}
	_, body, err := protocol.ResponseBody(h.Key, version, answer[4:])
	if err != nil {
		return nil, err
	}
	answers, err := protocol.ReadFindCoordinatorResponse(version, body, req)
	if err != nil {
		return nil, err
	}
	found := make(map[string]protocol.Found, len(answers))
	for _, k := range answers {
		if k.Err == nil && k.Node >= 0 {
			c.g.where.put(k.Key, k.Node)
			var ok bool
			if k.Host, k.Port, ok = c.g.addressOf(k.Node); !ok {
				k = protocol.NotFound(k.Key, notAvailable)
			}
		} else {
			k.Node, k.Host, k.Port = -1, "", -1
		}
		found[k.Key] = k
	}
	return found, nil
}

// upstreamCoordinator is the broker that coordinates a group that is not ours, or the code that the upstream gave.
func (c *conn) upstreamCoordinator(group string) (int32, coordinator.Code, error) {
	if broker, ok := c.g.where.get(group); ok {
		return broker, coordinator.None, nil
	}
	req := kmsg.NewFindCoordinatorRequest()
	req.CoordinatorKey = group
	req.Version = min(3, c.versionsOf(c.homeBroker()).max(protocol.KeyFindCoordinator))
	answer, err := c.ask(c.homeBroker(), &req)
	if err != nil {
		return noBroker, coordinator.None, err
	}
	resp := answer.(*kmsg.FindCoordinatorResponse)
	if resp.ErrorCode != 0 {
		return noBroker, coordinator.Code(resp.ErrorCode), nil
	}
	if _, ok := c.g.brokerAddress(resp.NodeID); !ok {
		c.g.cluster.RefreshImage()
		return noBroker, coordinator.CoordinatorNotAvailable, nil
	}
	c.g.where.put(group, resp.NodeID)
	return resp.NodeID, coordinator.None, nil
}

// reply answers a request by an encoded response.
func (c *conn) reply(h protocol.Header, resp kmsg.Response) {
	s := c.open(h, nil)
	s.out, s.code = protocol.AppendResponse(s.out[:0], h, resp), codeOf(resp)
	s.answer()
}
