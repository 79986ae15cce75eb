package devcluster

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/coordd/coordd/test/rig"
)

// ports returns the client port of the first node and the admin port of the first node of a cluster.
func ports(t *testing.T) (client, admin int) {
	t.Helper()
	admin, client, err := rig.DevPorts()
	if err != nil {
		t.Fatal(err)
	}
	return client, admin
}

func TestDevelopmentClusterServesAndKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	base, admin := ports(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for round := range 2 {
		c, err := Start(ctx, Options{Port: base, AdminPort: admin, DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Bootstrap(), ",")...))
		if err != nil {
			t.Fatal(err)
		}
		admin := kadm.NewClient(client)
		if round == 0 {
			if r, err := admin.CreateTopic(ctx, 3, 1, nil, "kept"); err != nil || r.Err != nil {
				t.Fatal(err, r.Err)
			}
		}
		topics, err := admin.ListTopics(ctx, "kept")
		if err != nil || len(topics["kept"].Partitions) != 3 {
			t.Fatalf("round %d: %v %v", round, topics, err)
		}
		var brokers kadm.BrokerDetails
		eventually(t, "each node shows all nodes", func() bool { // a node's replica may lag
			brokers, err = admin.ListBrokers(ctx)
			return err == nil && len(brokers) == 4
		})
		for _, b := range brokers {
			if int(b.Port) < base || int(b.Port) >= base+6 {
				t.Errorf("broker %d is shown at port %d, outside %d to %d", b.NodeID, b.Port, base, base+5)
			}
		}
		client.Close()
		if err := c.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPortsThatAreTakenAreTold(t *testing.T) {
	base, admin := ports(t)
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: base + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := Start(ctx, Options{Port: base, AdminPort: admin, DataDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("%v", err)
	}
}
