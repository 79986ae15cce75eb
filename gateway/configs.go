package gateway

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// configs answers config requests. What is about topics and brokers goes to the upstream; coordd nodes as brokers have no
// configs; the settings of a group are its streams.* settings, which coordd keeps for every group id, and all others, which
// the upstream keeps. So it does not matter where a group lives, or whether it exists: a streams group has Kafka's settings
// of offsets, and a consumer group shows the streams settings that it never uses, as in Kafka.
func (c *conn) configs(h protocol.Header, body, frame []byte) error {
	req := kmsg.RequestForKey(h.Key)
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return protocol.ErrMalformed
	}
	switch r := req.(type) {
	case *kmsg.DescribeConfigsRequest:
		return c.describeConfigs(h, r, frame)
	case *kmsg.AlterConfigsRequest:
		return c.alterConfigs(h, alterAll{r}, frame)
	case *kmsg.IncrementalAlterConfigsRequest:
		return c.alterConfigs(h, alterSome{r}, frame)
	}
	return c.listConfigResources(h, req.(*kmsg.ListConfigResourcesRequest), frame)
}

// isNode says whether a config resource is a coordd node.
func (g *Gateway) isNode(typ kmsg.ConfigResourceType, name string) bool {
	if typ != kmsg.ConfigResourceTypeBroker {
		return false
	}
	id, err := strconv.ParseInt(name, 10, 32)
	return err == nil && int32(id) >= g.cfg.NodeIDBase
}

// nodePrefix begins the names of the settings that coordd's nodes go by, whatever the brokers behind are told.
const nodePrefix = "group." + config.GroupPrefix

// isGroup says whether a config resource is a group whose settings coordd keeps.
func (g *Gateway) isGroup(typ kmsg.ConfigResourceType) bool {
	return typ == kmsg.ConfigResourceTypeGroupConfig && g.cfg.GroupConfigs != nil
}

var (
	// Kafka answers INVALID_REQUEST, too, where a broker's setting cannot be changed while it runs.
	noBrokerConfigs = coordinator.Errorf(coordinator.InvalidRequest,
		"A coordd node's settings cannot be changed while it runs: change its configuration and restart it. Groups may have settings of their own (resource type GROUP).")
	nodeSettings = coordinator.Errorf(coordinator.InvalidRequest,
		"%s* are settings of coordd's nodes, which cannot be changed while they run: change the nodes' configuration and restart them. Groups may have settings of their own (resource type GROUP).", nodePrefix)
	resourceTwice     = coordinator.Errorf(coordinator.InvalidRequest, "Each resource must appear at most once.")
	groupNameEmpty    = coordinator.Errorf(coordinator.InvalidRequest, "Group name must not be empty")
	defaultGroupNames = coordinator.Errorf(coordinator.InvalidRequest, "Default group resources are not allowed.")
)

// unsupported says that the upstream does not know settings of groups, as brokers before Kafka 3.8 and, for AlterConfigs,
// kfake. Where nothing is asked of it but its consent, that is no refusal.
func unsupported(code int16) bool {
	return code == int16(coordinator.InvalidRequest) || code == int16(coordinator.UnsupportedVersion)
}

// resource is what config requests and their answers are about.
type resource struct {
	typ  kmsg.ConfigResourceType
	name string
}

// byResource puts the results of one request that came from several sides into the order of the request.
type byResource[T any] struct {
	order map[resource][]int
	taken map[resource]int // how many of a resource's places were looked at
	out   []T
	set   []bool
	more  []T
}

func newByResource[T any](resources []resource) *byResource[T] {
	b := &byResource[T]{
		order: make(map[resource][]int, len(resources)), taken: map[resource]int{},
		out: make([]T, len(resources)), set: make([]bool, len(resources)),
	}
	for i, r := range resources {
		b.order[r] = append(b.order[r], i)
	}
	return b
}

// at sets the result of the resource at a place in the request.
func (b *byResource[T]) at(i int, result T) { b.out[i], b.set[i] = result, true }

// add takes a result whose place is found by its resource.
func (b *byResource[T]) add(r resource, result T) {
	for places := b.order[r][b.taken[r]:]; len(places) > 0; places = places[1:] {
		b.taken[r]++
		if !b.set[places[0]] {
			b.at(places[0], result)
			return
		}
	}
	b.more = append(b.more, result)
}

// results are all results; a resource that nobody answered is left out.
func (b *byResource[T]) results() []T {
	out := b.out[:0:0]
	for i := range b.out {
		if b.set[i] {
			out = append(out, b.out[i])
		}
	}
	return append(out, b.more...)
}
