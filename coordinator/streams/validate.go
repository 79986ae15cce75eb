package streams

import (
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/topology"
)

// Validate checks what can be said of a request without looking at any group (KIP-1071, "Request Validation"; Kafka's
// GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid). Rights are not its matter.
func Validate(req *HeartbeatRequest) *coordinator.Error {
	if req.Topology != nil {
		if err := validateTopology(req.Topology); err != nil {
			return err
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
		return invalid("MemberEpoch is invalid.")
	}
	lists := present(req.Active) + present(req.Standby) + present(req.Warmup)
	switch {
	case lists != 0 && lists != 3:
		return invalid("ActiveTasks, StandbyTasks and WarmupTasks must be either all null or all non-null.")
	case req.DuplicateTasks != "":
		return invalid(req.DuplicateTasks + " must not name a task or a subtopology twice.")
	case req.MemberEpoch != JoinEpoch && req.Topology != nil:
		return invalid("Topology can only be provided when (re-)joining.")
	}
	return nil
}

func validateJoin(req *HeartbeatRequest) *coordinator.Error {
	switch {
	case req.RebalanceTimeoutMs == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case req.Active == nil || len(req.Active) > 0:
		return invalid("ActiveTasks must be empty when (re-)joining.")
	case req.Standby == nil || len(req.Standby) > 0:
		return invalid("StandbyTasks must be empty when (re-)joining.")
	case req.Warmup == nil || len(req.Warmup) > 0:
		return invalid("WarmupTasks must be empty when (re-)joining.")
	case req.Topology == nil:
		return invalid("Topology must be non-null when (re-)joining.")
	}
	return nil
}

func validateTopology(t *topology.Topology) *coordinator.Error {
	if err := topology.Validate(t); err != nil {
		return invalidTopology(err)
	}
	for i := range t.Subtopologies {
		if len(t.Subtopologies[i].SourceTopicRegex) > 0 {
			return invalid("Regular expressions for source topics are not supported yet.")
		}
	}
	if t.Epoch < 0 {
		return &coordinator.Error{Code: coordinator.StreamsInvalidTopology, Message: "The topology epoch must not be negative."}
	}
	return nil
}

func invalid(message string) *coordinator.Error {
	return &coordinator.Error{Code: coordinator.InvalidRequest, Message: message}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func present(t topology.Tasks) int {
	if t == nil {
		return 0
	}
	return 1
}
