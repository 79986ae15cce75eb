package shard

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// PlanRequest asks what a change of a group would move (streams.NewPlanJob). It changes nothing.
type PlanRequest struct {
	GroupID string
	Input   streams.PlanInput
}

// PlanResponse answers a PlanRequest.
type PlanResponse struct {
	// Err says what is wrong with the request or the group; nil where there is a plan.
	Err *coordinator.Error
	// Job computes the plan from a snapshot of the group. Whoever asked runs it, beside the shard.
	Job *streams.PlanJob
}

// plan takes the snapshot of a group as it is committed.
func (m *Machine) plan(c *Call, r *PlanRequest) {
	if m.withoutTopicsYet() {
		m.refuse(c, loading)
		return
	}
	id := strings.Clone(r.GroupID)
	env := m.env(id)
	job, err := streams.NewPlanJob(m.committed.Group(id), m.softOf(id), &env, id, r.Input)
	m.reply(c, &PlanResponse{Err: err, Job: job})
}
