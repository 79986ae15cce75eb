package gateway

import (
	"context"
	"iter"
	"math"
	"net"
	"time"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
)

// Coordinators are the shards as the gateway sees them from its node. All methods are safe for concurrent use, do not
// block and do not keep the strings that they are given.
type Coordinators interface {
	// Self is the id of this node.
	Self() int32
	// Shards is the number of shards.
	Shards() uint32
	// Shard is the shard that a group id belongs to.
	Shard(group string) uint32
	// Holds says whether this node's replica holds the group. Only the leader may say that a group does not exist; see
	// shard.HoldsRequest.
	Holds(group string) bool
	// Leader is the node that leads the shard, as far as this node knows.
	Leader(shard uint32) (node int32, ok bool)
	// LeaderChanged returns a channel that is closed at the next change of what Leader would say.
	LeaderChanged(shard uint32) <-chan struct{}
	// Submit gives a call to the shard. When this node does not lead it, the call completes with NOT_COORDINATOR.
	// The call's Done may be told before Submit returns. What the call's request aliases is valid until then.
	Submit(shard uint32, call *shard.Call)
	// LetGo tells a shard of this node that what is held for a connection must be answered; see shard.Holder.
	LetGo(shard uint32, holder *shard.Holder)
	// Gone tells a shard of this node that a connection ended. byClient is false when its client did not end it.
	Gone(shard uint32, holder *shard.Holder, byClient bool)
	// LedSince says whether this node leads the shard, or led it at some moment since.
	LedSince(shard uint32, since time.Time) bool
	// Groups are the groups of a shard that this node's replica holds, in any order.
	Groups(shard uint32) iter.Seq[GroupListing]
	// Position is up to where this node's replica of a shard holds the log.
	Position(shard uint32) uint64
	// AwaitPosition tells when the replica holds the log up to a position; false when that takes too long. done is told once,
	// on any goroutine.
	AwaitPosition(shard uint32, position uint64, done func(reached bool))
}

// SystemShard is the number under which [Coordinators.Leader] and LeaderChanged know the system shard.
const SystemShard = math.MaxUint32

// GroupConfigs are the settings that groups have of their own, kept in the system shard. All methods are safe for
// concurrent use and do not block. done is told once, on any goroutine; its last argument says that this node does not
// lead the system shard, or what else keeps it from answering.
type GroupConfigs interface {
	// Describe lists the settings of each group.
	Describe(groups []string, done func([][]config.GroupEntry, *coordinator.Error))
	// Alter changes settings, or only says whether it would. Each group has an answer of its own, nil for success, which
	// is told when the change is committed, with a position for Await. What is not known to be committed may be asked for
	// again.
	Alter(alterations []config.GroupAlteration, validateOnly bool, done func(refusals []*coordinator.Error, position uint64, err *coordinator.Error))
	// Await tells when this node acts by all that was altered up to a position, or that this takes too long.
	Await(position uint64, done func())
	// List are the groups that have settings of their own, by ascending id.
	List(done func([]string, *coordinator.Error))
}

// GroupListing is one group of a ListGroups answer.
type GroupListing struct {
	ID    string
	State streams.GroupState
}

// Node is one coordd node as it is shown to clients.
type Node struct {
	ID   int32
	Host string
	// ClientPort is the advertised port that stands for the node itself.
	ClientPort int32
	// BrokerPortBase and BrokerPortStep give the advertised port for the upstream broker of slot k: base + k*step.
	BrokerPortBase, BrokerPortStep int32
	// Live says that clients may be sent there.
	Live bool
}

// BrokerPort is the advertised port of this node that stands for the upstream broker of slot k.
func (n Node) BrokerPort(k int32) int32 { return n.BrokerPortBase + k*n.BrokerPortStep }

// Slot ties an upstream broker to its number among the broker ports; the tie is the same on all nodes and never
// changes.
type Slot struct {
	K      int32
	Broker int32
}

// Broker is one upstream broker.
type Broker struct {
	ID   int32
	Host string
	Port int32
}

// Image is an immutable picture of the upstream.
type Image interface {
	// ClusterID is the upstream's cluster id; ControllerID is -1 when there is none.
	ClusterID() string
	ControllerID() int32
	// Brokers are the live upstream brokers, ascending by id; the slice must not be changed.
	Brokers() []Broker
	TopicName(id [16]byte) (name string, ok bool)
	TopicID(name string) (id [16]byte, ok bool)
	// HasTopic says whether a topic exists; TopicID is false also where the upstream has no ids.
	HasTopic(name string) bool
}

// Cluster is what the gateway knows of the coordd nodes and of the upstream. All methods are safe for concurrent use and
// do not block; what they return is immutable.
type Cluster interface {
	// Nodes are all nodes ascending by id.
	Nodes() []Node
	// Slots are the numbered upstream brokers ascending by K, including those that are down.
	Slots() []Slot
	// Image is nil until the upstream has been seen once.
	Image() Image
	// Changed returns a channel that is closed at the next change of nodes, slots or image.
	Changed() <-chan struct{}
	// RefreshImage asks for a new image soon as to brokers, the topics that groups need, and the named ones: a client named
	// something that the image does not have. A name may be part of a request that is reused.
	RefreshImage(topics ...string)
	// RefreshTopics asks for a new image of all topics soon, which costs more: a client named a topic by an unknown id.
	RefreshTopics()
}

// Network is how the gateway reaches others.
type Network struct {
	// Listen opens a client port; the default is real TCP.
	Listen func(addr string) (net.Listener, error)
	// Dial connects to an upstream broker at host:port; the default is real TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// DialPeer connects to the hop listener of another node.
	DialPeer func(ctx context.Context, node int32) (net.Conn, error)
	// Away says whether a node is to be missed: it said that it stops, or this one does. Nil: none is.
	Away func(node int32) bool
	// Hops accepts the connections that other nodes made by DialPeer; nil without other nodes.
	Hops net.Listener
}
