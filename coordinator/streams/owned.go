package streams

import (
	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// checkOwned refuses reports of tasks that the topology does not have. Without a configured topology nobody can say. What
// the member was told to own is never refused, for the answer ends the application: a topic may have been made anew with
// fewer partitions since.
func (h *heartbeat) checkOwned() *coordinator.Error {
	if !h.topics.Configured.Ready() {
		return nil
	}
	for _, role := range [...]topology.Tasks{h.req.Active, h.req.Standby, h.req.Warmup} {
		for i := range role {
			if err := h.checkTasks(&role[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *heartbeat) checkTasks(s *topology.SubtopologyTasks) *coordinator.Error {
	n, ok := h.topics.Configured.Tasks(s.Subtopology)
	for _, p := range s.Partitions {
		if ok && p >= 0 && p < n || holds(h.current, topology.Task{Subtopology: s.Subtopology, Partition: p}) {
			continue
		}
		if h.ownTask(topology.Task{Subtopology: s.Subtopology, Partition: p}) {
			continue
		}
		if !ok {
			return coordinator.Errorf(coordinator.InvalidRequest, "Subtopology %s does not exist in the topology.", s.Subtopology)
		}
		return coordinator.Errorf(coordinator.InvalidRequest,
			"Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d", p, s.Subtopology, n)
	}
	return nil
}

// holds reports whether the member was told to own the task in any role and has not confirmed its release.
func holds(c *record.CurrentAssignment, t topology.Task) bool {
	for _, a := range [...]*topology.Assignment{&c.Assigned, &c.Revoking} {
		if a.Active.Contains(t) || a.Standby.Contains(t) || a.Warmup.Contains(t) {
			return true
		}
	}
	return false
}
