package streams

import (
	"strconv"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
)

// Names of the assignment settings that the group record keeps (StreamsGroupMetadataValue.LastAssignmentConfigs).
const (
	configStandbys = "num.standby.replicas"
	configRackTags = "rack.aware.assignment.tags"
)

// assignmentConfigs are the settings that a target is made with, as the group record keeps them, keys ascending.
func assignmentConfigs(s *coordinator.GroupSettings) []record.KeyValue {
	out := []record.KeyValue{{Key: configStandbys, Value: strconv.Itoa(int(s.NumStandbyReplicas))}}
	if len(s.RackAwareTags) > 0 {
		out = append(out, record.KeyValue{Key: configRackTags, Value: strings.Join(s.RackAwareTags, ",")})
	}
	return out
}

// assignmentConfigsEqual compares stored settings with those of now. It allocates nothing.
func assignmentConfigsEqual(stored []record.KeyValue, s *coordinator.GroupSettings) bool {
	n := 1
	if len(s.RackAwareTags) > 0 {
		n = 2
	}
	if len(stored) != n || stored[0].Key != configStandbys {
		return false
	}
	var buf [12]byte
	if string(strconv.AppendInt(buf[:0], int64(s.NumStandbyReplicas), 10)) != stored[0].Value {
		return false
	}
	return n == 1 || stored[1].Key == configRackTags && isJoined(stored[1].Value, s.RackAwareTags)
}

// isJoined reports whether joined is the comma-separated list of parts.
func isJoined(joined string, parts []string) bool {
	for i, p := range parts {
		if i > 0 {
			if !strings.HasPrefix(joined, ",") {
				return false
			}
			joined = joined[1:]
		}
		if !strings.HasPrefix(joined, p) {
			return false
		}
		joined = joined[len(p):]
	}
	return joined == ""
}
