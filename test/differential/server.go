package differential

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/conformance"
)

// server is one of the two that a script is played on, and what its members were told.
type server struct {
	player *conformance.Player
	// describe is the group as it stands.
	describe func() obj
	group    string
	heard    []exchange // of the step under way
	members  map[string]*member
	// exists says that the group is there.
	exists bool
	// stale says that a member with an endpoint is gone since the endpoint epoch rose last.
	stale bool
	// endpoints is the endpoint epoch that was told last.
	endpoints int32
}

// exchange is a heartbeat with its answer, and the member as it was told before.
type exchange struct {
	req  *kmsg.StreamsGroupHeartbeatRequest
	resp *kmsg.StreamsGroupHeartbeatResponse
	was  member
	// known says that the member was in the group, members how many were.
	known   bool
	members int
	// exists says that the group was there.
	exists bool
	// stale says that an endpoint had gone before, rose that the endpoint epoch is another one than was told before.
	stale, rose bool
	// holder is the member that had the request's instance id, if any.
	holder *member
}

// member is what a member was told, whether or not it remembers.
type member struct {
	id       string
	instance string
	epoch    int32
	earlier  int32 // the epoch told before
	moved    bool  // by a regular heartbeat from the earlier epoch, the last one that was accepted
	endpoint bool
	told     lists
	before   lists // told is what became of them
}

// lists are the active, standby and warm-up tasks, as "subtopology:partition", each sorted.
type lists [3][]string

func newServer(s *conformance.Scenario, group string, o conformance.Options) *server {
	v := &server{group: group, members: map[string]*member{}}
	o.Heard = v.hear
	v.player = conformance.NewPlayer(s, o)
	v.describe = func() obj {
		out, _ := v.player.Do(obj{"describe": group}).Out.(obj)
		return out
	}
	return v
}

func (v *server) hear(req *kmsg.StreamsGroupHeartbeatRequest, resp *kmsg.StreamsGroupHeartbeatResponse) {
	if req.Group != v.group {
		return
	}
	kept := *resp // the player goes on with resp
	x := exchange{req: req, resp: &kept, members: len(v.members), exists: v.exists, stale: v.stale, rose: resp.EndpointInformationEpoch != v.endpoints}
	if m := v.members[req.MemberID]; m != nil {
		x.was, x.known = *m, true
	}
	if req.InstanceID != nil {
		for _, m := range v.members {
			if m.instance == *req.InstanceID {
				copied := *m
				x.holder = &copied
			}
		}
	}
	v.heard = append(v.heard, x)
	if resp.ErrorCode == 0 {
		v.accepted(&x)
		v.exists = true
	}
}

func (v *server) accepted(x *exchange) {
	id := x.req.MemberID
	switch x.req.MemberEpoch {
	case -1:
		v.remove(id)
		return
	case -2:
		if m := v.members[id]; m != nil {
			m.epoch = -2
		}
		return
	}
	m := v.members[id]
	if x.req.MemberEpoch == 0 && x.holder != nil && x.holder.id != id {
		delete(v.members, x.holder.id) // replaced: its endpoint goes on with the new one
		m = &member{id: id, told: x.holder.told, endpoint: x.holder.endpoint}
		v.members[id] = m
	}
	if m == nil {
		m = &member{id: id}
		v.members[id] = m
	}
	if x.req.InstanceID != nil {
		m.instance = *x.req.InstanceID
	}
	if x.req.UserEndpoint != nil {
		m.endpoint = true
	} else if x.req.MemberEpoch == 0 {
		m.endpoint = false
	}
	m.earlier, m.epoch, m.moved = m.epoch, x.resp.MemberEpoch, x.req.MemberEpoch > 0 && x.req.MemberEpoch == m.epoch && x.resp.MemberEpoch != m.epoch
	if tasks, ok := listsOf(x.resp.ActiveTasks, x.resp.StandbyTasks, x.resp.WarmupTasks); ok {
		if !tasks.equal(m.told) {
			m.before = m.told
		}
		m.told = tasks
	}
	if x.resp.EndpointInformationEpoch != v.endpoints {
		v.endpoints, v.stale = x.resp.EndpointInformationEpoch, false
	}
}

func (v *server) remove(id string) {
	if m := v.members[id]; m != nil && m.endpoint {
		v.stale = true
	}
	delete(v.members, id)
}

// forgetGroup is for a group that was deleted or became one of another type.
func (v *server) forgetGroup() {
	v.members, v.exists, v.stale, v.endpoints = map[string]*member{}, false, false, 0
}

// listsOf are the lists of a message; ok is false where one is null.
func listsOf(active, standby, warmup []kmsg.TaskIDs) (l lists, ok bool) {
	for i, tasks := range [][]kmsg.TaskIDs{active, standby, warmup} {
		if tasks == nil {
			return lists{}, false
		}
		for _, t := range tasks {
			for _, p := range t.Partitions {
				l[i] = append(l[i], fmt.Sprintf("%s:%d", t.SubtopologyID, p))
			}
		}
		sort.Strings(l[i])
	}
	return l, true
}

func (l lists) equal(o lists) bool {
	for i := range l {
		if !slices.Equal(l[i], o[i]) {
			return false
		}
	}
	return true
}

func (l lists) all() []string { return slices.Concat(l[:]...) }

// counts are how many tasks of each subtopology each list has.
func (l lists) counts() string {
	var sb strings.Builder
	for _, tasks := range l {
		n := map[string]int{}
		for _, t := range tasks {
			sub, _, _ := strings.Cut(t, ":")
			n[sub]++
		}
		fmt.Fprint(&sb, n, " ") // maps print sorted
	}
	return sb.String()
}

// reported are the lists of a request; ok is false where one is null.
func (x *exchange) reported() (lists, bool) {
	return listsOf(x.req.ActiveTasks, x.req.StandbyTasks, x.req.WarmupTasks)
}

// behind says that the member comes with an older epoch than it was told.
func (x *exchange) behind() bool {
	return x.known && x.req.MemberEpoch > 0 && x.req.MemberEpoch < x.was.epoch
}

// holdsReported says whether the member reports nothing but the tasks that it was told to own: active tasks that are active,
// replicas in any role.
func (x *exchange) holdsReported(told ...lists) bool {
	r, ok := x.reported()
	if !ok {
		return true
	}
	any := map[string]bool{}
	active := map[string]bool{}
	for _, l := range told {
		for i := range l {
			for _, t := range l[i] {
				any[t] = true
				active[t] = active[t] || i == 0
			}
		}
	}
	for i := range r {
		for _, t := range r[i] {
			if !any[t] || i == 0 && !active[t] {
				return false
			}
		}
	}
	return true
}

// repeats says that a list names a task or a subtopology twice, or that offsets have a negative partition.
func (x *exchange) repeats() bool {
	for _, tasks := range [][]kmsg.TaskIDs{x.req.ActiveTasks, x.req.StandbyTasks, x.req.WarmupTasks} {
		subs := map[string]bool{}
		for _, t := range tasks {
			if subs[t.SubtopologyID] {
				return true
			}
			subs[t.SubtopologyID] = true
			seen := map[int32]bool{}
			for _, p := range t.Partitions {
				if seen[p] {
					return true
				}
				seen[p] = true
			}
		}
	}
	if x.req.MemberEpoch < 0 {
		return false // nobody looks at the offsets of one who leaves
	}
	for _, offsets := range [][]kmsg.TaskOffset{x.req.TaskOffsets, x.req.TaskEndOffsets} {
		for _, o := range offsets {
			if o.Partition < 0 {
				return true
			}
		}
	}
	return false
}

// twoRoles says that a task is reported in two roles.
func (x *exchange) twoRoles() bool {
	r, ok := x.reported()
	if !ok {
		return false
	}
	seen := map[string]bool{}
	for i := range r {
		for _, t := range r[i] {
			if seen[t] {
				return true
			}
			seen[t] = true
		}
	}
	return false
}
