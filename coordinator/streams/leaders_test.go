package streams

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// fakeLeaders are the racks of leaders by topic.
type fakeLeaders map[string][]string

func (f fakeLeaders) LeaderRacks(topic string) []string { return f[topic] }

// setLeaders says where the leaders of a topic are; "-": nowhere.
func (w *world) setLeaders(topic string, racks ...string) {
	list := slices.Clone(racks)
	for i := range list {
		if list[i] == "-" {
			list[i] = ""
		}
	}
	w.leaders[topic] = list
}

// The rack of a task is the one of most of its source partitions, repartition topics among them; nobody asks for it unless the
// group's settings want it.
func TestLeaderRacks(t *testing.T) {
	s := &topology.ConfiguredSubtopology{
		ID: "0", NumTasks: 4, SourceTopics: []string{"in", "other"}, RepartitionSources: []topology.InternalTopic{{Name: "r"}},
		Changelogs: []topology.InternalTopic{{Name: "cl"}},
	}
	leaders := fakeLeaders{
		"in": {"a", "b", "c", ""}, "other": {"b", "b", "", ""}, "r": {"b", "", "a", "", "z"}, "cl": {"x", "x", "x", "x"},
	}
	env := &Env{Leaders: leaders, Settings: &coordinator.GroupSettings{RackAwareStrategy: coordinator.RackStrategyMinTraffic}}
	if got, want := leaderRacks(env, s), []string{"b", "b", "a", ""}; !slices.Equal(got, want) {
		t.Errorf("racks %q, want %q", got, want)
	}
	none := &Env{Leaders: leaders, Settings: &coordinator.GroupSettings{RackAwareStrategy: coordinator.RackStrategyNone}}
	nobody := &Env{Settings: env.Settings}
	unknown := &Env{Leaders: fakeLeaders{"in": {"", ""}}, Settings: env.Settings}
	for _, e := range []*Env{none, nobody, unknown} {
		if got := leaderRacks(e, s); got != nil {
			t.Errorf("racks %q, want none", got)
		}
	}
}

// Leaders that change are no reason for anything: they count when a target is computed for another one.
func TestLeadersRaiseNoEpoch(t *testing.T) {
	w := newWorld()
	w.settings.RackAwareStrategy = coordinator.RackStrategyMinTraffic
	w.setTopic("in", 2)
	w.setLeaders("in", "a", "b")
	mustReply(t, w, goodJoin())
	epoch := w.group().Epoch()
	hash := w.group().Metadata.MetadataHash
	w.setLeaders("in", "b", "-")
	if d := mustReply(t, w, goodHeartbeat(2)); len(d.Records)+len(d.Effects) != 0 {
		t.Errorf("%+v", d)
	}
	w.version++ // some other topic changes
	if d := mustReply(t, w, goodHeartbeat(2)); len(d.Records)+len(d.Effects) != 0 || w.group().Epoch() != epoch || w.group().Metadata.MetadataHash != hash {
		t.Errorf("%+v", d)
	}
}
