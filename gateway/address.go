package gateway

// live are the nodes that clients may be sent to; this node alone when no other is known to live.
func (g *Gateway) live() []Node {
	all := g.cluster.Nodes()
	live := make([]Node, 0, len(all))
	for _, n := range all {
		if n.Live {
			live = append(live, n)
		}
	}
	if len(live) > 0 {
		return live
	}
	for _, n := range all {
		if n.ID == g.coords.Self() {
			return []Node{n}
		}
	}
	return nil
}

// addressOf is where clients find a node of either kind: a pure function of the live nodes and the slots, so that all
// nodes say the same. Slot k is at live[k mod len(live)]. ok is false for a broker without a slot; its address upstream
// must not reach a client.
func (g *Gateway) addressOf(id int32) (host string, port int32, ok bool) {
	live := g.live()
	if len(live) == 0 {
		return "", 0, false
	}
	if id >= g.cfg.NodeIDBase {
		for _, n := range live {
			if g.clientID(n.ID) == id {
				return n.Host, n.ClientPort, true
			}
		}
		return "", 0, false
	}
	for _, s := range g.cluster.Slots() {
		if s.Broker == id {
			n := live[int(s.K)%len(live)]
			return n.Host, n.BrokerPort(s.K), true
		}
	}
	g.cluster.RefreshImage()
	return "", 0, false
}

// coordinatorOf is the node to send clients of an own group to: the leader of its shard, or this node, which will wait
// for a leader.
func (g *Gateway) coordinatorOf(group string) (id int32, host string, port int32, ok bool) {
	if leader, known := g.coords.Leader(g.coords.Shard(group)); known {
		id = g.clientID(leader)
		if host, port, ok = g.addressOf(id); ok {
			return id, host, port, true
		}
	}
	live := g.live()
	if len(live) == 0 {
		return 0, "", 0, false
	}
	n := live[0]
	for _, other := range live {
		if other.ID == g.coords.Self() {
			n = other
		}
	}
	return g.clientID(n.ID), n.Host, n.ClientPort, true
}
