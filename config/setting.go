package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is how the text of a setting is read.
type kind int

const (
	kindInt kind = iota
	kindString
	kindList
	kindBool
	kindPeers
)

// Setting describes one setting. Durations carry their unit in the name, as in Kafka.
type Setting struct {
	// Name is the flat name, such as "group.streams.session.timeout.ms".
	Name string
	// Help is one sentence for people.
	Help string
	// Default is the value when no source sets it, as text.
	Default string

	kind     kind
	min, max int64
	allowed  []string
}

// Env is the name of the environment variable that sets the setting.
func (s Setting) Env() string {
	return "COORDD_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// Allowed tells people what the setting accepts.
func (s Setting) Allowed() string {
	switch {
	case len(s.allowed) > 0 && s.kind == kindList:
		return "one or more of " + strings.Join(s.allowed, ", ") + ", separated by commas"
	case len(s.allowed) > 0:
		return "one of " + strings.Join(s.allowed, ", ")
	case s.kind == kindInt && s.max == math.MaxInt32:
		return fmt.Sprintf("a whole number, %d or more", s.min)
	case s.kind == kindInt:
		return fmt.Sprintf("a whole number from %d to %d", s.min, s.max)
	case s.kind == kindBool:
		return "true or false"
	case s.kind == kindList:
		return "names separated by commas, each once"
	case s.kind == kindPeers:
		return "a list of {id, raft, client}, or id=raftHost:port/clientHost:port separated by commas"
	}
	return "text"
}

func (s Setting) errorf(value, why string) error {
	return &Error{Setting: s.Name, Value: value, Allowed: s.Allowed(), Why: why}
}

// Error is a setting that was refused.
type Error struct {
	Setting string
	Value   string
	Allowed string
	Why     string
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("setting %s: value %q is not allowed", e.Setting, e.Value)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text + " (allowed: " + e.Allowed + ")"
}

func (s Setting) parseInt(value string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < s.min || n > s.max {
		return 0, s.errorf(value, "")
	}
	return n, nil
}

func (s Setting) parseString(value string) (string, error) {
	if len(s.allowed) > 0 && !slices.Contains(s.allowed, value) {
		return "", s.errorf(value, "")
	}
	return value, nil
}

func (s Setting) parseList(value string) ([]string, error) {
	var list []string
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		if slices.Contains(list, item) {
			return nil, s.errorf(value, fmt.Sprintf("%q stands twice", item))
		}
		if len(s.allowed) > 0 && !slices.Contains(s.allowed, item) {
			return nil, s.errorf(value, fmt.Sprintf("%q is unknown", item))
		}
		list = append(list, item)
	}
	return list, nil
}

func (s Setting) parseBool(value string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, s.errorf(value, "")
}

// Settings lists every setting in the order in which they are documented.
func Settings() []Setting { return slices.Clone(settings) }

func lookup(name string) (Setting, bool) {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return settings[i], true
}

// unknown makes the error for a name that is no setting, with the nearest name where one is near.
func unknown(name, value, source string) error {
	why := "no such setting (" + source + ")"
	best, bestDistance := "", 4
	for _, s := range settings {
		if d := distance(s.Name, name); d < bestDistance {
			best, bestDistance = s.Name, d
		}
	}
	if best != "" {
		why += "; did you mean " + best + "?"
	}
	return &Error{Setting: name, Value: value, Allowed: "the names that 'coordd serve --help-settings' prints", Why: why}
}

// distance is the Levenshtein distance of two short strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		previous := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := previous
			if a[i] != b[j] {
				cost = 1 + min(previous, row[j], row[j+1])
			}
			previous, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
