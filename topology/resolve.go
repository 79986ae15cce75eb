package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxSourceTopics is how many source topics a subtopology may come to have through its patterns, about as many as fit into
// a request by name.
const MaxSourceTopics = 20_000

// HasPatterns reports whether any subtopology reads topics by a pattern.
func (t *Topology) HasPatterns() bool {
	return slices.ContainsFunc(t.Subtopologies, func(s Subtopology) bool { return len(s.SourceTopicRegex) > 0 })
}

// Resolution is a topology with the topics that its patterns match in one view of the topics (KIP-1071, "Handling topic
// topology mismatches"). It is immutable, and depends on nothing but the topology and the names of the topics.
type Resolution struct {
	// Topology is as the client sent it. Resolved has in SourceTopics of its subtopologies, behind those that the client
	// sent, the other topics that their patterns match, sorted; it is Topology itself where there are no patterns.
	Topology, Resolved *Topology
	// matches has the topics, sorted, of each pattern.
	matches map[string][]string
}

// Resolve finds the topics that the patterns of t match. A pattern matches whole names. As with the pattern of a consumer's
// subscription, Kafka's own topics are never matched; nor are the internal topics of t, which would be read twice.
func Resolve(t *Topology, m Metadata) *Resolution { return (*Resolution)(nil).Resolve(t, m, 0) }

// Resolve is [Resolve] after old, which is what t was resolved to at an earlier version of m, or nil: of a [ChangeLog] only
// the names that changed since are looked at, and where nothing changed old itself is returned.
func (old *Resolution) Resolve(t *Topology, m Metadata, version uint64) *Resolution {
	if old != nil && old.Topology != t {
		old = nil
	}
	if !t.HasPatterns() {
		if old == nil {
			old = &Resolution{Topology: t, Resolved: t}
		}
		return old
	}
	r := &Resolution{Topology: t, matches: map[string][]string{}}
	skip := t.neverMatched()
	names, since := m.Names, false
	if log, ok := m.(ChangeLog); ok && old != nil {
		if changed, ok := log.ChangedSince(version); ok {
			names, since = func() []string { return changed }, true
		}
	}
	for i := range t.Subtopologies {
		for _, text := range t.Subtopologies[i].SourceTopicRegex {
			if _, ok := r.matches[text]; ok {
				continue
			}
			matched := match(text, names(), skip)
			if since {
				matched = update(old.matches[text], matched, m)
			}
			r.matches[text] = matched
		}
	}
	if old != nil && maps.EqualFunc(old.matches, r.matches, slices.Equal) {
		return old
	}
	r.Resolved = r.resolve()
	return r
}

// match are those of the names that a pattern matches. A pattern that nothing can be made of matches nothing; [Validate]
// refuses it.
func match(text string, names []string, skip map[string]struct{}) (matched []string) {
	p, err := compilePattern(text)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if p.match(name) {
			if _, ok := skip[name]; !ok {
				matched = append(matched, name)
			}
		}
	}
	return matched
}

// update is a sorted list of topics after those of another list came or went.
func update(before, changed []string, m Metadata) []string {
	if len(changed) == 0 {
		return before
	}
	slices.Sort(changed)
	now := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return contains(changed, name) })
	for _, name := range changed {
		if _, ok := m.Topic(name); ok {
			now = append(now, name)
		}
	}
	slices.Sort(now)
	return slices.Compact(now)
}

// resolve adds the matches to the source topics.
func (r *Resolution) resolve() *Topology {
	t := &Topology{Epoch: r.Topology.Epoch, Subtopologies: slices.Clone(r.Topology.Subtopologies)}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if matched := r.matched(s.SourceTopicRegex); len(matched) > 0 {
			named := sortedSet(s.SourceTopics)
			matched = slices.DeleteFunc(matched, func(name string) bool { return contains(named, name) })
			s.SourceTopics = append(slices.Clip(s.SourceTopics), matched...)
		}
	}
	return t
}

// matched are the topics that any of the patterns matches, sorted.
func (r *Resolution) matched(patterns []string) []string {
	var all []string
	for _, text := range patterns {
		all = append(all, r.matches[text]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Unmatched are the patterns of all subtopologies that match no topic, sorted.
func (r *Resolution) Unmatched() []string {
	patterns := []string{}
	for text, topics := range r.matches {
		if len(topics) == 0 {
			patterns = append(patterns, text)
		}
	}
	slices.Sort(patterns)
	return patterns
}

// unmatched are the patterns of s that match no topic, as they are shown.
func (r *Resolution) unmatched(s *Subtopology) (patterns []string) {
	for _, text := range s.SourceTopicRegex {
		if len(r.matches[text]) == 0 {
			patterns = append(patterns, showPattern(text))
		}
	}
	return patterns
}

// checkSize refuses more source topics than are supported, as a *Problem.
func (r *Resolution) checkSize() error {
	for i := range r.Resolved.Subtopologies {
		s, sent := &r.Resolved.Subtopologies[i], &r.Topology.Subtopologies[i]
		if n := len(s.SourceTopics) - len(sent.SourceTopics); n > MaxSourceTopics {
			return &Problem{IncorrectlyPartitionedTopics, fmt.Sprintf("The source topic patterns of subtopology %s match %d topics; "+
				"at most %d are supported.", show(s.ID), n, MaxSourceTopics)}
		}
	}
	return nil
}

// neverMatched are the topics that no pattern of t matches: Kafka's own, and what t declares as internal. A changelog topic
// that is also named as a source is the user's own, the source of an optimised table.
func (t *Topology) neverMatched() map[string]struct{} {
	names := make(map[string]struct{})
	for i := range t.Subtopologies {
		for _, topic := range t.Subtopologies[i].StateChangelogTopics {
			names[topic.Name] = struct{}{}
		}
	}
	for i := range t.Subtopologies {
		for _, name := range t.Subtopologies[i].SourceTopics {
			delete(names, name)
		}
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		for _, name := range s.RepartitionSinkTopics {
			names[name] = struct{}{}
		}
		for _, topic := range s.RepartitionSourceTopics {
			names[topic.Name] = struct{}{}
		}
	}
	for _, name := range brokerTopics {
		names[name] = struct{}{}
	}
	return names
}

// matchedOf are those of the names that patterns of t match.
func (t *Topology) matchedOf(names []string) map[string]struct{} {
	matched := map[string]struct{}{}
	if len(names) == 0 || !t.HasPatterns() {
		return matched
	}
	skip := t.neverMatched()
	for i := range t.Subtopologies {
		for _, text := range t.Subtopologies[i].SourceTopicRegex {
			for _, name := range match(text, names, skip) {
				matched[name] = struct{}{}
			}
		}
	}
	return matched
}

// mayMatch reports whether the topic is one that patterns of t may match.
func (t *Topology) mayMatch(topic string) bool {
	_, never := t.neverMatched()[topic]
	return !never
}

// matches reports whether a pattern of s matches the topic, which may still be one that no pattern reads.
func (s *Subtopology) matches(topic string) bool {
	return slices.ContainsFunc(s.SourceTopicRegex, func(text string) bool {
		p, err := compilePattern(text)
		return err == nil && p.match(topic)
	})
}

// withPatternsAsTopics has a source topic in place of each pattern: every pattern may come to match one.
func (t *Topology) withPatternsAsTopics() *Topology {
	if !t.HasPatterns() {
		return t
	}
	c := &Topology{Epoch: t.Epoch, Subtopologies: slices.Clone(t.Subtopologies)}
	for i := range c.Subtopologies {
		s := &c.Subtopologies[i]
		s.SourceTopics = slices.Concat(s.SourceTopics, s.SourceTopicRegex)
	}
	return c
}

// validatePatterns checks the patterns of all subtopologies.
func (t *Topology) validatePatterns() error {
	number, work := 0, 0
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if number += len(s.SourceTopicRegex); number > MaxPatterns {
			return invalidf("SourceTopicRegex of the subtopologies have more than %d patterns in all; at most so many are allowed.",
				MaxPatterns)
		}
		for _, text := range s.SourceTopicRegex {
			p, err := compilePattern(text)
			if err != nil {
				return invalidf("Pattern %s in SourceTopicRegex of subtopology %s cannot be used: %s.", showPattern(text), show(s.ID), err)
			}
			if work += p.work; work > maxPatternsWork {
				return invalidf("The patterns in SourceTopicRegex of the subtopologies are too complex together, with %s of subtopology %s "+
					"among them; use fewer repetitions and alternatives.", showPattern(text), show(s.ID))
			}
		}
	}
	return nil
}

// showPattern limits what a message repeats of a pattern, and keeps it on its line.
func showPattern(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, show(text))
}
