package topology

import (
	"fmt"
	"slices"
	"strings"
)

// InvalidTopology says why a topology can never run; it is answered as STREAMS_INVALID_TOPOLOGY.
type InvalidTopology struct{ Message string }

// Error implements error.
func (e *InvalidTopology) Error() string { return e.Message }

func invalidf(format string, args ...any) *InvalidTopology {
	return &InvalidTopology{Message: fmt.Sprintf(format, args...)}
}

// maxTopicName is the length limit of a topic name in bytes (org.apache.kafka.common.internals.Topic).
const maxTopicName = 249

// brokerTopics are Kafka's own topics, which no topology may touch.
var brokerTopics = []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}

// Validate checks what a topology must fulfil whatever topics exist: what Kafka's front end and service check (topic
// names, counts of changelogs), and the invariants of KIP-1071 that no client in use breaks. The error is an
// *InvalidTopology. Not checked: that a changelog is no source or repartition topic (an optimised topology uses
// them as such).
func Validate(t *Topology) error {
	if err := ValidateNames(t); err != nil {
		return err
	}
	if t.Epoch < 0 {
		return invalidf("Topology epoch %d is negative; it must be 0 or more.", t.Epoch)
	}
	ids := make(map[string]struct{}, len(t.Subtopologies))
	sources := make(map[string]string) // source topic -> subtopology id
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if _, ok := ids[s.ID]; ok {
			return invalidf("Subtopology id %s is used more than once; each subtopology needs an id of its own.", show(s.ID))
		}
		ids[s.ID] = struct{}{}
		for _, name := range s.SourceTopics {
			if _, ok := sources[name]; !ok {
				sources[name] = s.ID
			}
		}
	}
	if err := t.validatePatterns(); err != nil {
		return err
	}
	counts := make(map[string]int32) // repartition topic -> declared count
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if err := s.validateInternal(); err != nil {
			return err
		}
		if err := s.validateCopartition(); err != nil {
			return err
		}
		for _, r := range s.RepartitionSourceTopics {
			if id, ok := sources[r.Name]; ok {
				return invalidf("Repartition source topic %s of subtopology %s is also in SourceTopics of subtopology %s; "+
					"a repartition topic is named in RepartitionSourceTopics only.", show(r.Name), show(s.ID), show(id))
			}
			if n, ok := counts[r.Name]; ok && n != r.Partitions {
				return invalidf("Repartition source topic %s is declared with Partitions %d and %d; "+
					"all subtopologies that read it must declare the same.", show(r.Name), min(n, r.Partitions), max(n, r.Partitions))
			}
			counts[r.Name] = r.Partitions
		}
	}
	return nil
}

// ValidateCounts checks what [Configure] refuses whatever topics exist: subtopologies that read nothing, and repartition
// topics whose partition count no source gives. It wants a valid topology. The error is an *InvalidTopology.
func ValidateCounts(t *Topology) error {
	c := newCounts(t.withPatternsAsTopics(), anyTopics{})
	if err := c.decideRepartition(); err != nil {
		return err
	}
	for _, s := range c.subtopologies {
		if err := s.validateSources(); err != nil {
			return err
		}
	}
	return nil
}

// anyTopics has every topic.
type anyTopics struct{}

func (anyTopics) Topic(name string) (Topic, bool) { return Topic{Name: name, Partitions: 1}, true }
func (anyTopics) Names() []string                 { return nil }

func (s *Subtopology) validateSources() error {
	if len(s.SourceTopics)+len(s.SourceTopicRegex)+len(s.RepartitionSourceTopics) == 0 {
		return invalidf("Subtopology %s does not contain any source topics; "+
			"it needs at least one of SourceTopics, SourceTopicRegex or RepartitionSourceTopics.", show(s.ID))
	}
	return nil
}

// ValidateNames checks the names of all topics only, Kafka's own topics first, as Kafka's front end does before it looks at
// anything else of a request. The error is an *InvalidTopology.
func ValidateNames(t *Topology) error {
	var own, illegal []string
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		visit := func(name string) {
			if slices.Contains(brokerTopics, name) {
				own = append(own, name)
			} else if !validTopicName(name) {
				illegal = append(illegal, name)
			}
		}
		for _, list := range [...][]string{s.SourceTopics, s.RepartitionSinkTopics} {
			for _, name := range list {
				visit(name)
			}
		}
		for _, list := range [...][]InternalTopic{s.RepartitionSourceTopics, s.StateChangelogTopics} {
			for k := range list {
				visit(list[k].Name)
			}
		}
	}
	if len(own) > 0 {
		return invalidf("Use of Kafka internal topics %s in a Kafka Streams topology is prohibited.", list(own, ","))
	}
	if len(illegal) > 0 {
		return invalidf("Topic names %s are not valid topic names. A name has 1 to %d characters out of [a-zA-Z0-9._-] "+
			"and is neither \".\" nor \"..\".", list(illegal, ","), maxTopicName)
	}
	return nil
}

func validTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > maxTopicName {
		return false
	}
	for i := range len(name) {
		if !inTopicName(name[i]) {
			return false
		}
	}
	return true
}

func inTopicName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

func (s *Subtopology) validateInternal() error {
	for _, c := range s.StateChangelogTopics {
		if c.Partitions != 0 {
			return invalidf("Changelog topic %s must have an undefined partition count, but it is set to %d. "+
				"Partitions of StateChangelogTopics must be 0.", show(c.Name), c.Partitions)
		}
	}
	for _, r := range s.RepartitionSourceTopics {
		if r.Partitions < 0 {
			return invalidf("Repartition source topic %s of subtopology %s has Partitions %d; it must be 0 "+
				"(the coordinator decides) or more.", show(r.Name), show(s.ID), r.Partitions)
		}
	}
	for field, topics := range s.internalTopics() {
		seen := make(map[string]struct{}, len(topics))
		for _, it := range topics {
			if _, ok := seen[it.Name]; ok {
				return invalidf("%s of subtopology %s names topic %s more than once; each topic may be named once.",
					field, show(s.ID), show(it.Name))
			}
			seen[it.Name] = struct{}{}
			if key, ok := repeatedKey(it.Configs); ok {
				return invalidf("TopicConfigs of topic %s of subtopology %s set key %s more than once; each key may be set once.",
					show(it.Name), show(s.ID), show(key))
			}
		}
	}
	return nil
}

// internalTopics yields the lists of internal topics with their field names.
func (s *Subtopology) internalTopics() func(yield func(string, []InternalTopic) bool) {
	return func(yield func(string, []InternalTopic) bool) {
		_ = yield("RepartitionSourceTopics", s.RepartitionSourceTopics) &&
			yield("StateChangelogTopics", s.StateChangelogTopics)
	}
}

func repeatedKey(configs []Config) (string, bool) {
	seen := make(map[string]struct{}, len(configs))
	for _, c := range configs {
		if _, ok := seen[c.Key]; ok {
			return c.Key, true
		}
		seen[c.Key] = struct{}{}
	}
	return "", false
}

func (s *Subtopology) validateCopartition() error {
	for _, g := range s.CopartitionGroups {
		for _, f := range [...]struct {
			field   string
			indexes []int16
			size    int
		}{
			{"SourceTopics", g.SourceTopics, len(s.SourceTopics)},
			{"SourceTopicRegex", g.SourceTopicRegex, len(s.SourceTopicRegex)},
			{"RepartitionSourceTopics", g.RepartitionSourceTopics, len(s.RepartitionSourceTopics)},
		} {
			for _, i := range f.indexes {
				if int(i) < 0 || int(i) >= f.size {
					return invalidf("CopartitionGroups of subtopology %s has index %d into %s; it must be 0 or more and less than %d.",
						show(s.ID), i, f.field, f.size)
				}
			}
		}
	}
	return nil
}

// show limits what a message repeats of a client's string.
func show(s string) string {
	if len(s) <= maxTopicName {
		return s
	}
	return strings.ToValidUTF8(s[:maxTopicName], "") + "..."
}

// list joins the first names of a set in sorted order and counts the others, as Kafka's summarizeTopics does.
func list(names []string, separator string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if n := len(names) - maxListed; n > 0 {
		more = fmt.Sprintf(" and %d additional topics", n)
		names = names[:maxListed]
	}
	for i := range names {
		names[i] = show(names[i])
	}
	return strings.Join(names, separator) + more
}
