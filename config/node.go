package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/coordd/coordd/coordinator"
)

// Node is the checked configuration of one node.
type Node struct {
	NodeID               int32
	DataDir              string
	RaftListen           string
	RaftAdvertised       string
	RaftPreset           string
	Peers                []Peer
	ClientListen         string
	ClientAdvertisedHost string
	BrokerPortBase       int
	BrokerPortStep       int
	AdminListen          string
	NodeIDBase           int32
	UpstreamBootstrap    []string
	UpstreamQuirks       string
	Shards               int
	OffsetsStore         string
	LogLevel             string
	LogFormat            string
	MaxRequestBytes      int
	MaxIdleMs            int
	MaxConnections       int
	// RetentionMinutes is how long a group stays that has no members, and RetentionCheckMs how often that is looked at.
	RetentionMinutes int32
	RetentionCheckMs int64
	Streams          Streams
}

// Peer is one node of the cluster.
type Peer struct {
	ID int32
	// Raft is the address of its Raft port.
	Raft string
	// Client is the address of its port for Kafka clients.
	Client string
}

// Streams are the settings of streams groups on the level of the node, with the limits of a group's own settings.
type Streams struct {
	// Defaults are what a group uses unless it has settings of its own.
	Defaults coordinator.GroupSettings
	// Assignors are the names that groups may use; the first is the default.
	Assignors []string

	MinSessionTimeoutMs, MaxSessionTimeoutMs         int32
	MinHeartbeatIntervalMs, MaxHeartbeatIntervalMs   int32
	MinAssignmentIntervalMs, MaxAssignmentIntervalMs int32
	MinTaskOffsetIntervalMs                          int32
	MaxStandbyReplicas, MaxWarmupReplicas            int32
}

// check applies the relations between settings.
func (n *Node) check() error {
	s := &n.Streams
	d := &s.Defaults
	within := func(name string, value, low, high int32, limits ...string) error {
		if value < low || value > high {
			return &Error{Setting: name, Value: strconv.Itoa(int(value)),
				Allowed: fmt.Sprintf("%d to %d, by %s", low, high, strings.Join(limits, " and "))}
		}
		return nil
	}
	ordered := func(minName string, low int32, maxName string, high int32) error {
		if low > high {
			return &Error{Setting: maxName, Value: strconv.Itoa(int(high)), Allowed: fmt.Sprintf("%d or more, by %s", low, minName)}
		}
		return nil
	}
	relations := []error{
		ordered("group.streams.min.session.timeout.ms", s.MinSessionTimeoutMs, "group.streams.max.session.timeout.ms", s.MaxSessionTimeoutMs),
		ordered("group.streams.min.heartbeat.interval.ms", s.MinHeartbeatIntervalMs, "group.streams.max.heartbeat.interval.ms", s.MaxHeartbeatIntervalMs),
		ordered("group.streams.min.assignment.interval.ms", s.MinAssignmentIntervalMs, "group.streams.max.assignment.interval.ms", s.MaxAssignmentIntervalMs),
		within("group.streams.session.timeout.ms", d.SessionTimeoutMs, s.MinSessionTimeoutMs, s.MaxSessionTimeoutMs,
			"group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
		within("group.streams.heartbeat.interval.ms", d.HeartbeatIntervalMs, s.MinHeartbeatIntervalMs, s.MaxHeartbeatIntervalMs,
			"group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
		within("group.streams.assignment.interval.ms", d.AssignmentIntervalMs, s.MinAssignmentIntervalMs, s.MaxAssignmentIntervalMs,
			"group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
		within("group.streams.task.offset.interval.ms", d.TaskOffsetIntervalMs, s.MinTaskOffsetIntervalMs, maxInt32,
			"group.streams.min.task.offset.interval.ms"),
		within("group.streams.num.standby.replicas", d.NumStandbyReplicas, 0, s.MaxStandbyReplicas,
			"group.streams.max.standby.replicas"),
		within("group.streams.num.warmup.replicas", d.NumWarmupReplicas, 0, s.MaxWarmupReplicas,
			"group.streams.max.warmup.replicas"),
	}
	for _, err := range relations {
		if err != nil {
			return err
		}
	}
	if err := s.checkHeartbeats(); err != nil {
		return err
	}
	return n.checkAddresses()
}

// checkHeartbeats refuses time-outs that members could not keep by their heartbeats.
func (s *Streams) checkHeartbeats() error {
	d := &s.Defaults
	if d.HeartbeatIntervalMs >= s.MaxSessionTimeoutMs {
		return &Error{Setting: "group.streams.heartbeat.interval.ms", Value: strconv.Itoa(int(d.HeartbeatIntervalMs)),
			Allowed: fmt.Sprintf("less than every session timeout, so less than group.streams.max.session.timeout.ms, which is %d", s.MaxSessionTimeoutMs)}
	}
	if d.SessionTimeoutMs <= d.HeartbeatIntervalMs {
		return &Error{Setting: "group.streams.session.timeout.ms", Value: strconv.Itoa(int(d.SessionTimeoutMs)),
			Allowed: fmt.Sprintf("more than group.streams.heartbeat.interval.ms, which is %d, to %d, by group.streams.max.session.timeout.ms",
				d.HeartbeatIntervalMs, s.MaxSessionTimeoutMs)}
	}
	if least := 2 * int64(d.HeartbeatIntervalMs); d.DisconnectTimeoutMs != 0 && int64(d.DisconnectTimeoutMs) < least {
		allowed := fmt.Sprintf("0, or at least %d, two times group.streams.heartbeat.interval.ms", least)
		if least > maxInt32 {
			allowed = fmt.Sprintf("0, while group.streams.heartbeat.interval.ms is %d: two times that is more than this setting can be", d.HeartbeatIntervalMs)
		}
		return &Error{Setting: "group.streams.disconnect.timeout.ms", Value: strconv.Itoa(int(d.DisconnectTimeoutMs)), Allowed: allowed}
	}
	return nil
}

func (n *Node) checkAddresses() error {
	for _, a := range []struct{ name, value string }{
		{"raft.listen", n.RaftListen}, {"raft.advertised", n.RaftAdvertised},
		{"client.listen", n.ClientListen}, {"admin.listen", n.AdminListen},
	} {
		if err := checkAddress(a.name, a.value); err != nil {
			return err
		}
	}
	if len(n.UpstreamBootstrap) == 0 {
		return &Error{Setting: "upstream.bootstrap.servers", Value: "", Allowed: "host:port of at least one broker of the Kafka cluster behind"}
	}
	for _, address := range n.UpstreamBootstrap {
		if err := checkAddress("upstream.bootstrap.servers", address); err != nil {
			return err
		}
	}
	if err := n.checkAdvertised(); err != nil {
		return err
	}
	if err := n.checkBrokerPorts(); err != nil {
		return err
	}
	if err := n.checkDistinct(); err != nil {
		return err
	}
	if n.DataDir == "" {
		return &Error{Setting: "data.dir", Value: "", Allowed: "a folder that this node may write"}
	}
	return n.checkPeers()
}

// AdvertisedHost is the host that clients are told: client.advertised.host, else that of this node's client address in
// peers, else that of client.listen.
func (n *Node) AdvertisedHost() string {
	if n.ClientAdvertisedHost != "" {
		return n.ClientAdvertisedHost
	}
	for _, p := range n.Peers {
		if host, _, err := net.SplitHostPort(p.Client); p.ID == n.NodeID && err == nil && host != "" {
			return host
		}
	}
	host, _, _ := net.SplitHostPort(n.ClientListen)
	return host
}

// checkAdvertised refuses an address that clients on other machines cannot connect to.
func (n *Node) checkAdvertised() error {
	host := n.AdvertisedHost()
	raftHost, _, _ := net.SplitHostPort(n.RaftAdvertised)
	if len(n.Peers) > 1 && wildcard(raftHost) {
		return &Error{Setting: "raft.advertised", Value: n.RaftAdvertised, Why: "the other nodes cannot connect to it", Allowed: "an address at which the other nodes reach this one"}
	}
	if wildcard(host) {
		return &Error{Setting: "client.advertised.host", Value: n.ClientAdvertisedHost, Why: fmt.Sprintf("client.listen is %s, which clients cannot connect to", n.ClientListen),
			Allowed: "a host name or address at which clients reach this node"}
	}
	return nil
}

// wildcard says that a host stands for all addresses of a machine, which is no address to connect to.
func wildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// reservedBrokerPorts is how many broker ports are kept clear of this node's other ports.
const reservedBrokerPorts = 32

// checkBrokerPorts refuses other ports of this node among those that stand for upstream brokers.
func (n *Node) checkBrokerPorts() error {
	if last := n.BrokerPortBase + (reservedBrokerPorts-1)*n.BrokerPortStep; last > maxPort {
		return &Error{Setting: "broker.port.base", Value: strconv.Itoa(n.BrokerPortBase), Why: fmt.Sprintf("%d broker ports would reach %d", reservedBrokerPorts, last),
			Allowed: fmt.Sprintf("%d or less", maxPort-(reservedBrokerPorts-1)*n.BrokerPortStep)}
	}
	for _, a := range []struct{ name, value string }{{"client.listen", n.ClientListen}, {"raft.listen", n.RaftListen}, {"admin.listen", n.AdminListen}} {
		_, text, _ := net.SplitHostPort(a.value)
		port, _ := strconv.Atoi(text)
		if k := port - n.BrokerPortBase; k >= 0 && k%n.BrokerPortStep == 0 && k/n.BrokerPortStep < reservedBrokerPorts {
			return &Error{Setting: a.name, Value: a.value, Why: fmt.Sprintf("port %d stands for upstream broker %d (broker.port.base %d, step %d)", port, k/n.BrokerPortStep, n.BrokerPortBase, n.BrokerPortStep),
				Allowed: "a port outside the broker ports"}
		}
	}
	return nil
}

// checkDistinct refuses a port that two settings want to listen on.
func (n *Node) checkDistinct() error {
	listens := []struct{ name, value string }{{"client.listen", n.ClientListen}, {"raft.listen", n.RaftListen}, {"admin.listen", n.AdminListen}}
	for i, a := range listens {
		host, port, _ := net.SplitHostPort(a.value)
		for _, b := range listens[:i] {
			other, otherPort, _ := net.SplitHostPort(b.value)
			if port == otherPort && port != "0" && (host == other || wildcard(host) || wildcard(other)) {
				return &Error{Setting: a.name, Value: a.value, Why: fmt.Sprintf("%s is %s", b.name, b.value), Allowed: "a port that no other setting listens on"}
			}
		}
	}
	return nil
}

func checkAddress(name, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return &Error{Setting: name, Value: value, Allowed: "host:port with a port from 0 to 65535"}
	}
	return nil
}

func (n *Node) checkPeers() error {
	self := false
	ids, addresses := map[int32]bool{}, map[string]bool{}
	for _, p := range n.Peers {
		text := fmt.Sprintf("%d=%s/%s", p.ID, p.Raft, p.Client)
		switch {
		case ids[p.ID]:
			return &Error{Setting: "peers", Value: text, Allowed: "each id once"}
		case addresses[p.Raft]:
			return &Error{Setting: "peers", Value: text, Allowed: "each raft address once"}
		}
		if err := checkAddress("peers", p.Raft); err != nil {
			return err
		}
		if p.Client != "" {
			if err := checkAddress("peers", p.Client); err != nil {
				return err
			}
		}
		ids[p.ID], addresses[p.Raft] = true, true
		if p.ID == n.NodeID {
			self = true
			if p.Raft != n.RaftAdvertised {
				return &Error{Setting: "peers", Value: text, Allowed: fmt.Sprintf("for this node (node.id %d) its raft.advertised, which is %s", n.NodeID, n.RaftAdvertised)}
			}
		}
	}
	if len(n.Peers) > 0 && !self {
		return &Error{Setting: "node.id", Value: strconv.Itoa(int(n.NodeID)), Allowed: "one of the ids in peers"}
	}
	return nil
}
