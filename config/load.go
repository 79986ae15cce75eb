package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/viper"
)

// Sources are where settings come from; the first of Set, Environ, File that has a setting wins.
type Sources struct {
	// Set holds "name=value" from the command line.
	Set []string
	// Environ holds "NAME=value" as os.Environ gives it; only COORDD_* is looked at.
	Environ []string
	// File is a YAML file, or empty for none.
	File string
}

// keyDelimiter keeps viper from taking the dots of flat names for nesting.
const keyDelimiter = "\x00"

// Load reads and checks the configuration of a node. Unused returns COORDD_* variables that are no setting: they are
// told, not refused, since container platforms inject variables of their own under a service's name.
func Load(src Sources) (node *Node, unused []string, err error) {
	v := viper.NewWithOptions(viper.KeyDelimiter(keyDelimiter))
	for _, s := range settings {
		v.SetDefault(s.Name, s.Default)
	}
	if err := readFile(v, src.File); err != nil {
		return nil, nil, err
	}
	unused = readEnvironment(v, src.Environ)
	for _, text := range src.Set {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, nil, &Error{Setting: text, Value: "", Allowed: "name=value", Why: "--set without '='"}
		}
		if _, known := lookup(name); !known {
			return nil, nil, unknown(name, value, "--set")
		}
		v.Set(name, value)
	}
	node, err = build(v)
	return node, unused, err
}

func readFile(v *viper.Viper, file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("configuration file %s does not exist", file)
	}
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", file, err)
	}
	defer func() { _ = f.Close() }()
	read := viper.NewWithOptions(viper.KeyDelimiter(keyDelimiter))
	read.SetConfigType("yaml")
	if err := read.ReadConfig(f); err != nil {
		return fmt.Errorf("configuration file %s is not YAML with one 'name: value' a line: %w", file, err)
	}
	for _, name := range sorted(read.AllKeys()) {
		if nested := strings.ReplaceAll(name, keyDelimiter, "."); nested != name {
			return &Error{Setting: nested, Value: fmt.Sprint(read.Get(name)), Why: "nested in file " + file,
				Allowed: "flat names, such as '" + nested + ": …' on one line"}
		}
		if _, known := lookup(name); !known {
			return unknown(name, fmt.Sprint(read.Get(name)), "file "+file)
		}
		v.SetDefault(name, read.Get(name))
	}
	return nil
}

func readEnvironment(v *viper.Viper, environ []string) (unused []string) {
	byEnv := map[string]string{}
	for _, s := range settings {
		byEnv[s.Env()] = s.Name
	}
	for _, text := range environ {
		variable, value, _ := strings.Cut(text, "=")
		if name, known := byEnv[variable]; known {
			v.Set(name, value)
		} else if strings.HasPrefix(variable, "COORDD_") {
			unused = append(unused, variable)
		}
	}
	return sorted(unused)
}

// reader turns texts into values and keeps the first error.
type reader struct {
	v   *viper.Viper
	err error
}

func (r *reader) text(name string) (Setting, string) {
	s, ok := lookup(name)
	if !ok {
		panic("config: " + name + " is not in the table of settings")
	}
	switch value := r.v.Get(name).(type) {
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = fmt.Sprint(item)
		}
		return s, strings.Join(items, ",")
	case nil:
		return s, ""
	default:
		return s, fmt.Sprint(value)
	}
}

func read[T any](r *reader, name string, parse func(Setting, string) (T, error)) T {
	s, text := r.text(name)
	value, err := parse(s, text)
	if err != nil && r.err == nil {
		r.err = err
	}
	return value
}

func (r *reader) int(name string) int64     { return read(r, name, Setting.parseInt) }
func (r *reader) int32(name string) int32   { return int32(r.int(name)) }
func (r *reader) string(name string) string { return read(r, name, Setting.parseString) }
func (r *reader) list(name string) []string { return read(r, name, Setting.parseList) }
func (r *reader) bool(name string) bool     { return read(r, name, Setting.parseBool) }

func build(v *viper.Viper) (*Node, error) {
	r := &reader{v: v}
	n := &Node{
		NodeID:               r.int32("node.id"),
		DataDir:              r.string("data.dir"),
		RaftListen:           r.string("raft.listen"),
		RaftAdvertised:       r.string("raft.advertised"),
		RaftPreset:           r.string("raft.preset"),
		ClientListen:         r.string("client.listen"),
		ClientAdvertisedHost: r.string("client.advertised.host"),
		BrokerPortBase:       int(r.int("broker.port.base")),
		BrokerPortStep:       int(r.int("broker.port.step")),
		AdminListen:          r.string("admin.listen"),
		NodeIDBase:           r.int32("coordinator.node.id.base"),
		UpstreamBootstrap:    r.list("upstream.bootstrap.servers"),
		UpstreamQuirks:       r.string("upstream.quirks"),
		Shards:               int(r.int("shards")),
		OffsetsStore:         r.string("offsets.store"),
		LogLevel:             r.string("log.level"),
		LogFormat:            r.string("log.format"),
		MaxRequestBytes:      int(r.int("socket.request.max.bytes")),
		MaxIdleMs:            int(r.int("connections.max.idle.ms")),
		MaxConnections:       int(r.int("max.connections")),
		RetentionMinutes:     r.int32("offsets.retention.minutes"),
		RetentionCheckMs:     r.int("offsets.retention.check.interval.ms"),
	}
	n.Streams = r.streams()
	n.Peers = r.peers()
	if r.err != nil {
		return nil, r.err
	}
	if n.RaftAdvertised == "" {
		n.RaftAdvertised = n.RaftListen
	}
	if err := n.check(); err != nil {
		return nil, err
	}
	return n, nil
}

func (r *reader) streams() Streams {
	s := Streams{
		Assignors:               r.list("group.streams.assignors"),
		MinSessionTimeoutMs:     r.int32("group.streams.min.session.timeout.ms"),
		MaxSessionTimeoutMs:     r.int32("group.streams.max.session.timeout.ms"),
		MinHeartbeatIntervalMs:  r.int32("group.streams.min.heartbeat.interval.ms"),
		MaxHeartbeatIntervalMs:  r.int32("group.streams.max.heartbeat.interval.ms"),
		MinAssignmentIntervalMs: r.int32("group.streams.min.assignment.interval.ms"),
		MaxAssignmentIntervalMs: r.int32("group.streams.max.assignment.interval.ms"),
		MinTaskOffsetIntervalMs: r.int32("group.streams.min.task.offset.interval.ms"),
		MaxStandbyReplicas:      r.int32("group.streams.max.standby.replicas"),
		MaxWarmupReplicas:       r.int32("group.streams.max.warmup.replicas"),
	}
	d := &s.Defaults
	d.SessionTimeoutMs = r.int32("group.streams.session.timeout.ms")
	d.HeartbeatIntervalMs = r.int32("group.streams.heartbeat.interval.ms")
	d.HeartbeatHoldMs = r.int32("group.streams.heartbeat.hold.ms")
	d.RebalanceHeartbeatIntervalMs = r.int32("group.streams.rebalance.heartbeat.interval.ms")
	d.DisconnectTimeoutMs = r.int32("group.streams.disconnect.timeout.ms")
	d.MaxSize = r.int32("group.streams.max.size")
	d.NumStandbyReplicas = r.int32("group.streams.num.standby.replicas")
	d.NumWarmupReplicas = r.int32("group.streams.num.warmup.replicas")
	d.InitialRebalanceDelayMs = r.int32("group.streams.initial.rebalance.delay.ms")
	d.AssignmentIntervalMs = r.int32("group.streams.assignment.interval.ms")
	d.TopologyGraceMs = r.int32("group.streams.topology.grace.ms")
	d.TaskOffsetIntervalMs = r.int32("group.streams.task.offset.interval.ms")
	d.AcceptableRecoveryLag = r.int("group.streams.acceptable.recovery.lag")
	d.RackAwareTags = r.list("group.streams.rack.aware.assignment.tags")
	d.RackAwareStrategy = r.string("group.streams.rack.aware.assignment.strategy")
	d.OffsetMetadataMaxBytes = r.int32("offset.metadata.max.bytes")
	d.TopologyUpdatePolicy = r.string("group.streams.topology.update.policy")
	d.TopologyFenceOlder = r.bool("group.streams.topology.fence.older")
	d.AssignorOffload = r.bool("group.streams.assignor.offload.enable")
	r.checkKafkaOnly()
	if len(s.Assignors) == 0 {
		if r.err == nil {
			setting, _ := lookup("group.streams.assignors")
			r.err = setting.errorf("", "the list is empty")
		}
		return s
	}
	d.AssignorName = s.Assignors[0]
	return s
}

// checkKafkaOnly refuses values of settings that are known for Kafka's sake and that coordd cannot do anything by.
func (r *reader) checkKafkaOnly() {
	if class := r.string("group.streams.topology.description.plugin.class"); class != "" && r.err == nil {
		r.err = &Error{Setting: "group.streams.topology.description.plugin.class", Value: class, Allowed: "nothing: coordd loads no classes"}
	}
	if list := r.list("group.coordinator.rebalance.protocols"); !slices.Contains(list, "streams") && r.err == nil {
		r.err = &Error{Setting: "group.coordinator.rebalance.protocols", Value: strings.Join(list, ","),
			Allowed: "a list with streams in it: coordd coordinates nothing else"}
	}
}

// peers reads either a YAML list of {id, raft, client} or the text form id=raft/client,…
func (r *reader) peers() []Peer {
	s, _ := lookup("peers")
	fail := func(value any, why string) []Peer {
		if r.err == nil {
			r.err = s.errorf(fmt.Sprint(value), why)
		}
		return nil
	}
	var peers []Peer
	if list, ok := r.v.Get("peers").([]any); ok {
		for _, item := range list {
			fields, ok := item.(map[string]any)
			if !ok {
				return fail(item, "")
			}
			var p Peer
			for name, value := range fields {
				text := fmt.Sprint(value)
				switch name {
				case "id":
					id, err := strconv.ParseInt(text, 10, 32)
					if err != nil || id < 0 {
						return fail(item, "id is not a number")
					}
					p.ID = int32(id)
				case "raft":
					p.Raft = text
				case "client":
					p.Client = text
				default:
					return fail(item, "unknown field "+name)
				}
			}
			peers = append(peers, p)
		}
		return peers
	}
	_, text := r.text("peers")
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		id, addresses, ok := strings.Cut(item, "=")
		number, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
		if !ok || err != nil || number < 0 {
			return fail(item, "")
		}
		raft, client, _ := strings.Cut(addresses, "/")
		peers = append(peers, Peer{ID: int32(number), Raft: raft, Client: client})
	}
	return peers
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
