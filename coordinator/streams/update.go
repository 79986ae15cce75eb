package streams

import (
	"fmt"
	"math"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// PolicyLatest is the value of streams.topology.update.policy with which the content of a joiner's topology counts and the
// epoch that it sends does not: what is new to the group replaces the group's topology. With any other value, "epoch", the
// epochs count (KIP-1071, "Topology updates").
const PolicyLatest = "latest"

// joinTopology decides what the topology of the request is to the group: its own, an update, or an earlier one. No topology
// update of a group starts in any other way. The records follow in putTopology.
func (h *heartbeat) joinTopology() *coordinator.Error {
	h.line = lineageOf(h.group)
	h.joined = h.oldMeta.TopologyEpoch
	sent := h.req.Topology
	switch {
	case h.line.current != nil && sent == nil:
		return nil
	case sent == nil:
		// Only a group of which the log lost the topology: its members bring it back when they join anew.
		return unknownMember(h.memberID, h.groupID)
	case h.line.current == nil:
		if err := checkTopology(sent); err != nil {
			return err
		}
		// What is configured in memory is known by the address of the topology: it is the record's.
		h.newTopology = &record.Topology{Topology: *sent.Clone()}
		h.line.current, h.line.root, h.joined = &h.newTopology.Topology, sent.Epoch, sent.Epoch
		return nil
	}
	v := h.line.judge(sent, h.env.Settings.TopologyUpdatePolicy == PolicyLatest, numMembers(h.group) == 0)
	switch {
	case v.err != nil:
		return v.err
	case v.update:
		return h.startUpdate(sent, v)
	case v.stale && h.env.Settings.TopologyFenceOlder && !h.belongs():
		return coordinator.Errorf(coordinator.StreamsTopologyFenced, "The topology epoch %d of the request is behind the group's "+
			"topology epoch %d: %s. The group takes no new members with an earlier topology (streams.topology.fence.older=true); "+
			"start the application with the group's topology, or set streams.topology.fence.older=false for the group.",
			sent.Epoch, h.line.now().Declared, differences(h.line.current, sent))
	}
	if h.joined = v.epoch; v.stale && v.epoch == unknownTopology {
		h.joined, h.history = h.line.learn(sent)
	}
	return nil
}

// verdict is what the topology of a join is to its group.
type verdict struct {
	err *coordinator.Error
	// update says that the topology replaces the group's, under epoch; first and lastDeclared are those of the new version.
	update              bool
	first, lastDeclared int32
	// stale says that it is an earlier one.
	stale bool
	// epoch is the topology epoch that it stands for in the group; unknownTopology where there is none.
	epoch int32
}

// judge compares the topology of a join with the group's. latest is the update policy, empty says that the group has no
// members: then any topology is welcome, which is the way back from any update.
func (l *lineage) judge(sent *topology.Topology, latest, empty bool) verdict {
	now := l.now()
	same := sameContent(sent, l.current)
	if same && (latest || sent.Epoch == now.Declared) {
		return verdict{epoch: l.current.Epoch}
	}
	next := l.current.Epoch + 1
	if l.current.Epoch == math.MaxInt32 {
		return verdict{err: coordinator.Errorf(coordinator.StreamsInvalidTopologyEpoch, "The group's topology epoch is %d, after which "+
			"there is none, and the request has another topology of epoch %d: %s. Delete the group to change its topology.",
			l.current.Epoch, sent.Epoch, differences(l.current, sent))}
	}
	hash := sent.ContentHash()
	switch {
	case empty:
		epoch := max(next, sent.Epoch)
		return verdict{update: true, epoch: epoch, first: epoch, lastDeclared: sent.Epoch}
	case latest:
		if v := l.find(hash, nil); v != nil {
			return verdict{stale: l.stale(v.Epoch), epoch: v.Epoch}
		}
		return verdict{update: true, epoch: next, first: now.First, lastDeclared: max(now.LastDeclared, sent.Epoch)}
	}
	if v := l.find(hash, &sent.Epoch); v != nil {
		return verdict{stale: l.stale(v.Epoch), epoch: v.Epoch}
	}
	switch last := now.LastDeclared; {
	case sent.Epoch < last:
		return verdict{stale: true, epoch: unknownTopology}
	case int64(sent.Epoch) == int64(last)+1:
		return verdict{update: true, epoch: max(next, sent.Epoch), first: now.First, lastDeclared: sent.Epoch}
	case sent.Epoch == last:
		return verdict{err: coordinator.Errorf(coordinator.StreamsInvalidTopologyEpoch, "The request has another topology of epoch %d than "+
			"the group, whose topology epoch is %d: %s. An update has the next topology epoch, %s; clients that cannot send one need "+
			"streams.topology.update.policy=latest for the group, or all its members stopped first: an empty group takes any topology.",
			sent.Epoch, last, differences(l.current, sent), epochAfter(last))}
	}
	return verdict{err: coordinator.Errorf(coordinator.StreamsInvalidTopologyEpoch, "The topology epoch %d of the request is more than one "+
		"above the group's topology epoch %d: %s. An update has the next topology epoch, %d; or stop all members first: an empty "+
		"group takes any topology.", sent.Epoch, now.LastDeclared, differences(l.current, sent), now.LastDeclared+1)}
}

func epochAfter(last int32) string {
	if last == math.MaxInt32 {
		return "of which there is none"
	}
	return fmt.Sprint(last + 1)
}

// sameContent says whether both have the same subtopologies, whatever their epochs.
func sameContent(a, b *topology.Topology) bool {
	x := topology.Topology{Epoch: b.Epoch, Subtopologies: a.Subtopologies}
	return x.Equal(b)
}

// belongs says whether the member, its instance or its process is known to the group, or was until lately: it may only have
// missed its session, or be restarted in the middle of a roll-out.
func (h *heartbeat) belongs() bool {
	if h.known || h.replaced != nil || h.soft.missedLately(h.req, &h.env) {
		return true
	}
	if h.req.ProcessID != nil && *h.req.ProcessID != "" {
		for m := range h.group.Members() {
			if metaOf(m).ProcessID == *h.req.ProcessID {
				return true
			}
		}
	}
	return false
}

// startUpdate makes the topology of the request the group's.
func (h *heartbeat) startUpdate(sent *topology.Topology, v verdict) *coordinator.Error {
	if err := checkTopology(sent); err != nil {
		return err
	}
	h.newTopology = &record.Topology{Topology: *sent.Clone()}
	next := &h.newTopology.Topology
	next.Epoch = v.epoch
	from := h.line.current
	running := runningEpochs(h.group)
	h.history = h.line.replace(next, record.TopologyVersion{
		Root: v.epoch, First: v.first, Declared: sent.Epoch, LastDeclared: v.lastDeclared, Hash: next.ContentHash(), SinceMs: h.env.Now,
	}, taskCounts(h.soft, from), running)
	h.joined = v.epoch
	h.detail = fmt.Sprintf("topology epoch %d -> %d: %s", from.Epoch, next.Epoch, differences(from, next))
	return nil
}

// putTopology emits the group's new topology, and takes the group's for all that follows.
func (h *heartbeat) putTopology(d *Decision) {
	h.topology = h.line.current
	h.stale = h.line.stale(h.meta.TopologyEpoch)
	d.Records = append(d.Records, h.history...)
	h.shed(d)
	if h.newTopology == nil {
		return
	}
	h.causes |= CauseTopology
	d.Records = append(d.Records, record.Record{
		Key: record.Key{Type: record.TypeTopology, Group: h.groupID}, Value: h.newTopology,
	})
}

// CheckTopology says why a topology cannot be a group's; nil where it can.
func CheckTopology(t *topology.Topology) error {
	if err := checkTopology(t); err != nil {
		return err
	}
	return nil
}

// checkTopology refuses what must not be stored, whoever called. Kafka stores a topology that cannot run whatever topics
// exist while source topics are missing, and then no app can ever replace it.
func checkTopology(t *topology.Topology) *coordinator.Error {
	if err := validateTopology(t); err != nil {
		return err
	}
	if err := topology.ValidateCounts(t); err != nil {
		return invalidTopology(err)
	}
	return nil
}

// maxDifferences is how many subtopologies of a kind a message names.
const maxDifferences = 10

// differences tells people how a topology differs from the group's.
func differences(from, to *topology.Topology) string {
	c := topology.DiffSubtopologies(from, to)
	if c.Same() {
		return "the subtopologies are the same"
	}
	var parts []string
	for _, p := range [...]struct {
		what string
		ids  []string
	}{{"changed", c.Changed}, {"new", c.New}, {"missing", c.Lost}} {
		if n := len(p.ids); n > maxDifferences {
			parts = append(parts, fmt.Sprintf("%s %s and %d more", p.what, strings.Join(p.ids[:maxDifferences], ", "), n-maxDifferences))
		} else if n > 0 {
			parts = append(parts, p.what+" "+strings.Join(p.ids, ", "))
		}
	}
	return "subtopologies " + strings.Join(parts, "; ")
}
