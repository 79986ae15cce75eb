//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/test/rig"
)

// users and the one right that each has: on the groups of the test, or on the cluster.
var users = map[string]kmsg.ACLOperation{
	"nobody":         kmsg.ACLOperationUnknown,
	"describer":      kmsg.ACLOperationDescribe,
	"reader":         kmsg.ACLOperationRead,
	"deleter":        kmsg.ACLOperationDelete,
	"configreader":   kmsg.ACLOperationDescribeConfigs,
	"configwriter":   kmsg.ACLOperationAlterConfigs,
	"clusterconfigs": kmsg.ACLOperationDescribeConfigs,
	"all":            kmsg.ACLOperationAll,
}

const (
	password    = "let me in"
	rightsTopic = "in"
	onKafka     = "on-kafka" // a group of each side
	onCoordd    = "on-coordd"
	withSetting = "has-setting" // a group that only has settings
	askWithin   = 10 * time.Second
)

// TestRights compares what users with some rights and not others are told of the settings of groups, and of what they may do
// with a group: by a Kafka with users and StandardAuthorizer, and by coordd in front of it.
func TestRights(t *testing.T) {
	passwords := map[string]string{}
	for user := range users {
		passwords[user] = password
	}
	k, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: place(t), Nodes: 1, Heap: "512m", Users: passwords})
	if k != nil {
		t.Cleanup(k.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	kafka := k.Nodes[0]
	node := coorddForUsers(t, kafka)
	grant(t, kafka.Addr)
	for bootstrap, group := range map[string]string{kafka.SASL: onKafka, node: onCoordd} {
		member := rig.NewProbe(bootstrap, group, rightsTopic)
		member.Dial = func(addr string) (*rig.Conn, error) { return signIn(addr, "all", password) }
		if err := member.Settle(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		t.Run(user, func(t *testing.T) {
			theirs, ours := signedIn(t, kafka.SASL, user), signedIn(t, node, user)
			compare := func(name string, ask func(*testing.T, *rig.Conn, string) string) {
				want, got := ask(t, theirs, onKafka), ask(t, ours, onCoordd)
				if want != got {
					t.Errorf("%s: %s; Kafka says %s", name, got, want)
				}
				t.Logf("%s: %s", name, got)
			}
			for _, r := range asRights {
				compare(r.name, r.ask)
			}
			switch users[user] {
			case kmsg.ACLOperationDescribe, kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationAll: // may describe
				compare("StreamsGroupDescribe with operations", operationsOf)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		for _, addr := range []string{kafka.SASL, node} {
			conn, err := signIn(addr, "all", "wrong")
			conn.Close()
			if err == nil {
				t.Errorf("%s took a wrong password", addr)
			}
		}
	})
}

// coorddForUsers starts a node whose clients are passed on to the listener where users sign in, while its own work goes to
// the other one. It returns the node's address.
func coorddForUsers(t *testing.T, kafka *rig.KafkaNode) string {
	t.Helper()
	base, err := rig.FreePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(config.Sources{Set: []string{
		"data.dir=" + t.TempDir(), "client.listen=" + rig.Local(base), "raft.listen=" + rig.Local(base+1), "raft.advertised=" + rig.Local(base+1),
		"admin.listen=" + rig.Local(base+2), fmt.Sprintf("broker.port.base=%d", base+3), "upstream.bootstrap.servers=" + kafka.Addr, "shards=1",
		"group.streams.initial.rebalance.delay.ms=0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	parts := server.Parts{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == kafka.Addr {
			addr = kafka.SASL
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}}
	closed, err := server.UseUpstream(&parts, server.UpstreamOptions{Bootstrap: cfg.UpstreamBootstrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	node, err := server.Start(cfg, parts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := node.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := node.AwaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	return rig.Local(base)
}

// grant makes the topic and gives the users their rights.
func grant(t *testing.T, addr string) {
	t.Helper()
	conn, err := rig.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	topics := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = rightsTopic, 1, 1
	topics.Topics = append(topics.Topics, topic)
	if resp, err := conn.Do(topics, askWithin); err != nil || resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	acls := kmsg.NewPtrCreateACLsRequest()
	allow := func(user string, kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = kind, name, kmsg.ACLResourcePatternTypeLiteral
		c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+user, "*", op, kmsg.ACLPermissionTypeAllow
		acls.Creations = append(acls.Creations, c)
	}
	for user, op := range users {
		switch user {
		case "nobody":
			continue
		case "clusterconfigs":
			allow(user, kmsg.ACLResourceTypeCluster, "kafka-cluster", op)
			continue
		case "all":
			allow(user, kmsg.ACLResourceTypeCluster, "kafka-cluster", op)
		}
		for _, group := range []string{onKafka, onCoordd, withSetting} {
			allow(user, kmsg.ACLResourceTypeGroup, group, op)
		}
		allow(user, kmsg.ACLResourceTypeTopic, rightsTopic, kmsg.ACLOperationDescribe)
	}
	resp, err := conn.Do(acls, askWithin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.(*kmsg.CreateACLsResponse).Results {
		if r.ErrorCode != 0 {
			t.Fatal(rig.Code(r.ErrorCode))
		}
	}
}

func signedIn(t *testing.T, addr, user string) *rig.Conn {
	t.Helper()
	conn, err := signIn(addr, user, password)
	t.Cleanup(conn.Close)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func signIn(addr, user, password string) (*rig.Conn, error) {
	conn, err := rig.Dial(addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SignIn(user, password, askWithin); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s at %s: %w", user, addr, err)
	}
	return conn, nil
}

// asRights are requests that want rights, each with what is compared of its answer; group is the streams group of the side.
var asRights = []struct {
	name string
	ask  func(t *testing.T, conn *rig.Conn, group string) string
}{
	{"ListConfigResources of groups", func(t *testing.T, conn *rig.Conn, _ string) string {
		return listedTo(t, conn, int8(kmsg.ConfigResourceTypeGroupConfig))
	}},
	{"ListConfigResources of all", func(t *testing.T, conn *rig.Conn, _ string) string { return listedTo(t, conn) }},
	{"DescribeConfigs of a streams group", describedTo},
	{"DescribeConfigs of any name", func(t *testing.T, conn *rig.Conn, _ string) string { return describedTo(t, conn, withSetting) }},
	{"DescribeConfigs without rights on the name", func(t *testing.T, conn *rig.Conn, _ string) string { return describedTo(t, conn, "other") }},
	{"IncrementalAlterConfigs, streams.*", func(t *testing.T, conn *rig.Conn, group string) string {
		return alteredBy(t, conn, group, "streams.session.timeout.ms", "50000", false)
	}},
	{"IncrementalAlterConfigs, only validated", func(t *testing.T, conn *rig.Conn, group string) string {
		return alteredBy(t, conn, group, "streams.session.timeout.ms", "50000", true)
	}},
	{"IncrementalAlterConfigs, consumer.*", func(t *testing.T, conn *rig.Conn, group string) string {
		return alteredBy(t, conn, group, "consumer.session.timeout.ms", "50000", false)
	}},
	{"IncrementalAlterConfigs of a bad value", func(t *testing.T, conn *rig.Conn, group string) string {
		return alteredBy(t, conn, group, "streams.session.timeout.ms", "1", false)
	}},
	{"IncrementalAlterConfigs without rights on the name", func(t *testing.T, conn *rig.Conn, _ string) string {
		return alteredBy(t, conn, "other", "streams.session.timeout.ms", "50000", false)
	}},
	{"AlterConfigs", func(t *testing.T, conn *rig.Conn, _ string) string {
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, withSetting
		r.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "streams.session.timeout.ms", Value: kmsg.StringPtr("50000")}}
		req.Resources = append(req.Resources, r)
		res := told(t, conn, req).(*kmsg.AlterConfigsResponse).Resources[0]
		return refusal(res.ErrorCode, res.ErrorMessage)
	}},
}

// operationsOf is what the user may do on the group, as StreamsGroupDescribe says.
func operationsOf(t *testing.T, conn *rig.Conn, group string) string {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	g := told(t, conn, req).(*kmsg.StreamsGroupDescribeResponse).Groups[0]
	return fmt.Sprintf("%d, operations %b", g.ErrorCode, g.AuthorizedOperations)
}

func listedTo(t *testing.T, conn *rig.Conn, types ...int8) string {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = types
	resp := told(t, conn, req).(*kmsg.ListConfigResourcesResponse)
	return fmt.Sprintf("%s, some: %v", refusal(resp.ErrorCode, nil), len(resp.ConfigResources) > 0)
}

func describedTo(t *testing.T, conn *rig.Conn, group string) string {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, r)
	res := told(t, conn, req).(*kmsg.DescribeConfigsResponse).Resources[0]
	return fmt.Sprintf("%s, some: %v", refusal(res.ErrorCode, res.ErrorMessage), len(res.Configs) > 0)
}

func alteredBy(t *testing.T, conn *rig.Conn, group, name, value string, validateOnly bool) string {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}}
	req.Resources = append(req.Resources, r)
	res := told(t, conn, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	return refusal(res.ErrorCode, res.ErrorMessage)
}

func told(t *testing.T, conn *rig.Conn, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp, err := conn.Do(req, askWithin)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const invalidConfig = 40

// refusal is an error code with its message; of a bad value coordd says more.
func refusal(code int16, message *string) string {
	if message == nil || code == invalidConfig {
		return fmt.Sprint(code)
	}
	return fmt.Sprintf("%d %q", code, *message)
}
