package record

import "github.com/coordd/coordd/topology"

// Smallest encodings of the parts of a topology.
const (
	minSubtopology = 8 // seven lengths, tagged section
	minTopic       = 9 // name, partitions, factor, configs, tagged section
	minCopartition = 4 // three lengths, tagged section
	minConfig      = 3 // key, value, tagged section
)

func (w *writer) topology(v *Topology) {
	w.int32(v.Epoch)
	w.array(len(v.Subtopologies))
	for i := range v.Subtopologies {
		w.subtopology(&v.Subtopologies[i])
	}
	w.noTags()
}

func (w *writer) subtopology(s *topology.Subtopology) {
	w.string(s.ID)
	w.strings(s.SourceTopics)
	w.strings(s.SourceTopicRegex)
	w.topics(s.StateChangelogTopics)
	w.strings(s.RepartitionSinkTopics)
	w.topics(s.RepartitionSourceTopics)
	w.array(len(s.CopartitionGroups))
	for i := range s.CopartitionGroups {
		g := &s.CopartitionGroups[i]
		w.int16s(g.SourceTopics)
		w.int16s(g.SourceTopicRegex)
		w.int16s(g.RepartitionSourceTopics)
		w.noTags()
	}
	w.noTags()
}

func (w *writer) topics(topics []topology.InternalTopic) {
	w.array(len(topics))
	for i := range topics {
		t := &topics[i]
		w.string(t.Name)
		w.int32(t.Partitions)
		w.int16(t.ReplicationFactor)
		w.array(len(t.Configs))
		for _, c := range t.Configs {
			w.string(c.Key)
			w.string(c.Value)
			w.noTags()
		}
		w.noTags()
	}
}

func (r *reader) topology() *Topology {
	v := new(Topology)
	v.Epoch = r.int32()
	if n := r.list(minSubtopology); n > 0 {
		v.Subtopologies = make([]topology.Subtopology, n)
	}
	for i := range v.Subtopologies {
		r.subtopology(&v.Subtopologies[i])
	}
	r.tags(nil)
	return v
}

func (r *reader) subtopology(s *topology.Subtopology) {
	s.ID = r.string()
	s.SourceTopics = r.strings()
	s.SourceTopicRegex = r.strings()
	s.StateChangelogTopics = r.topics()
	s.RepartitionSinkTopics = r.strings()
	s.RepartitionSourceTopics = r.topics()
	if n := r.list(minCopartition); n > 0 {
		s.CopartitionGroups = make([]topology.CopartitionGroup, n)
	}
	for i := range s.CopartitionGroups {
		g := &s.CopartitionGroups[i]
		g.SourceTopics = r.int16s()
		g.SourceTopicRegex = r.int16s()
		g.RepartitionSourceTopics = r.int16s()
		r.tags(nil)
	}
	r.tags(nil)
}

func (r *reader) topics() []topology.InternalTopic {
	n := r.list(minTopic)
	if n == 0 {
		return nil
	}
	topics := make([]topology.InternalTopic, n)
	for i := range topics {
		t := &topics[i]
		t.Name = r.string()
		t.Partitions = r.int32()
		t.ReplicationFactor = r.int16()
		if n := r.list(minConfig); n > 0 {
			t.Configs = make([]topology.Config, n)
		}
		for j := range t.Configs {
			t.Configs[j] = topology.Config{Key: r.string(), Value: r.string()}
			r.tags(nil)
		}
		r.tags(nil)
	}
	return topics
}
