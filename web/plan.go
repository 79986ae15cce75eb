package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Plans is how operators look at what a change of a group would move, before they make it. Nothing is changed. Errors are a
// [Refusal] wherever it is known what to do.
type Plans interface {
	// Plan asks the leader of the group's shard, which knows what members have reported.
	Plan(ctx context.Context, r PlanRequest) (GroupPlan, error)
	// LocalPlan is Plan where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalPlan(ctx context.Context, r PlanRequest) (GroupPlan, error)
}

// PlanRequest is a change of a group that is to be looked at. All of it happens at once.
type PlanRequest struct {
	Group string
	// Add is the number of new processes, Threads the members of each (0: as many as most processes of the group have), and Tags
	// their client tags, as key=value. Rack is their rack, "" for none.
	Add, Threads int
	Tags         []string
	Rack         string
	// Remove are ids of members, instances or processes.
	Remove []string
	// Set are settings of the group, as name=value.
	Set []string
}

// GroupPlan is what a change of a group would move. The epoch is the group epoch for which it was computed.
type GroupPlan struct {
	GroupSummary
	// Assignor computed the plan.
	Assignor string `json:"assignor"`
	// Threads is the number of members of each added process, 0 where none is added.
	Threads int `json:"threads"`
	// Notes say what the plan leaves open.
	Notes []string `json:"notes"`
	// Before and After are how evenly tasks are dealt: by the group's target, and at the end of the plan.
	Before PlanShape `json:"before"`
	After  PlanShape `json:"after"`
	// PlanTotals are those of all steps.
	PlanTotals
	// Complete is false where further steps follow that were not computed.
	Complete bool `json:"complete"`
	// Stateful says that the group has tasks with state, and Reporting counts the members that have reported offsets of tasks to the
	// leader.
	Stateful  bool `json:"stateful"`
	Reporting int  `json:"reporting"`
	// MemberList are the members of before and after, by id.
	MemberList []PlanMember `json:"memberList"`
	// Steps are the targets, one after the other: the first at once, and each further one when the warm-ups of the one before have
	// caught up.
	Steps []PlanStep `json:"steps"`
}

// PlanShape says how evenly tasks are dealt.
type PlanShape struct {
	Members   int `json:"members"`
	Processes int `json:"processes"`
	// The least and the most tasks of a member, and active tasks of a process.
	ActiveMin        int `json:"activeMin"`
	ActiveMax        int `json:"activeMax"`
	StandbyMin       int `json:"standbyMin"`
	StandbyMax       int `json:"standbyMax"`
	ProcessActiveMin int `json:"processActiveMin"`
	ProcessActiveMax int `json:"processActiveMax"`
}

// PlanTotals count moves.
type PlanTotals struct {
	// Active, Standby and Warmup count the tasks that a member gets in a role that it did not have them in. Dropped counts the
	// standbys and warm-ups that nobody gets instead.
	Active  int `json:"movedActive"`
	Standby int `json:"movedStandby"`
	Warmup  int `json:"movedWarmup"`
	Dropped int `json:"dropped"`
	// Records are the changelog records to restore, as far as that is known, and Unknown counts the moves and the warm-ups under way
	// of which it is not. ActiveRecords and ActiveUnknown are the part of active tasks, which stand still until they are restored;
	// the rest are copies in the background.
	Records       int64 `json:"records"`
	Unknown       int   `json:"unknown"`
	ActiveRecords int64 `json:"activeRecords"`
	ActiveUnknown int   `json:"activeUnknown"`
}

// PlanMember is a member before and after a plan. Numbers are those of tasks.
type PlanMember struct {
	Member        string `json:"member"`
	InstanceID    string `json:"instanceId,omitempty"`
	ClientID      string `json:"clientId"`
	Host          string `json:"host"`
	ProcessID     string `json:"processId"`
	Added         bool   `json:"added"`
	Removed       bool   `json:"removed"`
	ActiveBefore  int    `json:"activeBefore"`
	ActiveAfter   int    `json:"activeAfter"`
	StandbyBefore int    `json:"standbyBefore"`
	StandbyAfter  int    `json:"standbyAfter"`
	WarmupBefore  int    `json:"warmupBefore"`
	WarmupAfter   int    `json:"warmupAfter"`
}

// PlanStep is one target of a plan.
type PlanStep struct {
	PlanTotals
	// Moves are by role and task; there may be fewer than the numbers say.
	Moves []PlanMove `json:"moves"`
	// Underway are the warm-ups that the first step leaves where they are under way before it. They are no moves.
	Underway []PlanMove `json:"underway,omitempty"`
}

// PlanMove is one task that gets another holder; "" stands for nobody.
type PlanMove struct {
	Task string `json:"task"`
	Role string `json:"role"`
	From string `json:"from"`
	To   string `json:"to"`
	// Restore is what the receiver has to restore: "nothing" (no state, or no receiver), "caught-up", "behind", "from-scratch" or
	// "unknown".
	Restore string `json:"restore"`
	// Records is how many changelog records it lacks, -1 where that is not known.
	Records int64 `json:"records"`
}

// planTimeout bounds a plan as its client sees it: longer than nodes work on one.
const planTimeout = 30 * time.Second

// Plan asks what a change of a group would move.
func (c Client) Plan(ctx context.Context, r PlanRequest) (GroupPlan, error) {
	query := url.Values{"id": {r.Group}, "add": {strconv.Itoa(r.Add)}, "tag": r.Tags, "rack": {r.Rack}, "remove": r.Remove, "set": r.Set}
	if r.Threads != 0 {
		query.Set("threads", strconv.Itoa(r.Threads))
	}
	var p GroupPlan
	return p, c.question(ctx, planTimeout, "/v1/group/plan?"+query.Encode(), &p)
}

// planParameters are the names of what a plan is asked by.
var planParameters = []string{"id", "add", "threads", "tag", "rack", "remove", "set"}

// plan serves the question for a plan.
func plan(find func(ctx context.Context, r PlanRequest) (GroupPlan, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := readPlan(r)
		var p GroupPlan
		if err == nil {
			p, err = find(r.Context(), request)
		}
		answerWith(w, p, err)
	}
}

func readPlan(r *http.Request) (PlanRequest, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return PlanRequest{}, Refuse(NotAllowed, "the query is malformed: %v", err)
	}
	for name := range query {
		if !slices.Contains(planParameters, name) {
			return PlanRequest{}, Refuse(NotAllowed, "parameter %q is unknown (allowed: %s)", name, strings.Join(planParameters, ", "))
		}
	}
	p := PlanRequest{Group: query.Get("id"), Tags: query["tag"], Rack: query.Get("rack"), Remove: query["remove"], Set: query["set"]}
	for name, into := range map[string]*int{"add": &p.Add, "threads": &p.Threads} {
		if text := query.Get(name); text != "" {
			if *into, err = strconv.Atoi(text); err != nil {
				return p, Refuse(NotAllowed, "%s %q is not allowed (allowed: a whole number)", name, text)
			}
			if name == "threads" && *into < 1 {
				return p, Refuse(NotAllowed, "threads %q is not allowed (allowed: 1 or more)", text)
			}
		}
	}
	for _, name := range []string{"id", "add", "threads", "rack"} {
		if n := len(query[name]); n > 1 {
			return p, Refuse(NotAllowed, "parameter %q is given %d times; give it once", name, n)
		}
	}
	for _, tag := range p.Tags {
		if key, _, _ := strings.Cut(tag, "="); strings.ContainsFunc(key, unicode.IsControl) {
			return p, Refuse(NotAllowed, "tag %q has a control character in its key", tag)
		}
	}
	if p.Group == "" {
		return p, Refuse(NotAllowed, "the group id is empty; 'coordd groups list' shows the groups")
	}
	return p, nil
}
