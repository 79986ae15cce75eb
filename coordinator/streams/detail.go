package streams

import (
	"slices"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// inputDetail explains causes that no member is behind: what is wrong with the topics now, and which settings changed.
func inputDetail(causes CauseKind, stored *record.GroupMetadata, topics *topology.Configured, s *coordinator.GroupSettings) string {
	var parts []string
	if causes&CauseValidation != 0 {
		if topics.Problem != nil {
			parts = append(parts, topics.Problem.Error())
		} else {
			parts = append(parts, "all topics are there and fit")
		}
	}
	if causes&CauseConfigChange != 0 {
		parts = append(parts, assignmentConfigChanges(stored.AssignmentConfigs, s))
	}
	return strings.Join(parts, "; ")
}

// joined puts explanations together.
func joined(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, "; ")
}
