//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// TestCreation has a real Kafka refuse internal topics for all kinds of reasons, and be away: groups wait and say why, nobody
// ends, there is no storm of attempts, and groups become stable by themselves when the reason is gone.
func TestCreation(t *testing.T) {
	dir := place(t)
	forbidding := filepath.Join(dir, "forbidding")
	kafka, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: dir, Nodes: 1, Heap: "512m", Lines: []string{
		"auto.create.topics.enable=false",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:nobody", "allow.everyone.if.no.acl.found=true",
		"create.topic.policy.class.name=io.coordd.e2e.NamePolicy", "io.coordd.e2e.policy.file=" + forbidding,
	}})
	if kafka != nil {
		t.Cleanup(kafka.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t, 1, kafka.Bootstrap(), dir)
	c := &creation{t: t, cluster: cluster, dir: dir, kafka: kafka, upstream: kadm.NewClient(client(t, kafka.Bootstrap()))}
	createSized(t, kafka.Bootstrap(), 8, "creation.in")
	forbid := func(yes bool) {
		if yes {
			err = os.WriteFile(forbidding, nil, 0o600)
		} else {
			err = os.Remove(forbidding)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	createTopics(t, cluster.Bootstrap(), "forbidden", "wordcount")
	forbid(true)
	c.denyCreate("denied")
	c.quota("coordd", 2)

	app := c.subject("forbidden")
	instance := app.start(t, "one", "wordcount", exactlyOnce)
	denied := c.member("denied", -1, "cleanup.policy=compact", 1)
	tall := c.member("tall", 3, "cleanup.policy=compact", 1)
	odd := c.member("odd", -1, "cleanup.policy=shred", 1)
	quota := c.member("quota", -1, "cleanup.policy=compact", 6) // 48 partitions, with a burst of 22

	app.problem(t, "MISSING_INTERNAL_TOPICS", "POLICY_VIOLATION", "begin with a team")
	denied.told("TOPIC_AUTHORIZATION_FAILED", "coordd's own principal", "CREATE on Topic denied-log-0 and on Cluster kafka-cluster")
	tall.told("INVALID_REPLICATION_FACTOR", "replication.factor")
	odd.told("INVALID_CONFIG", "shred")
	quota.stable() // by itself
	if log := cluster.Nodes[0].Log; !logs(t, log, "cannot create internal topics", "quota-log-", "THROTTLING_QUOTA_EXCEEDED", "controller_mutation_rate") {
		t.Errorf("%s does not tell of the quota", log)
	}
	c.fewAttempts()

	c.allowCreate()
	for _, m := range []*creating{tall, odd} { // what a person can do
		createSized(t, kafka.Bootstrap(), 8, m.name+"-log-0")
	}
	denied.stable()
	tall.stable()
	odd.stable()
	if log := cluster.Nodes[0].Log; !logs(t, log, "internal topic has other settings", "tall-log-0", "replication factor 1 instead of 3") {
		t.Errorf("%s does not tell how tall-log-0 differs", log)
	}
	forbid(false)
	runs(t, instance, tasksOf("wordcount"))
	verify(t, cluster.Bootstrap(), app.name, "wordcount", feed(t, cluster.Bootstrap(), app.name, "wordcount", 300, 300).wait(t), settled)

	// The upstream goes while a group waits, and the reason with it.
	forbid(true)
	later := c.member("forbidden-later", -1, "cleanup.policy=compact", 1)
	later.told("POLICY_VIOLATION")
	kafka.Nodes[0].Kill()
	gone := time.Now()
	forbid(false)
	later.told("UNREACHABLE", "does not answer")
	pause(t.Context(), 30*time.Second-time.Since(gone))
	if err := kafka.Nodes[0].Restart(); err != nil {
		t.Fatal(err)
	}
	later.stable()
	c.fewAttempts()
	for _, m := range []*creating{denied, tall, odd, quota} {
		m.stable()
	}
	runs(t, instance, tasksOf("wordcount"))
	unbroken(t, instance)
	if err := instance.Close(closeWithin); err != nil {
		t.Error(err)
	}
}

// creation is a cluster whose upstream refuses topics.
type creation struct {
	t        *testing.T
	cluster  *rig.Cluster
	kafka    *rig.Kafka
	upstream *kadm.Client
	dir      string
	began    time.Time
}

func (c *creation) subject(name string) *subject {
	boot := c.cluster.Bootstrap()
	return &subject{name: name, boot: boot, cluster: c.cluster, admin: kadm.NewClient(client(c.t, boot)), dir: c.dir}
}

// creating is a group with one member, which goes on by itself until the test ends.
type creating struct {
	*subject
	t *testing.T
}

// member makes a group whose subtopology has n changelogs that want a replication factor and a config.
func (c *creation) member(name string, rf int16, config string, n int) *creating {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	p := rig.NewProbe(c.cluster.Bootstrap(), name, "creation.in")
	p.Joining = func(r *kmsg.StreamsGroupHeartbeatRequest) {
		for i := range n {
			log := kmsg.NewTopicInfo()
			log.Topic, log.ReplicationFactor = fmt.Sprintf("%s-log-%d", name, i), rf
			cfg := kmsg.NewTopicInfoConfig()
			cfg.Key, cfg.Value, _ = strings.Cut(config, "=")
			log.Configs = append(log.Configs, cfg)
			r.Topology.Subtopologies[0].StateChangelogTopics = append(r.Topology.Subtopologies[0].StateChangelogTopics, log)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil {
			err = p.Beat(10 * time.Second)
			var code rig.Code
			if errors.As(err, &code) && !code.Retriable() {
				break
			}
			pause(ctx, 200*time.Millisecond)
			err = nil
		}
		ended <- err
	}()
	c.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			c.t.Errorf("the member of %s was ended: %v", name, err)
		}
	})
	return &creating{c.subject(name), c.t}
}

func (m *creating) told(words ...string) {
	m.t.Helper()
	m.problem(m.t, append([]string{"MISSING_INTERNAL_TOPICS", "; creation failed: " + m.name + "-log-"}, words...)...)
}

func (m *creating) stable() {
	m.t.Helper()
	m.waitTold(m.t, "Stable", func(g groupTold) bool {
		return g.State == "Stable" && g.Problem == "" && len(g.MemberList) == 1 && len(g.MemberList[0].Active) == 8
	})
}

// fewAttempts counts the requests to create topics: each of the refused groups is tried after half a second, one, two, four
// and then up to every ten, those that fail at the same time together.
func (c *creation) fewAttempts() {
	c.t.Helper()
	resp, err := http.Get("http://" + c.cluster.Nodes[0].Admin + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	const name = "coordd_internal_topic_creation_attempts_total "
	attempts := -1
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			attempts, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	lasted := time.Since(c.began)
	if most := 40 + int(lasted/(2*time.Second)); attempts < 5 || attempts > most {
		c.t.Errorf("%d attempts to create topics in %v, want 5 to %d", attempts, lasted, most)
	}
	c.t.Logf("%d attempts to create topics in %v", attempts, lasted.Round(time.Second))
}

// answered has the upstream do something.
func answered[R kmsg.Response](c *creation, req kmsg.Request) R {
	c.t.Helper()
	conn, err := rig.Dial(c.kafka.Nodes[0].Addr)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	resp, err := conn.Do(req, askWithin)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.(R)
}

// denyCreate takes the right from everybody to create topics whose names begin like this, on the topics and on the cluster.
func (c *creation) denyCreate(prefix string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, on := range []struct {
		kind    kmsg.ACLResourceType
		name    string
		pattern kmsg.ACLResourcePatternType
	}{
		{kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral},
		{kmsg.ACLResourceTypeTopic, prefix, kmsg.ACLResourcePatternTypePrefixed},
	} {
		for _, rule := range []struct {
			op    kmsg.ACLOperation
			allow kmsg.ACLPermissionType
		}{{kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow}, {kmsg.ACLOperationCreate, kmsg.ACLPermissionTypeDeny}} {
			r := kmsg.NewCreateACLsRequestCreation()
			r.ResourceType, r.ResourceName, r.ResourcePatternType = on.kind, on.name, on.pattern
			r.Principal, r.Host, r.Operation, r.PermissionType = "User:ANONYMOUS", "*", rule.op, rule.allow
			req.Creations = append(req.Creations, r)
		}
	}
	for _, r := range answered[*kmsg.CreateACLsResponse](c, req).Results {
		if r.ErrorCode != 0 {
			c.t.Fatal(rig.Code(r.ErrorCode))
		}
	}
}

// allowCreate gives the right back.
func (c *creation) allowCreate() {
	c.t.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	f.Operation, f.PermissionType = kmsg.ACLOperationCreate, kmsg.ACLPermissionTypeDeny
	req.Filters = append(req.Filters, f)
	if r := answered[*kmsg.DeleteACLsResponse](c, req).Results[0]; r.ErrorCode != 0 || len(r.MatchingACLs) != 2 {
		c.t.Fatalf("%+v", r)
	}
}

// quota limits the partitions that a client id may create each second.
func (c *creation) quota(clientID string, rate float64) {
	c.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "client-id", Name: &clientID}}
	e.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "controller_mutation_rate", Value: rate}}
	req.Entries = append(req.Entries, e)
	if r := answered[*kmsg.AlterClientQuotasResponse](c, req).Entries[0]; r.ErrorCode != 0 {
		c.t.Fatal(rig.Code(r.ErrorCode))
	}
}

// logs reports whether a line of a log has all words in it.
func logs(t *testing.T, file string, words ...string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if names(line, words...) {
			return true
		}
	}
	return false
}
