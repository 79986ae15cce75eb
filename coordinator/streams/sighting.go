package streams

import (
	"slices"

	"github.com/coordd/coordd/topology"
)

// A topology that a request would make the group's, or that would run again in a group without members, goes by topics that
// were asked for after it was seen first: nobody may have watched them before, and internal topics that were created by
// numbers of before would end the application as soon as the right ones are seen. A problem that ends applications is told
// when the topics have been read once more after it was seen. What was seen is kept beside the group's own topics, by the
// content of the topology, since each request brings a copy of its own.

const (
	// sightingMs is for how long a sighting that nobody asks for again is kept. A member that is told to come again does so
	// within a second or two.
	sightingMs = 5000
	// maxSightings bounds the sightings of a group.
	maxSightings = 16
)

// Sighting says since when the topology of a request that could not be decided yet has been known.
type Sighting struct {
	content [topology.ContentHashSize]byte
	since   int64
	// problem is what ends applications, problemSince when it was seen first; 0 when there is nothing.
	problem      topology.Problem
	problemSince int64
	// used is when a request with the topology was decided last.
	used int64
}

// Sightings are those of one group. They are replaced, not changed.
type Sightings []Sighting

// Live returns the sightings that are not too old, and when the next one is; 0 where there is none.
func (s Sightings) Live(now int64) (live Sightings, until int64) {
	for i := range s {
		if end := s[i].used + sightingMs; end > now {
			live, until = append(live, s[i]), earlier(until, end)
		}
	}
	return live, until
}

// With returns the sightings with that one in place of an earlier one of the topology. Where they are too many the one goes
// that was used least lately.
func (s Sightings) With(one *Sighting) Sightings {
	live, _ := s.Without(one).Live(one.used)
	if len(live) >= maxSightings {
		oldest := 0
		for i := range live {
			if live[i].used < live[oldest].used {
				oldest = i
			}
		}
		live = slices.Delete(live, oldest, oldest+1)
	}
	return append(live, *one)
}

// Without returns the sightings of other topologies.
func (s Sightings) Without(one *Sighting) (others Sightings) {
	for i := range s {
		if s[i].content != one.content {
			others = append(others, s[i])
		}
	}
	return others
}

// of is the sighting of a topology, brought up to date.
func (s Sightings) of(t *topology.Topology, p *topology.Problem, now int64) Sighting {
	seen := Sighting{content: t.ContentHash(), since: now}
	for i := range s {
		if s[i].content == seen.content && s[i].used+sightingMs > now {
			seen = s[i]
		}
	}
	switch {
	case !endsApps(p):
		seen.problem, seen.problemSince = topology.Problem{}, 0
	case seen.problemSince == 0 || seen.problem != *p:
		seen.problem, seen.problemSince = *p, now
	}
	seen.used = now
	return seen
}

// asked is the time after which the topics must have been asked for.
func (s *Sighting) asked() int64 { return max(s.since, s.problemSince) }

// endsApps says whether a problem is one that applications end for when they are told of it.
func endsApps(p *topology.Problem) bool { return p != nil && p.Kind != topology.MissingInternalTopics }

// firstSet has the decision, which sets a topology first, wait until the topics have been asked for after it was seen; p is
// what is wrong with them.
func (d *Decision) firstSet(t *topology.Topology, p *topology.Problem, env *Env) {
	s := env.Sightings.of(t, p, env.Now)
	d.Sighting = &s
	d.doubt(s.asked(), env)
}

// doubt has the decision wait until the topics have been asked for after a time.
func (d *Decision) doubt(since int64, env *Env) {
	if env.MetadataAsOf <= since {
		d.Doubt, d.DoubtSince = true, max(d.DoubtSince, since)
	}
}
