package streams

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// TestScripts plays testdata/*.txt. The commands:
//
//	settings NAME=VALUE…                       group settings, durations as 3s; also policy=latest, fence=true, hold=true|false, tags=a,b, strategy=min_traffic,
//	                                           offsets=60s (task.offset.interval.ms), assignor=NAME (sticky, highly_available and auto assign from then on),
//	                                           fast=500ms (interval of members that cannot be held), holds=true|false
//	topic NAME PARTITIONS [id=ID]              create, grow, make anew or (0) delete an upstream topic
//	leaders TOPIC RACK…                        where the leaders of the topic's partitions are, - for nowhere
//	topology NAME [epoch=N]                    body: lines "sub ID sources=a,b regex=x.*,y repartition=r/4 sinks=s changelogs=c copartition=0,1,x0,r0"
//	assign [sticky]                            body: lines "MEMBER active=0_0,0_1 standby=… warmup=…" fix the assignor's answer
//	join|hb|leave|static-leave MEMBER [field=value…] [lost] [shutdown]
//	compute | take N                           run the job beside the shard; write up to N of the targets that it gave
//	gone MEMBER                                the connection of the member's last heartbeat ends
//	advance DURATION | failover [clock=BY] | describe | state | topics-changed | creation-error TOPIC TEXT
//	plan add=N threads=N remove=ID,… tags=k:v standbys=N warmups=N lag=N assignor=NAME  look at a change that is not made
//	abort | history                            take the last topology update back; show the topologies
//	image old|fresh                            whether the topics were read after what is decided now
//	numbers                                    show the records of partition counts of what follows
//	journal                                    show the journal records of what follows
//
// A member's fields (process, instance, rack, endpoint, tags, topology, rebalance, host, client, version) are remembered.
// The next leader's clock may be another one by a duration. "hb A owns" reports what A was told last; active=, standby= and warmup= report otherwise. Epochs are those that the
// member was told last unless epoch= is given; a lost response is not remembered.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt") // beside the corpora of fuzz and property tests
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { play(t, path) })
	}
}

func play(t *testing.T, path string) {
	s := &script{world: newWorld(), clients: map[string]*scriptClient{}, topologies: map[string]*topology.Topology{}}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		out, err := s.run(d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return out
	})
}

type script struct {
	*world
	journal    bool // journal records are shown
	numbers    bool // and those of partition counts
	clients    map[string]*scriptClient
	topologies map[string]*topology.Topology
}

// scriptClient is what a member of a script remembers.
type scriptClient struct {
	fields        map[string]string
	epoch         int32
	endpointEpoch int32
	owned         topology.Assignment
}

func (s *script) run(d *datadriven.TestData) (string, error) {
	args := map[string]string{}
	var words []string
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
			continue
		}
		args[a.Key] = strings.Join(a.Vals, ",")
	}
	switch d.Cmd {
	case "settings":
		return "", s.set(args)
	case "topic":
		n, err := strconv.Atoi(words[1])
		s.setTopic(words[0], int32(n))
		if id := args["id"]; id != "" { // another topic of the same name
			topic := s.topics[words[0]]
			copy(topic.ID[:], id)
			s.topics[words[0]] = topic
		}
		return "", err
	case "leaders":
		s.setLeaders(words[0], words[1:]...)
		return "", nil
	case "topology":
		return "", s.defineTopology(words[0], args, d.Input)
	case "assign":
		return "", s.fix(d.Input)
	case "join", "hb", "leave", "static-leave":
		return s.request(d.Cmd, words, args)
	case "advance":
		by, err := time.ParseDuration(words[0])
		if err != nil {
			return "", err
		}
		var out string
		err = s.advance(by.Milliseconds(), func(member string, d *Decision) {
			out += fmt.Sprintf("at %d timer of %s\n%s", s.now, cmpOr(member, "the group"), s.show(d, false))
		})
		return out + s.stateLine(), err
	case "failover":
		if by, ok := args["clock"]; ok {
			d, err := time.ParseDuration(by)
			if err != nil {
				return "", err
			}
			s.now += d.Milliseconds()
		}
		s.failover()
		return fmt.Sprintf("endpoint-epoch=%d delay-until=%d assignment-due=%d\n",
			s.soft.EndpointEpoch, s.soft.InitialDelayUntil, s.soft.AssignmentDue), nil
	case "topics-changed":
		env := s.env()
		dec := TopicsChanged(s.group(), s.soft, &env)
		if err := s.stand(&dec); err != nil {
			return "", err
		}
		return s.show(&dec, false) + s.stateLine(), nil
	case "compute":
		if s.compute(); s.computed == nil {
			return "nothing to compute\n", nil
		}
		return fmt.Sprintf("epoch %d, %d targets\n", s.computed.job.input.epoch, len(s.computed.records)), nil
	case "take":
		limit, err := strconv.Atoi(words[0])
		if err != nil || s.computed == nil {
			return "nothing to take\n", err
		}
		dec, err := s.take(limit)
		return s.show(&dec, false) + s.stateLine(), err
	case "abort":
		env := s.env()
		epoch := int32(0)
		if g := s.group(); g != nil {
			epoch = g.Topology.Epoch
		}
		dec, _, refused := AbortTopology(s.group(), s.soft, &env, testGroup, epoch)
		if refused != nil {
			return refused.Error() + "\n", nil
		}
		if err := s.stand(&dec); err != nil {
			return "", err
		}
		return s.show(&dec, false) + s.stateLine(), nil
	case "plan":
		return s.plan(args), nil
	case "history":
		return showHistory(s.group()), nil
	case "image":
		s.stale = words[0] == "old"
		return "", nil
	case "numbers":
		s.numbers = true
		return "", nil
	case "journal":
		s.journal = true
		return "", nil
	case "creation-error":
		s.failures[words[0]] = strings.Join(words[1:], " ")
		return "", nil
	case "gone":
		s.soft.Members[words[0]].Disconnected(s.now, &s.settings)
		return "", nil
	case "describe":
		return s.describe(), nil
	case "state":
		return s.stateLine(), nil
	}
	return "", fmt.Errorf("unknown command %s", d.Cmd)
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (s *script) set(args map[string]string) error {
	for k, v := range args {
		ms := int32(0)
		if by, err := time.ParseDuration(v); err == nil {
			ms = int32(by.Milliseconds())
		}
		n, _ := strconv.Atoi(v)
		switch k {
		case "session":
			s.settings.SessionTimeoutMs = ms
		case "delay":
			s.settings.InitialRebalanceDelayMs = ms
		case "grace":
			s.settings.TopologyGraceMs = ms
		case "interval":
			s.settings.AssignmentIntervalMs = ms
		case "standbys":
			s.settings.NumStandbyReplicas = int32(n)
		case "warmups":
			s.settings.NumWarmupReplicas = int32(n)
		case "lag":
			s.settings.AcceptableRecoveryLag = int64(n)
		case "assignor":
			s.settings.AssignorName = v
			if a := builtinAssignor(v); a != nil {
				s.assign = a
			}
		case "max":
			s.settings.MaxSize = int32(n)
		case "tags":
			s.settings.RackAwareTags = nil
			if v != "" {
				s.settings.RackAwareTags = strings.Split(v, ",")
			}
		case "strategy":
			s.settings.RackAwareStrategy = v
		case "hold":
			s.hold = v == "true"
		case "fast":
			s.settings.RebalanceHeartbeatIntervalMs = ms
		case "holds":
			s.mayHold, s.settings.HeartbeatHoldMs = v == "true", -1
		case "policy":
			s.settings.TopologyUpdatePolicy = v
		case "offsets":
			s.settings.TaskOffsetIntervalMs = ms
		case "fence":
			s.settings.TopologyFenceOlder = v == "true"
		case "offload":
			s.offloadFrom = n
		default:
			return fmt.Errorf("unknown setting %s", k)
		}
	}
	return nil
}

func builtinAssignor(name string) assignor.Assignor {
	for _, a := range []assignor.Assignor{assignor.Sticky(), assignor.HighlyAvailable(), assignor.Auto()} {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

func (s *script) defineTopology(name string, args map[string]string, body string) error {
	epoch, _ := strconv.Atoi(args["epoch"])
	t := &topology.Topology{Epoch: int32(epoch)}
	for line := range strings.Lines(body) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		sub := topology.Subtopology{ID: words[1]}
		for _, w := range words[2:] {
			k, v, _ := strings.Cut(w, "=")
			list := strings.Split(v, ",")
			switch k {
			case "sources":
				sub.SourceTopics = list
			case "regex":
				sub.SourceTopicRegex = list
			case "sinks":
				sub.RepartitionSinkTopics = list
			case "repartition":
				sub.RepartitionSourceTopics = internalTopics(list)
			case "changelogs":
				sub.StateChangelogTopics = internalTopics(list)
			case "copartition":
				var g topology.CopartitionGroup
				for _, i := range list {
					n, err := strconv.Atoi(strings.TrimLeft(i, "rx"))
					if err != nil {
						return err
					}
					switch i[0] {
					case 'r':
						g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(n))
					case 'x':
						g.SourceTopicRegex = append(g.SourceTopicRegex, int16(n))
					default:
						g.SourceTopics = append(g.SourceTopics, int16(n))
					}
				}
				sub.CopartitionGroups = append(sub.CopartitionGroups, g)
			default:
				return fmt.Errorf("unknown field %s of a subtopology", k)
			}
		}
		t.Subtopologies = append(t.Subtopologies, sub)
	}
	s.topologies[name] = t
	return nil
}

func internalTopics(list []string) (out []topology.InternalTopic) {
	for _, s := range list {
		name, count, _ := strings.Cut(s, "/")
		n, _ := strconv.Atoi(count)
		out = append(out, topology.InternalTopic{Name: name, Partitions: int32(n), ReplicationFactor: -1})
	}
	return out
}

func (s *script) fix(body string) error {
	if strings.TrimSpace(body) == "" {
		s.assign = assignor.Sticky()
		return nil
	}
	f := fixed{}
	for line := range strings.Lines(body) {
		words := strings.Fields(line)
		args := map[string]string{}
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			args[k] = v
		}
		f[words[0]] = topology.Assignment{
			Active: parseTasks(args["active"]), Standby: parseTasks(args["standby"]), Warmup: parseTasks(args["warmup"]),
		}
	}
	s.assign = f
	return nil
}

// parseTasks reads 0_0,0_1.
func parseTasks(text string) topology.Tasks {
	var b topology.TasksBuilder
	for _, w := range strings.Split(text, ",") {
		if sub, p, ok := strings.Cut(w, "_"); ok {
			n, _ := strconv.Atoi(p)
			b.Add(topology.Task{Subtopology: sub, Partition: int32(n)})
		}
	}
	set, _ := b.Build()
	return set
}

func parseOffsets(text string) []TaskOffset {
	out := []TaskOffset{}
	for _, w := range strings.Split(text, ",") {
		if task, v, ok := strings.Cut(w, ":"); ok {
			n, _ := strconv.ParseInt(v, 10, 64)
			for tt := range parseTasks(task).All() {
				out = append(out, TaskOffset{Task: tt, Offset: n})
			}
		}
	}
	return out
}

func (s *script) client(id string) *scriptClient {
	c := s.clients[id]
	if c == nil {
		c = &scriptClient{endpointEpoch: -1, fields: map[string]string{
			"process": "P" + id, "client": "c", "host": "/10.0.0.1", "topology": "t", "rebalance": "300s", "version": "1",
		}}
		s.clients[id] = c
	}
	return c
}

func (s *script) request(cmd string, words []string, args map[string]string) (string, error) {
	id := words[0]
	c := s.client(id)
	maps.Copy(c.fields, args)
	for _, once := range []string{"epoch", "active", "standby", "warmup", "offsets", "ends"} {
		delete(c.fields, once)
	}
	req := &HeartbeatRequest{
		GroupID: testGroup, MemberID: id, MemberEpoch: c.epoch, EndpointEpoch: c.endpointEpoch, RebalanceTimeoutMs: -1,
		InstanceID: optional(c.fields["instance"]), ShutdownApplication: slices.Contains(words, "shutdown"),
	}
	version, _ := strconv.Atoi(c.fields["version"])
	req.Version = int16(version)
	switch cmd {
	case "join":
		req.MemberEpoch = JoinEpoch
		s.fillJoin(req, c)
	case "leave":
		req.MemberEpoch = LeaveEpoch
	case "static-leave":
		req.MemberEpoch = StaticLeaveEpoch
	}
	s.fillReport(req, c, words, args)
	if e, ok := args["epoch"]; ok {
		n, err := strconv.Atoi(e)
		if err != nil {
			return "", err
		}
		req.MemberEpoch = int32(n)
	}
	d, err := s.heartbeat(req, &coordinator.Client{ID: c.fields["client"], Host: c.fields["host"]})
	if err != nil {
		return "", err
	}
	if !slices.Contains(words, "lost") && d.Reply.Err == nil {
		c.epoch = max(0, d.Reply.MemberEpoch)
		c.endpointEpoch = d.Reply.EndpointEpoch
		if d.Reply.Active != nil {
			c.owned = topology.Assignment{Active: d.Reply.Active, Standby: d.Reply.Standby, Warmup: d.Reply.Warmup}
		}
	}
	return s.show(&d, true) + s.stateLine(), nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *script) fillJoin(req *HeartbeatRequest, c *scriptClient) {
	by, _ := time.ParseDuration(c.fields["rebalance"])
	req.RebalanceTimeoutMs = int32(by.Milliseconds())
	req.Topology = s.topologies[c.fields["topology"]]
	req.Active, req.Standby, req.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
	req.ProcessID = optional(c.fields["process"])
	req.RackID = optional(c.fields["rack"])
	req.ClientTags = []record.KeyValue{}
	for _, t := range strings.Split(c.fields["tags"], ",") {
		if k, v, ok := strings.Cut(t, ":"); ok {
			req.ClientTags = append(req.ClientTags, record.KeyValue{Key: k, Value: v})
		}
	}
	if host, port, ok := strings.Cut(c.fields["endpoint"], ":"); ok {
		n, _ := strconv.Atoi(port)
		req.UserEndpoint = &record.Endpoint{Host: host, Port: uint16(n)}
	}
}

func (s *script) fillReport(req *HeartbeatRequest, c *scriptClient, words []string, args map[string]string) {
	if slices.Contains(words, "owns") {
		req.Active, req.Standby, req.Warmup = c.owned.Active.NonNil(), c.owned.Standby.NonNil(), c.owned.Warmup.NonNil()
	}
	_, active := args["active"]
	_, standby := args["standby"]
	_, warmup := args["warmup"]
	if active || standby || warmup {
		req.Active, req.Standby, req.Warmup = parseTasks(args["active"]).NonNil(), parseTasks(args["standby"]).NonNil(), parseTasks(args["warmup"]).NonNil()
	}
	if v, ok := args["offsets"]; ok {
		req.TaskOffsets = parseOffsets(v)
	}
	if v, ok := args["ends"]; ok {
		req.TaskEndOffsets = parseOffsets(v)
	}
}

func (s *script) stateLine() string { return fmt.Sprintf("= %s\n", StateOf(s.group())) }
