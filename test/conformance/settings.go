package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/coordd/coordd/config"
)

// ServerSettings are the settings of a node whose answers are compared: those of broker.properties that coordd has,
// and nothing that would answer later, or tell members another interval, than a broker does.
func ServerSettings(properties string) (map[string]string, error) {
	settings := map[string]string{
		"group.streams.heartbeat.hold.ms":               "0",
		"group.streams.rebalance.heartbeat.interval.ms": "0",
	}
	raw, err := os.ReadFile(properties)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("%s: want name=value, not %q", properties, line)
		}
		settings[name] = value
	}
	known := config.Settings()
	for name := range settings {
		if !slices.ContainsFunc(known, func(s config.Setting) bool { return s.Name == name }) {
			delete(settings, name)
		}
	}
	return settings, nil
}
