package streams

import (
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
		parts = append(parts, configDetail(stored.AssignmentConfigs, assignmentConfigs(s)))
	}
	return strings.Join(parts, "; ")
}

// configDetail lists the settings that differ; both lists have their keys ascending.
func configDetail(before, after []record.KeyValue) string {
	var parts []string
	add := func(key, from, to string) {
		if from != to {
			parts = append(parts, key+" "+orUnset(from)+" -> "+orUnset(to))
		}
	}
	for i, j := 0, 0; i < len(before) || j < len(after); {
		switch {
		case j == len(after) || i < len(before) && before[i].Key < after[j].Key:
			add(before[i].Key, before[i].Value, "")
			i++
		case i == len(before) || before[i].Key > after[j].Key:
			add(after[j].Key, "", after[j].Value)
			j++
		default:
			add(after[j].Key, before[i].Value, after[j].Value)
			i, j = i+1, j+1
		}
	}
	return strings.Join(parts, ", ")
}

func orUnset(s string) string {
	if s == "" {
		return "unset"
	}
	return s
}
