package topology

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed is how many topics or subtopologies a message names before it only counts.
const maxListed = 3

// subtopologyTopics are topics of one subtopology.
type subtopologyTopics struct {
	id     string
	topics []string
}

func allTopics(of []subtopologyTopics) (topics []string) {
	for _, s := range of {
		topics = append(topics, s.topics...)
	}
	return topics
}

// which says what subtopologies do with their topics, such as "Subtopology 0 reads a, b; subtopology 1 reads c".
func which(of []subtopologyTopics, verb string) string {
	var b strings.Builder
	for i, s := range of[:min(len(of), maxListed)] {
		word := "; subtopology"
		if i == 0 {
			word = "Subtopology"
		}
		fmt.Fprintf(&b, "%s %s %s %s", word, show(s.id), verb, list(s.topics, ", "))
	}
	if more := len(of) - maxListed; more > 0 {
		fmt.Fprintf(&b, "; and %d additional subtopologies", more)
	}
	return b.String()
}

// needsSame says who needs the topics of g to have one count.
func needsSame(g copartition) string {
	ids := make([]string, 0, maxListed)
	for _, id := range g.ids[:min(len(g.ids), maxListed)] {
		ids = append(ids, show(id))
	}
	who := "Subtopology " + ids[0] + " needs"
	if len(g.ids) > 1 {
		who = "Subtopologies " + strings.Join(ids, ", ")
		if more := len(g.ids) - maxListed; more > 0 {
			who = fmt.Sprintf("%s and %d additional ones", who, more)
		}
		who += " need"
	}
	return who + " the same number for " + list(g.topics, ", ") + "."
}

// differentCounts names topics with their counts as Kafka prints them; unlike Kafka's, the list is bounded. The topics
// named first are chosen such that different counts are seen.
func (c *counts) differentCounts(topics []string, g copartition) string {
	named := slices.Clone(topics[:min(len(topics), maxListed)])
	if len(topics) > maxListed && c.sameCount(named) {
		first, _ := c.count(named[0])
		other := slices.IndexFunc(topics, func(topic string) bool {
			n, _ := c.count(topic)
			return n != first
		})
		named[maxListed-1] = topics[other]
	}
	for i, topic := range named {
		n, _ := c.count(topic)
		named[i] = fmt.Sprintf("%s=%d", topic, n)
	}
	more := ""
	if n := len(topics) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d additional topics", n)
	}
	return "Following topics do not have the same number of partitions: [{" + strings.Join(named, ", ") + "}]" + more + ". " + needsSame(g)
}

// wrongCounts names internal topics that exist with another count than they need.
func (c *counts) wrongCounts(names []string, expected map[string]InternalTopic, subtopologies []ConfiguredSubtopology) error {
	slices.Sort(names)
	named := names[:min(len(names), maxListed)]
	what := roles(subtopologies, named)
	var b strings.Builder
	for i, name := range named {
		n, _ := c.exists(name)
		if i > 0 {
			b.WriteString(". ")
		}
		fmt.Fprintf(&b, "Existing topic %s has different number of partitions: expected %d, found %d (%s)",
			name, expected[name].Partitions, n, what[name])
	}
	if more := len(names) - maxListed; more > 0 {
		fmt.Fprintf(&b, " and %d additional topics", more)
	}
	b.WriteString(". Internal topics are not resized: delete such a topic, as a reset of the application does, and it is created with the expected number, without what it held.")
	return &Problem{IncorrectlyPartitionedTopics, b.String()}
}

// missingInternal names the topics that are to be created.
func missingInternal(create []InternalTopic, subtopologies []ConfiguredSubtopology) string {
	var names, details []string
	for i := range create {
		names = append(names, create[i].Name)
	}
	what := roles(subtopologies, names[:min(len(names), maxListed)])
	for i := range create[:min(len(create), maxListed)] {
		details = append(details, fmt.Sprintf("%s with %d partitions, %s", names[i], create[i].Partitions, what[names[i]]))
	}
	return "Internal topics are missing: " + list(names, ", ") + " (" + strings.Join(details, "; ") + ")"
}

// roles says what topics are for, such as "changelog of subtopology 0".
func roles(subtopologies []ConfiguredSubtopology, names []string) map[string]string {
	what := make(map[string]string, len(names))
	note := func(topics []InternalTopic, role, id string) {
		for i := range topics {
			if name := topics[i].Name; slices.Contains(names, name) && what[name] == "" {
				what[name] = role + " of subtopology " + show(id)
			}
		}
	}
	for i := range subtopologies {
		note(subtopologies[i].RepartitionSources, "repartition topic", subtopologies[i].ID)
		note(subtopologies[i].Changelogs, "changelog", subtopologies[i].ID)
	}
	return what
}

// tooManyTasks says how many tasks there are, and where most of them are.
func tooManyTasks(subtopologies []ConfiguredSubtopology, tasks int64) string {
	most := slices.MaxFunc(subtopologies, func(a, b ConfiguredSubtopology) int { return int(a.NumTasks) - int(b.NumTasks) })
	return fmt.Sprintf("The topology has %d tasks, one for each partition that a subtopology reads; at most %d are supported. "+
		"Subtopology %s has %d", tasks, MaxTasks, show(most.ID), most.NumTasks)
}
