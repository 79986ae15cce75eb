package server

import (
	"slices"
	"sync"

	"github.com/coordd/coordd/gateway"
	"github.com/coordd/coordd/topicctl"
)

// cluster shows nodes, broker slots and the upstream to the gateway. It is made anew whenever the system shard or the
// upstream's image changes; readers take the pieces from one immutable value.
type cluster struct {
	node *Node

	mu      sync.Mutex
	view    clusterView
	changed chan struct{}
}

type clusterView struct {
	nodes []gateway.Node
	slots []gateway.Slot
	image gateway.Image
}

var _ gateway.Cluster = (*cluster)(nil)

func newCluster(n *Node) *cluster { return &cluster{node: n, changed: make(chan struct{})} }

// update takes over what the system shard and the watcher say now. It is called on any goroutine.
func (c *cluster) update() {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.node.system.replica.State()
	view := clusterView{}
	for id, n := range state.Nodes() {
		view.nodes = append(view.nodes, gateway.Node{
			ID: id, Host: n.ClientHost, ClientPort: int32(n.ClientPort),
			BrokerPortBase: int32(n.BrokerPortBase), BrokerPortStep: int32(n.BrokerPortStep), Live: n.Live,
		})
	}
	for id, s := range state.Slots() {
		view.slots = append(view.slots, gateway.Slot{K: s.Slot, Broker: id})
	}
	slices.SortFunc(view.slots, func(a, b gateway.Slot) int { return int(a.K - b.K) })
	if image := c.node.watcher.Image(); image.Version > 0 {
		view.image = newImageView(image)
	}
	c.view = view
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) current() clusterView {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Nodes implements gateway.Cluster.
func (c *cluster) Nodes() []gateway.Node { return c.current().nodes }

// Slots implements gateway.Cluster.
func (c *cluster) Slots() []gateway.Slot { return c.current().slots }

// Image implements gateway.Cluster.
func (c *cluster) Image() gateway.Image { return c.current().image }

// Changed implements gateway.Cluster.
func (c *cluster) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// RefreshImage implements gateway.Cluster.
func (c *cluster) RefreshImage(topics ...string) { c.node.watcher.RefreshNamed(topics...) }

// RefreshTopics implements gateway.Cluster.
func (c *cluster) RefreshTopics() { c.node.watcher.Refresh() }

// imageView shows a topicctl.Image to the gateway.
type imageView struct {
	image   *topicctl.Image
	brokers []gateway.Broker
}

func newImageView(image *topicctl.Image) imageView {
	v := imageView{image: image}
	for _, b := range image.Brokers {
		v.brokers = append(v.brokers, gateway.Broker{ID: b.ID, Host: b.Host, Port: b.Port})
	}
	return v
}

func (v imageView) ClusterID() string                    { return v.image.ClusterID }
func (v imageView) ControllerID() int32                  { return v.image.ControllerID }
func (v imageView) Brokers() []gateway.Broker            { return v.brokers }
func (v imageView) TopicName(id [16]byte) (string, bool) { return v.image.TopicName(id) }
func (v imageView) TopicID(name string) ([16]byte, bool) { return v.image.TopicID(name) }

func (v imageView) HasTopic(name string) bool {
	_, ok := v.image.Topic(name)
	return ok
}
