package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/web"
)

// resetTarget says where offsets are reset to, as given by flags.
type resetTarget struct {
	earliest, latest         bool
	offset, shift            int64
	datetime, duration, file string

	kind   string // the flag that was given, without the dashes
	timeMs int64  // of to-datetime and by-duration; else web.NoOffset
	saved  map[partitionKey]int64
}

// partitionKey names a partition.
type partitionKey struct {
	topic     string
	partition int32
}

func (k partitionKey) String() string {
	return fmt.Sprintf("partition %d of topic %s", k.partition, k.topic)
}

var resetKinds = []string{"to-earliest", "to-latest", "to-offset", "to-datetime", "by-duration", "shift-by", "from-file"}

// read finds out which flag says where to, and what it says.
func (r *resetTarget) read(given func(flag string) bool, group string) error {
	r.timeMs = web.NoOffset
	for _, kind := range resetKinds {
		if !given(kind) {
			continue
		}
		if r.kind != "" {
			return &exitError{exitUsage, fmt.Sprintf("--%s and --%s contradict each other; give one of them", r.kind, kind)}
		}
		r.kind = kind
	}
	var err error
	switch r.kind {
	case "":
		return &exitError{exitUsage, "say where to: one of --" + strings.Join(resetKinds, ", --")}
	case "to-earliest", "to-latest":
		if !r.earliest && !r.latest {
			return refuseReset("--"+r.kind, "false", "true, or leave it out")
		}
	case "to-offset":
		if r.offset < 0 {
			return refuseReset("--to-offset", strconv.FormatInt(r.offset, 10), "0 or more")
		}
	case "to-datetime":
		if r.timeMs, err = parseDatetime(r.datetime); err != nil {
			return refuseReset("--to-datetime", r.datetime, "a time since 1970 as 2006-01-02T15:04:05.000, which is UTC, or with Z, +02, +0200 or +02:00 behind")
		}
	case "by-duration":
		d, err := parseDuration(r.duration)
		if err != nil {
			return refuseReset("--by-duration", r.duration, "a duration as P1DT2H30M or 2h30m, up to the year 1970")
		}
		if r.timeMs = time.Now().Add(-d).UnixMilli(); r.timeMs < 0 {
			return refuseReset("--by-duration", r.duration, "a duration as P1DT2H30M or 2h30m, up to the year 1970")
		}
	case "from-file":
		r.saved, err = readOffsetsFile(r.file, group)
	}
	return err
}

// parseDatetime reads a time as Kafka's tools do (Utils.getDateTime): without a zone it is UTC.
func parseDatetime(text string) (ms int64, err error) {
	_, clock, ok := strings.Cut(text, "T")
	if !ok {
		return 0, errors.New("no T between date and time")
	}
	if !strings.ContainsAny(clock, "+-Z") {
		text += "Z"
	}
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07"} {
		if t, err := time.Parse(layout, text); err == nil && t.UnixMilli() >= 0 {
			return t.UnixMilli(), nil
		}
	}
	return 0, errors.New("no time since 1970")
}

var isoDuration = regexp.MustCompile(`(?i)^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?$`)

// parseDuration reads a duration as Kafka's tools do (java.time.Duration.parse), or as Go writes it.
func parseDuration(text string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(text)
	if m == nil {
		d, err := time.ParseDuration(text)
		if err == nil && d < 0 {
			err = errors.New("negative")
		}
		return d, err
	}
	if strings.Join(m[1:], "") == "" || strings.HasSuffix(strings.ToUpper(text), "T") {
		return 0, errors.New("no number")
	}
	total := 0.0
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] != "" {
			n, err := strconv.ParseFloat(m[i+1], 64)
			if err != nil {
				return 0, err
			}
			total += n * float64(unit)
		}
	}
	if total > float64(200*365*24*time.Hour) {
		return 0, errors.New("too long")
	}
	return time.Duration(total), nil
}

// resetScope is which partitions are reset, by topic: nil for all of a topic. A nil scope is all source topics.
type resetScope map[string][]int32

// parseScope reads topic and topic:partition,partition.
func parseScope(topics []string) (resetScope, error) {
	var scope resetScope
	for _, text := range topics {
		name, numbers, some := strings.Cut(text, ":")
		if name == "" || some && numbers == "" {
			return nil, refuseReset("--topic", text, "topic, or topic:partition,partition")
		}
		if _, twice := scope[name]; twice {
			return nil, refuseReset("--topic", text, "each topic once")
		}
		if scope == nil {
			scope = resetScope{}
		}
		scope[name] = nil
		for number := range strings.SplitSeq(numbers, ",") {
			if !some {
				break
			}
			n, err := strconv.ParseInt(number, 10, 32)
			if err != nil || n < 0 {
				return nil, refuseReset("--topic", text, "topic, or topic:partition,partition")
			}
			scope[name] = append(scope[name], int32(n))
		}
	}
	return scope, nil
}

// resetPlan is what a reset changes, or has changed.
type resetPlan struct {
	Group   string `json:"group"`
	State   string `json:"state"`
	Members int    `json:"members"`
	Store   string `json:"store"`
	// Executed says that the offsets were changed, Exported is the file with those of before.
	Executed   bool            `json:"executed"`
	Exported   string          `json:"exported,omitempty"`
	Notes      []string        `json:"notes"`
	Partitions []web.NewOffset `json:"partitions"`
}

// changes are the partitions that get another offset.
func (p *resetPlan) changes() []web.NewOffset {
	return slices.DeleteFunc(slices.Clone(p.Partitions), func(o web.NewOffset) bool { return o.Before == o.Offset })
}

// planReset computes the new offsets of a group.
func planReset(g *web.GroupOffsets, scope resetScope, target *resetTarget) (*resetPlan, error) {
	plan := &resetPlan{Group: g.Group, State: g.State, Members: g.Members, Store: g.Store, Notes: []string{}, Partitions: []web.NewOffset{}}
	if g.Members > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("the group has %s: stop the app before --execute", plural(g.Members, "member")))
	}
	chosen, err := chosenPartitions(g, scope, target)
	if err != nil {
		return nil, err
	}
	for _, p := range chosen {
		offset, note, err := target.of(p)
		if err != nil {
			return nil, err
		}
		if note != "" {
			plan.Notes = append(plan.Notes, note)
		}
		plan.Partitions = append(plan.Partitions, web.NewOffset{Topic: p.Topic, Partition: p.Partition, Before: p.Committed, Offset: offset})
	}
	plan.Notes = append(plan.Notes, g.Notes...)
	if len(plan.changes()) == 0 {
		return plan, nil
	}
	if g.TopologyEpoch < 0 {
		plan.Notes = append(plan.Notes, untoldTopology(g, scope, chosen))
	}
	if g.Stateful || g.TopologyEpoch < 0 {
		plan.Notes = append(plan.Notes, "state stores and their changelogs stay as they are: what is read again is processed again on that state")
	}
	if unread(g, chosen) {
		plan.Notes = append(plan.Notes, "repartition topics hold records that are not processed yet; their offsets stay, and the app goes on with these records")
	}
	return plan, nil
}

// unread says whether repartition topics that are not reset hold records that no task has processed.
func unread(g *web.GroupOffsets, chosen []*web.PartitionOffsets) bool {
	for i := range g.Partitions {
		p := &g.Partitions[i]
		if (p.Kind == "repartition" || p.Kind == "other" && internalTopic(g.Group, p.Topic)) && !slices.Contains(chosen, p) && p.End > max(p.Committed, p.Start) {
			return true
		}
	}
	return false
}

// untoldTopology says what was gone by in place of a topology.
func untoldTopology(g *web.GroupOffsets, scope resetScope, chosen []*web.PartitionOffsets) string {
	text := "coordd does not know the topology of " + g.Group + " yet, which its first member brings"
	var left []string
	for i := range g.Partitions {
		p := &g.Partitions[i]
		if !slices.Contains(chosen, p) && internalTopic(g.Group, p.Topic) && !slices.Contains(left, p.Topic) {
			left = append(left, p.Topic)
		}
	}
	if scope != nil {
		return text
	}
	if len(left) == 0 {
		return text + ": these are all topics with a committed offset; --topic names some of them"
	}
	return text + ": these are all topics with a committed offset but those with the names of internal topics (" + strings.Join(left, ", ") + "), which stay as they are; --topic names others"
}

var foreignKeyTopic = regexp.MustCompile(`.+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic$`)

// internalTopic says whether a topic has the name of an internal one of the group, as Kafka's reset tool infers it
// (StreamsResetter.isInferredInternalTopic).
func internalTopic(group, topic string) bool {
	if !strings.HasPrefix(topic, group+"-") {
		return false
	}
	for _, end := range []string{"-changelog", "-repartition", "-subscription-registration-topic", "-subscription-response-topic"} {
		if strings.HasSuffix(topic, end) {
			return true
		}
	}
	return foreignKeyTopic.MatchString(topic)
}

// chosenPartitions are those that are to be reset, each once.
func chosenPartitions(g *web.GroupOffsets, scope resetScope, target *resetTarget) ([]*web.PartitionOffsets, error) {
	known := map[partitionKey]*web.PartitionOffsets{}
	var chosen []*web.PartitionOffsets
	var topics []string
	sources := slices.ContainsFunc(g.Partitions, func(p web.PartitionOffsets) bool { return p.Kind == "source" })
	for i := range g.Partitions {
		p := &g.Partitions[i]
		key := partitionKey{p.Topic, p.Partition}
		if known[key] != nil {
			continue
		}
		known[key] = p
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
		if target.includes(g.Group, scope, p, sources) {
			chosen = append(chosen, p)
		}
	}
	for key := range target.saved {
		if _, in := scope[key.topic]; known[key] == nil && (scope == nil || in) {
			return nil, fmt.Errorf("%s stands in %s, but is not one that group %q reads or has an offset of (topics: %s)", key, target.file, g.Group, strings.Join(topics, ", "))
		}
	}
	for topic, partitions := range scope {
		if !slices.Contains(topics, topic) {
			return nil, fmt.Errorf("topic %s is not one that group %q reads or has an offset of (topics: %s)", topic, g.Group, strings.Join(topics, ", "))
		}
		for _, p := range partitions {
			if known[partitionKey{topic, p}] == nil {
				return nil, fmt.Errorf("%s does not exist, or is not one that group %q reads", partitionKey{topic, p}, g.Group)
			}
		}
	}
	if len(chosen) == 0 && scope != nil && target.kind == "from-file" {
		return nil, &exitError{exitUsage, fmt.Sprintf("%s has no offset of what --topic names (it has those of %s)", target.file, savedTopics(target.saved))}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no partition to reset: group %q has no topology and no offsets of topics that are not internal, or its topics do not exist", g.Group)
	}
	return chosen, nil
}

// savedTopics names partitions as --topic does, three topics at most.
func savedTopics(saved map[partitionKey]int64) string {
	byTopic := map[string][]int32{}
	for key := range saved {
		byTopic[key.topic] = append(byTopic[key.topic], key.partition)
	}
	var names []string
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		if len(names) == 3 {
			names = append(names, fmt.Sprintf("%d more", len(byTopic)-len(names)))
			break
		}
		slices.Sort(byTopic[topic])
		name := topic
		for i, p := range byTopic[topic] {
			if i == 10 {
				name += ",…"
				break
			}
			name += map[bool]string{true: ":", false: ","}[i == 0] + strconv.Itoa(int(p))
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// includes says whether a partition is to be reset: one that is named, or else one of a source topic, or, of a group without a
// topology, any but of what has the name of an internal topic.
func (r *resetTarget) includes(group string, scope resetScope, p *web.PartitionOffsets, sources bool) bool {
	if r.kind == "from-file" {
		if _, named := r.saved[partitionKey{p.Topic, p.Partition}]; !named {
			return false
		}
	}
	if scope != nil {
		partitions, in := scope[p.Topic]
		return in && (partitions == nil || slices.Contains(partitions, p.Partition))
	}
	return r.kind == "from-file" || p.Kind == "source" || !sources && p.Kind == "other" && !internalTopic(group, p.Topic)
}

// of is the new offset of a partition, within its log, and what there is to say about it.
func (r *resetTarget) of(p *web.PartitionOffsets) (offset int64, note string, err error) {
	key := partitionKey{p.Topic, p.Partition}
	if r.kind == "from-file" && r.saved[key] == web.NoOffset {
		return web.NoOffset, "", nil
	}
	if p.Start < 0 || p.End < 0 {
		return 0, "", fmt.Errorf("where %s starts and ends is not known: %s; try again", key, orUnsaid(p.Problem))
	}
	switch r.kind {
	case "to-earliest":
		return p.Start, "", nil
	case "to-latest":
		return p.End, "", nil
	case "to-offset":
		offset = r.offset
	case "from-file":
		offset = r.saved[key]
	case "shift-by":
		if p.Committed < 0 {
			return 0, "", fmt.Errorf("%s has no committed offset that could be shifted", key)
		}
		offset = p.Committed + r.shift
	case "to-datetime", "by-duration":
		if p.AtTime == nil || *p.AtTime < 0 {
			return p.End, fmt.Sprintf("%s has no record of that time or later: its end is taken", key), nil
		}
		offset = *p.AtTime
	}
	switch {
	case offset < p.Start:
		return p.Start, fmt.Sprintf("%s starts at %d: that is taken instead of %d", key, p.Start, offset), nil
	case offset > p.End:
		return p.End, fmt.Sprintf("%s ends at %d: that is taken instead of %d", key, p.End, offset), nil
	}
	return offset, "", nil
}

func orUnsaid(problem string) string {
	if problem == "" {
		return "the Kafka cluster behind did not say"
	}
	return problem
}
