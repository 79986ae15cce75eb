package streams

import (
	"strconv"
	"strings"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// Names of the assignment settings that the group record keeps (StreamsGroupMetadataValue.LastAssignmentConfigs). Kafka
// keeps the standbys and the tags; KIP-1071 wants a change of any setting of assignments to be noticed, so that the others
// are kept in the same list. An absent one has the value below, whatever the node's configuration says: so a record is
// Kafka's to the byte as long as nobody sets the others, and records of before compare equal.
const (
	configRecoveryLag = "acceptable.recovery.lag"
	configAssignor    = "assignor.name"
	configStandbys    = "num.standby.replicas"
	configWarmups     = "num.warmup.replicas"
	configRackRule    = "rack.aware.assignment.strategy"
	configRackTags    = "rack.aware.assignment.tags"

	absentRecoveryLag = 10000
	absentAssignor    = "sticky"
	absentWarmups     = 2
	absentRackRule    = coordinator.RackStrategyNone
)

// assignmentConfigs are the settings that a target is made with, as the group record keeps them, keys ascending.
func assignmentConfigs(s *coordinator.GroupSettings) []record.KeyValue {
	var out []record.KeyValue
	if s.AcceptableRecoveryLag != absentRecoveryLag {
		out = append(out, record.KeyValue{Key: configRecoveryLag, Value: strconv.FormatInt(s.AcceptableRecoveryLag, 10)})
	}
	if s.AssignorName != absentAssignor {
		out = append(out, record.KeyValue{Key: configAssignor, Value: s.AssignorName})
	}
	out = append(out, record.KeyValue{Key: configStandbys, Value: strconv.Itoa(int(s.NumStandbyReplicas))})
	if s.NumWarmupReplicas != absentWarmups {
		out = append(out, record.KeyValue{Key: configWarmups, Value: strconv.Itoa(int(s.NumWarmupReplicas))})
	}
	if leadersCount(s) {
		out = append(out, record.KeyValue{Key: configRackRule, Value: s.RackAwareStrategy})
	}
	if len(s.RackAwareTags) > 0 {
		out = append(out, record.KeyValue{Key: configRackTags, Value: strings.Join(s.RackAwareTags, ",")})
	}
	return out
}

// assignmentConfigsEqual compares stored settings with those of now. It allocates nothing.
func assignmentConfigsEqual(stored []record.KeyValue, s *coordinator.GroupSettings) bool {
	rest := stored
	return takeNumber(&rest, configRecoveryLag, s.AcceptableRecoveryLag, s.AcceptableRecoveryLag != absentRecoveryLag) &&
		takeText(&rest, configAssignor, s.AssignorName, s.AssignorName != absentAssignor) &&
		takeNumber(&rest, configStandbys, int64(s.NumStandbyReplicas), true) &&
		takeNumber(&rest, configWarmups, int64(s.NumWarmupReplicas), s.NumWarmupReplicas != absentWarmups) &&
		takeText(&rest, configRackRule, s.RackAwareStrategy, leadersCount(s)) &&
		takeTags(&rest, s.RackAwareTags) &&
		len(rest) == 0
}

// takeNumber says whether the next pair is this one; there is nothing to look at when it is not wanted.
func takeNumber(rest *[]record.KeyValue, key string, n int64, wanted bool) bool {
	if !wanted {
		return true
	}
	var buf [20]byte
	if len(*rest) == 0 || (*rest)[0].Key != key || (*rest)[0].Value != string(strconv.AppendInt(buf[:0], n, 10)) {
		return false
	}
	*rest = (*rest)[1:]
	return true
}

func takeText(rest *[]record.KeyValue, key, text string, wanted bool) bool {
	if !wanted {
		return true
	}
	if len(*rest) == 0 || (*rest)[0] != (record.KeyValue{Key: key, Value: text}) {
		return false
	}
	*rest = (*rest)[1:]
	return true
}

func takeTags(rest *[]record.KeyValue, tags []string) bool {
	if len(tags) == 0 {
		return true
	}
	if len(*rest) == 0 || (*rest)[0].Key != configRackTags || !isJoined((*rest)[0].Value, tags) {
		return false
	}
	*rest = (*rest)[1:]
	return true
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

// assignmentConfigChanges tells people which of the stored settings have other values now.
func assignmentConfigChanges(stored []record.KeyValue, s *coordinator.GroupSettings) string {
	var changes []string
	now := assignmentConfigs(s)
	for _, key := range [...]string{configRecoveryLag, configAssignor, configStandbys, configWarmups, configRackRule, configRackTags} {
		if from, to := assignmentConfig(stored, key), assignmentConfig(now, key); from != to {
			changes = append(changes, key+" "+from+" -> "+to)
		}
	}
	return strings.Join(changes, ", ")
}

// assignmentConfig is the value that a list gives to a setting.
func assignmentConfig(list []record.KeyValue, key string) string {
	for i := range list {
		if list[i].Key == key {
			return list[i].Value
		}
	}
	switch key {
	case configRecoveryLag:
		return strconv.Itoa(absentRecoveryLag)
	case configAssignor:
		return absentAssignor
	case configWarmups:
		return strconv.Itoa(absentWarmups)
	case configRackRule:
		return absentRackRule
	}
	return "unset"
}

// SettingsChanged lets a target that waits for the assignment interval wait no longer than the settings of now say.
func (s *Soft) SettingsChanged(g *fsm.Group, env *Env) {
	if s.AssignmentDue != 0 {
		s.AssignmentDue = min(s.AssignmentDue, max(env.Now, assignmentDue(g, s, env)))
	}
}
