package streams

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/topology"
)

// Missing are the internal topics that are to be created, also while the group goes on without them.
func (c *ConfiguredTopics) Missing() []topology.InternalTopic { return c.Found.Create }

// ExistingInternalTopics are the internal topics of a configured topology that exist and for which it asks for configs or a
// replication factor. A source topic that doubles as a changelog is none: it is the user's.
func ExistingInternalTopics(c *topology.Configured) (topics []topology.InternalTopic) {
	skip := map[string]struct{}{}
	for i := range c.Create {
		skip[c.Create[i].Name] = struct{}{}
	}
	for i := range c.Subtopologies {
		for _, name := range c.Subtopologies[i].SourceTopics {
			skip[name] = struct{}{}
		}
	}
	for i := range c.Subtopologies {
		for _, list := range [...][]topology.InternalTopic{c.Subtopologies[i].RepartitionSources, c.Subtopologies[i].Changelogs} {
			for _, t := range list {
				if _, no := skip[t.Name]; no || len(t.Configs) == 0 && t.ReplicationFactor <= 0 {
					continue
				}
				skip[t.Name] = struct{}{}
				topics = append(topics, t)
			}
		}
	}
	return topics
}

// maxListedErrors is how many topics with creation errors a status detail names, as in Kafka.
const maxListedErrors = 3

// creationFailed stands in a status detail between the topics that are missing and what failed of their creation.
const creationFailed = "; creation failed: "

// creationErrors says why topics that are to be created could not be created so far. Topics with the same reason, one
// after the other, share it.
func creationErrors(env *Env, c *topology.Configured) string {
	if env.CreationErrors == nil {
		return ""
	}
	var text strings.Builder
	failed, last := 0, ""
	for i := range c.Create {
		topic := c.Create[i].Name
		reason := env.CreationErrors(topic)
		if reason == "" {
			continue
		}
		if failed++; failed > maxListedErrors {
			continue
		}
		switch last {
		case "":
			text.WriteString(creationFailed)
		case reason:
			text.WriteString(", ")
		default:
			text.WriteString(" (" + last + "), ")
		}
		text.WriteString(topic)
		last = reason
	}
	if failed == 0 {
		return ""
	}
	text.WriteString(" (" + last + ")")
	if more := failed - maxListedErrors; more > 0 {
		fmt.Fprintf(&text, " and %d additional topics", more)
	}
	text.WriteString(".")
	return text.String()
}

// creationTold is a number for what a status detail says of failed creation; 0 when it says nothing.
func creationTold(detail string) uint32 {
	i := strings.Index(detail, creationFailed)
	if i < 0 {
		return 0
	}
	sum := uint32(2166136261) // FNV-1a
	for _, b := range []byte(detail[i:]) {
		sum = (sum ^ uint32(b)) * 16777619
	}
	return max(sum, 1)
}
