package streams

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// Validate checks what can be said of a request without looking at any group (KIP-1071, "Request Validation"; Kafka's
// KafkaApis.handleStreamsGroupHeartbeat and GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid), in the
// order in which Kafka looks, which decides what a request with several faults is told. Rights are not its matter.
func Validate(req *HeartbeatRequest) *coordinator.Error {
	if req.Topology != nil {
		if err := validateSize(req); err != nil {
			return err
		}
		if err := topology.ValidateNames(req.Topology); err != nil {
			return invalidTopology(err)
		}
	}
	switch {
	case blank(req.MemberID):
		return invalid("MemberId can't be empty.")
	case blank(req.GroupID):
		return invalid("GroupId can't be empty.")
	case req.InstanceID != nil && blank(*req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case req.RackID != nil && blank(*req.RackID):
		return invalid("RackId can't be empty.")
	case req.MemberEpoch == JoinEpoch:
		if err := validateJoin(req); err != nil {
			return err
		}
	case req.MemberEpoch == StaticLeaveEpoch && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case req.MemberEpoch < StaticLeaveEpoch:
		return coordinator.Errorf(coordinator.InvalidRequest, "MemberEpoch is %d, but must be greater than or equal to %d.",
			req.MemberEpoch, StaticLeaveEpoch)
	}
	if err := validateTasks(req); err != nil {
		return err
	}
	switch {
	case req.MemberEpoch != JoinEpoch && req.Topology != nil:
		return coordinator.Errorf(coordinator.InvalidRequest, "Topology can only be provided when (re-)joining. "+
			"MemberEpoch is %d; it is %d in a join.", req.MemberEpoch, JoinEpoch)
	case req.RebalanceTimeoutMs <= 0 && req.RebalanceTimeoutMs != -1:
		return coordinator.Errorf(coordinator.InvalidRequest, "RebalanceTimeoutMs is %d, but must be 1 or more, or -1 "+
			"where it is unchanged.", req.RebalanceTimeoutMs)
	}
	return nil
}

// validateSize refuses a topology that no record can hold before anything of it is looked at: that would take as long as the
// topology is, and keep other groups waiting.
func validateSize(req *HeartbeatRequest) *coordinator.Error {
	size := record.Size(record.Record{
		Key: record.Key{Type: record.TypeTopology, Group: req.GroupID}, Value: &record.Topology{Topology: *req.Topology},
	})
	if size > record.MaxRecordSize {
		return coordinator.Errorf(coordinator.StreamsInvalidTopology, "The topology takes %d bytes; at most %d can be stored.",
			size, record.MaxRecordSize)
	}
	return nil
}

func validateJoin(req *HeartbeatRequest) *coordinator.Error {
	if req.RebalanceTimeoutMs == -1 {
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	}
	for _, l := range req.lists() {
		if l.tasks == nil || len(l.tasks) > 0 {
			is := "It is null."
			if l.tasks != nil {
				is = fmt.Sprintf("It names %d tasks.", l.tasks.Len())
			}
			return coordinator.Errorf(coordinator.InvalidRequest, "%s must be empty when (re-)joining. %s", l.name, is)
		}
	}
	if req.Topology == nil {
		return invalid("Topology must be non-null when (re-)joining.")
	}
	return validateTopology(req.Topology)
}

// validateTopology is what a topology that is to be stored must fulfil.
func validateTopology(t *topology.Topology) *coordinator.Error {
	if err := topology.Validate(t); err != nil {
		return invalidTopology(err)
	}
	return nil
}

// validateTasks looks at the reported tasks. No client reports a task in two roles: it runs it in one.
func validateTasks(req *HeartbeatRequest) *coordinator.Error {
	lists := req.lists()
	null, other := "", ""
	for _, l := range lists {
		if l.tasks == nil {
			null = l.name
		} else {
			other = l.name
		}
	}
	switch {
	case null != "" && other != "":
		return coordinator.Errorf(coordinator.InvalidRequest, "If one task-type is non-null, all must be non-null. "+
			"%s is null and %s is not.", null, other)
	case req.DuplicateTasks != "":
		return invalid(req.DuplicateTasks + " must not name a task or a subtopology twice.")
	}
	for i, a := range lists {
		for _, b := range lists[i+1:] {
			if a.tasks.Intersects(b.tasks) {
				both := a.tasks.Intersect(b.tasks)[0]
				return coordinator.Errorf(coordinator.InvalidRequest, "Task %s_%d is in %s and in %s; a task has one role.",
					both.Subtopology, both.Partitions[0], a.name, b.name)
			}
		}
	}
	return nil
}

// taskList is one of the three task lists of a request.
type taskList struct {
	name  string
	tasks topology.Tasks
}

func (r *HeartbeatRequest) lists() [3]taskList {
	return [...]taskList{{"ActiveTasks", r.Active}, {"StandbyTasks", r.Standby}, {"WarmupTasks", r.Warmup}}
}

func invalid(message string) *coordinator.Error {
	return &coordinator.Error{Code: coordinator.InvalidRequest, Message: message}
}

// blank says whether a string has nothing but what Java's trim takes away: spaces and control characters.
func blank(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r > ' ' }) < 0 }
