package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Kafka is a real Kafka cluster of one node or more, each broker and controller.
type Kafka struct {
	Nodes []*KafkaNode
}

// KafkaNode is one broker; ID counts from 1.
type KafkaNode struct {
	ID   int
	Addr string
	SASL string // where users sign in; empty without Users

	*Proc
	java *Java
	dir  string
	heap string
	full bool
}

// KafkaConfig says what to start.
type KafkaConfig struct {
	Java  *Java
	Dir   string
	Nodes int      // 1 or 3
	Heap  string   // of each node, such as 512m
	Lines []string // added to server.properties
	Full  bool     // all compiler tiers: for benchmarks
	// Users, when there are any, sign in by name and password (PLAIN) at a listener of its own, and have the rights that they
	// are given; whoever comes to the other one has all.
	Users map[string]string
}

const clusterID = "AAAAAAAAAAAAAAAAAAAAAA"

// StartKafka formats and starts the nodes and returns when each accepts connections.
func StartKafka(ctx context.Context, c KafkaConfig) (*Kafka, error) {
	base, err := FreePorts(3 * c.Nodes)
	if err != nil {
		return nil, err
	}
	k := &Kafka{}
	voters := make([]string, c.Nodes)
	for i := range c.Nodes {
		voters[i] = fmt.Sprintf("%d@%s", i+1, Local(base+c.Nodes+i))
	}
	for i := range c.Nodes {
		n := &KafkaNode{ID: i + 1, Addr: Local(base + i), java: c.Java, dir: filepath.Join(c.Dir, fmt.Sprintf("kafka-%d", i+1)), heap: c.Heap, full: c.Full}
		if len(c.Users) > 0 {
			n.SASL = Local(base + 2*c.Nodes + i)
		}
		if err := n.format(ctx, Local(base+c.Nodes+i), voters, c); err != nil {
			return nil, err
		}
		k.Nodes = append(k.Nodes, n)
	}
	for _, n := range k.Nodes { // three nodes need each other: start all, then wait
		if err := n.spawn(); err != nil {
			return k, err
		}
	}
	for _, n := range k.Nodes {
		if err := n.waitReady(); err != nil {
			return k, err
		}
	}
	return k, nil
}

func (n *KafkaNode) format(ctx context.Context, controller string, voters []string, c KafkaConfig) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	rf, isr := min(3, c.Nodes), min(2, c.Nodes)
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.ID),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", n.Addr, controller),
		"advertised.listeners=PLAINTEXT://" + n.Addr,
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs=" + filepath.Join(n.dir, "data"),
		"num.partitions=1",
		fmt.Sprintf("default.replication.factor=%d", rf),
		fmt.Sprintf("min.insync.replicas=%d", isr),
		fmt.Sprintf("offsets.topic.replication.factor=%d", rf),
		fmt.Sprintf("transaction.state.log.replication.factor=%d", rf),
		fmt.Sprintf("transaction.state.log.min.isr=%d", isr),
		"transaction.state.log.num.partitions=4",
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", rf),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", isr),
		"group.initial.rebalance.delay.ms=0",
	}
	if c.Nodes == 1 {
		lines = append(lines, "offsets.topic.num.partitions=4")
	}
	if n.SASL != "" {
		lines = append(lines, n.authorized(controller, c.Users)...)
	}
	lines = append(lines, c.Lines...)
	if err := os.WriteFile(n.properties(), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	argv := n.java.argv("256m", false, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.properties())
	_, err := run(ctx, nil, "", argv...)
	return err
}

// authorized are the settings of a broker with users and their rights.
func (n *KafkaNode) authorized(controller string, users map[string]string) []string {
	jaas := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, name := range slices.Sorted(maps.Keys(users)) {
		jaas += fmt.Sprintf(" user_%s=%q", name, users[name])
	}
	return []string{
		fmt.Sprintf("listeners=PLAINTEXT://%s,SASL://%s,CONTROLLER://%s", n.Addr, n.SASL, controller),
		fmt.Sprintf("advertised.listeners=PLAINTEXT://%s,SASL://%s", n.Addr, n.SASL),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN",
		"listener.name.sasl.plain.sasl.jaas.config=" + jaas + ";",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS",
	}
}

func (n *KafkaNode) properties() string { return filepath.Join(n.dir, "server.properties") }

func (n *KafkaNode) spawn() (err error) {
	n.Proc, err = start(command{
		name: fmt.Sprintf("kafka-%d", n.ID),
		log:  filepath.Join(n.dir, "kafka.log"),
		argv: n.java.argv(n.heap, n.full, "kafka.Kafka", n.properties()),
	})
	return err
}

func (n *KafkaNode) waitReady() error {
	return waitFor(n.Proc, time.Minute, func() error { return dialable(n.Addr) })
}

// Restart starts the node again over its data and returns when it accepts connections.
func (n *KafkaNode) Restart() error {
	if err := n.spawn(); err != nil {
		return err
	}
	return n.waitReady()
}

// Bootstrap lists the addresses of all nodes.
func (k *Kafka) Bootstrap() string {
	var addrs []string
	for _, n := range k.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return strings.Join(addrs, ",")
}

// Stop ends all nodes.
func (k *Kafka) Stop() {
	for _, n := range k.Nodes {
		if n.Proc != nil {
			n.Kill() // nothing of theirs is needed afterwards, and a clean stop of a lone controller takes long
		}
	}
}

func dialable(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// Kfake is franz-go's in-process Kafka as a process of its own.
type Kfake struct {
	*Proc
	addrs []string
}

// StartKfake starts bin, which is test/e2e/upstream, with its data below dir.
func StartKfake(bin, dir string, brokers int) (*Kfake, error) {
	port, err := FreePorts(brokers)
	if err != nil {
		return nil, err
	}
	k := &Kfake{}
	for i := range brokers {
		k.addrs = append(k.addrs, Local(port+i))
	}
	k.Proc, err = start(command{
		name: "kfake",
		log:  filepath.Join(dir, "kfake.log"),
		argv: []string{bin, "--port", fmt.Sprint(port), "--brokers", fmt.Sprint(brokers), "--data-dir", filepath.Join(dir, "kfake")},
	})
	if err != nil {
		return nil, err
	}
	return k, waitFor(k.Proc, 20*time.Second, func() error {
		var errs []error
		for _, a := range k.addrs {
			errs = append(errs, dialable(a))
		}
		return errors.Join(errs...)
	})
}

// Bootstrap lists the addresses of all brokers.
func (k *Kfake) Bootstrap() string { return strings.Join(k.addrs, ",") }

// Stop ends the process.
func (k *Kfake) Stop() { k.Kill() }
