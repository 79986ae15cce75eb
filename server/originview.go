package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/topology"
	"github.com/coordd/coordd/web"
)

// originView shows people what the Kafka behind has of a group, and what would come of moving it.
func originView(in *originInput) web.GroupOrigin {
	o := in.origin
	view := web.GroupOrigin{
		Group: in.group, Type: o.Type, Protocol: o.Protocol, State: o.State, Epoch: -1, TopologyEpoch: -1,
		Members: []web.OriginMember{}, Subtopologies: []web.GroupSubtopology{}, Settings: []web.OriginSetting{},
		Offsets: originOffsets(in), Held: in.held, HeldState: in.heldState, HeldStore: in.heldStore, Notes: []string{},
	}
	if o.Type == "streams" {
		view.Epoch = o.Epoch
	}
	for _, m := range o.Members {
		view.Members = append(view.Members, web.OriginMember{Member: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host})
	}
	if o.Topology != nil {
		var configured *topology.Configured
		if in.topics != nil && in.invalid == nil {
			configured, _ = topology.Configure(o.Topology, in.topics) // what is wrong is told when a member comes
		}
		view.TopologyEpoch, view.Subtopologies = o.Topology.Epoch, subtopologyViews(o.Topology, configured)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		view.Settings = append(view.Settings, web.OriginSetting{Name: name, Value: o.Settings[name], Problem: in.refused[name]})
	}
	view.Lag, view.LagUnknown = originLag(in, view.Offsets)
	view.MayBeHeld = o.Own() && o.Empty() && !in.held
	view.NoImport, view.NoExport = noImport(in, view.Offsets), noExport(in)
	view.Notes = append(view.Notes, originNotes(in)...)
	return view
}

// originLag sums the lags that are known, -1 for none, and counts the partitions of which it is not.
func originLag(in *originInput, list []web.OriginOffset) (lag int64, unknown int) {
	sum := lagSum{unknown: len(uncommitted(in))}
	for i := range list {
		switch o := &list[i]; {
		case o.Lag >= 0:
			sum.add(o.Lag)
		case o.Problem != "" && o.Problem != noPartition:
			sum.unknown++
		}
	}
	return sum.total()
}

// unstable is shown of a partition whose offset an open transaction holds.
const unstable = "an open transaction commits an offset of it"

// noPartition is shown of an offset whose partition does not exist.
const noPartition = "the topic or partition does not exist: the offset is of no use"

func originOffsets(in *originInput) []web.OriginOffset {
	list := []web.OriginOffset{}
	for i := range in.committed {
		t := &in.committed[i]
		for _, p := range t.Partitions {
			key := offsets.TopicPartition{Topic: t.Name, Partition: p.Partition}
			o := web.OriginOffset{
				Topic: t.Name, Partition: p.Partition, Committed: p.Offset, Start: logOffset(in.start, key), End: logOffset(in.end, key),
			}
			o.Lag = lagOf(o.Committed, o.End)
			o.Problem = offsetProblem(&o, p.Code, in.end[key].Code)
			list = append(list, o)
		}
	}
	return list
}

func logOffset(known map[offsets.TopicPartition]offsets.LogOffset, key offsets.TopicPartition) int64 {
	if o, ok := known[key]; ok && o.Code == coordinator.None {
		return o.Offset
	}
	return -1
}

func offsetProblem(o *web.OriginOffset, fetched, end coordinator.Code) string {
	switch {
	case fetched == coordinator.UnstableOffsetCommit:
		return unstable
	case fetched != coordinator.None:
		return "the offset is not told: " + codeText(fetched)
	case end == coordinator.UnknownTopicOrPartition:
		return noPartition
	case end != coordinator.None:
		return "where its log ends is not told: " + codeText(end)
	case o.End >= 0 && o.Committed > o.End:
		return "behind the end of the log: was the topic made anew? The app begins there by its auto.offset.reset"
	case o.Start >= 0 && o.Committed >= 0 && o.Committed < o.Start:
		return "before the start of the log: records were deleted unread. The app begins there by its auto.offset.reset"
	}
	return ""
}

// noImport says why a group cannot be taken over; empty where it can.
func noImport(in *originInput, list []web.OriginOffset) string {
	o := in.origin
	switch {
	case in.held:
		return fmt.Sprintf("group %s is coordd's already: see 'coordd groups describe %s'", in.group, in.group)
	case o.Type == "":
		return fmt.Sprintf("the Kafka behind has no group %s; an app that never ran needs no import, and one whose offsets another coordd cluster keeps "+
			"(offsets.store=raft) has to be given back there first", in.group)
	case o.Type == "consumer" || o.Type == "share":
		return fmt.Sprintf("group %s is a %s group, whose id no streams group can have even while it has no members; delete it, or give the app another application.id", in.group, o.Type)
	case o.Own() && !o.Empty():
		return fmt.Sprintf("group %s belongs to another coordd cluster in front of the same Kafka (or this one has just let it go: try again in a minute)", in.group)
	case !o.Empty():
		return runsThere(in)
	}
	for i := range list {
		if list[i].Problem == unstable {
			return fmt.Sprintf("a transaction that commits offsets of group %s is open (%s[%d]): an instance was killed in the middle of it. It ends by itself, "+
				"after 10 seconds with the defaults of Kafka Streams; try again then", in.group, list[i].Topic, list[i].Partition)
		}
	}
	return ""
}

// runsThere names the instances that are to be stopped.
func runsThere(in *originInput) string {
	o := in.origin
	var names []string
	for _, m := range o.Members[:min(len(o.Members), maxNamed)] {
		names = append(names, m.ClientID+m.Host)
	}
	if more := len(o.Members) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	text := fmt.Sprintf("group %s is %s in the Kafka behind", in.group, o.State)
	if len(names) > 0 {
		text += ", with " + strings.Join(names, ", ")
	}
	text += ": stop the app there first"
	if o.Type == "classic" {
		text += ". A Kafka Streams app with group.protocol=classic does not leave its group when it stops; the Kafka behind removes its members " +
			"when session.timeout.ms (45 s by default) is over"
	}
	return text
}

// maxNamed is how many members or partitions a text names.
const maxNamed = 3

// noExport says why a group cannot be given back; empty where it can.
func noExport(in *originInput) string {
	switch {
	case !in.held:
		return fmt.Sprintf("coordd has no group %s; 'coordd groups list' shows the groups", in.group)
	case in.heldMembers > 0:
		return fmt.Sprintf("group %s has members: stop the app first (static members stay until their session is over, 45 s by default)", in.group)
	}
	return ""
}

// originNotes say what is good to know before a group is moved.
func originNotes(in *originInput) (notes []string) {
	o := in.origin
	if in.heldOffsets > 0 {
		notes = append(notes, fmt.Sprintf("offsets of the group that coordd keeps itself: %d; they are written to the Kafka behind when it is given back", in.heldOffsets))
	}
	if o.Type == "" || in.held {
		return notes
	}
	if o.Own() {
		notes = append(notes, "a coordd cluster had this group last; whether it has it still cannot be seen while it has no members")
	}
	if missing := some(uncommitted(in)); missing != "" {
		notes = append(notes, "no offset is committed for "+missing+": the app begins there by its auto.offset.reset")
	}
	if in.invalid != nil {
		notes = append(notes, "its topology is not taken over: "+in.invalid.Error())
	}
	if o.Topology != nil && in.topics != nil {
		if missing := missingChangelogs(in); missing != "" {
			notes = append(notes, "changelog topics do not exist: "+missing+"; coordd creates them empty, and the state that they held is lost")
		}
	}
	return notes
}

// uncommitted names the partitions that the app reads, as far as that is known, without an offset: all of the topics of the
// topology, and of those of which another partition has one.
func uncommitted(in *originInput) []string {
	if in.topics == nil {
		return nil
	}
	reads := map[string]bool{}
	committed := map[offsets.TopicPartition]bool{}
	for i := range in.committed {
		t := &in.committed[i]
		reads[t.Name] = true
		for _, p := range t.Partitions {
			if p.Offset >= 0 || p.Code != coordinator.None {
				committed[offsets.TopicPartition{Topic: t.Name, Partition: p.Partition}] = true
			}
		}
	}
	if in.origin.Topology != nil {
		for i := range in.origin.Topology.Subtopologies {
			s := &in.origin.Topology.Subtopologies[i]
			for _, name := range s.SourceTopics {
				reads[name] = true
			}
			for k := range s.RepartitionSourceTopics {
				reads[s.RepartitionSourceTopics[k].Name] = true
			}
		}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		t, _ := in.topics.Topic(name)
		for p := range t.Partitions {
			if !committed[offsets.TopicPartition{Topic: name, Partition: p}] {
				missing = append(missing, fmt.Sprintf("%s[%d]", name, p))
			}
		}
	}
	return missing
}

func missingChangelogs(in *originInput) string {
	var missing []string
	for i := range in.origin.Topology.Subtopologies {
		for _, t := range in.origin.Topology.Subtopologies[i].StateChangelogTopics {
			if _, ok := in.topics.Topic(t.Name); !ok {
				missing = append(missing, t.Name)
			}
		}
	}
	return some(missing)
}

// some names the first of a list.
func some(list []string) string {
	if more := len(list) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNamed], ", "), more)
	}
	return strings.Join(list, ", ")
}
