package topology

import "slices"

// ChangeLog is Metadata that remembers what changed from one of its versions to the next. What was worked out from an
// older version still holds when none of its topics changed since.
type ChangeLog interface {
	// ChangedSince returns the names of the topics that appeared, vanished or became different after the version. It
	// reports false when it does not know that any more, or when the names are too many to be looked at one by one.
	ChangedSince(version uint64) (names []string, ok bool)
}

// Unaffected reports whether m is known to say the same of every topic that t needs as it did at the version.
func Unaffected(t *Topology, m Metadata, version uint64) bool {
	log, ok := m.(ChangeLog)
	if !ok {
		return false
	}
	names, ok := log.ChangedSince(version)
	return ok && !slices.ContainsFunc(names, t.Concerns)
}

// Concerns reports whether the topic, there or not, can make a difference to how t is configured or to its metadata
// hash.
func (t *Topology) Concerns(topic string) bool {
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if s.Reads(topic) || s.matches(topic) || indexByName(s.StateChangelogTopics, topic) >= 0 || slices.Contains(s.RepartitionSinkTopics, topic) {
			return true
		}
	}
	return false
}
