//go:build e2e

package e2e

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// placementZones: standbys go to another zone than the active task's; an instance without a zone is told so, and gets tasks.
func placementZones(t *testing.T, p *placement) {
	p.config(t, "streams.rack.aware.assignment.tags", "zone")
	zones := map[string]string{"one": "a", "two": "a", "three": "b"}
	for name, zone := range zones {
		p.launch(t, map[string]string{"client.tag.zone": zone}, name)
	}
	for task, owner := range p.settle(t) {
		if keeps := p.standbyOf(t, task); zones[keeps] == zones[owner] {
			t.Errorf("%s runs at %s with its standby at %s: both are in zone %s", task, owner, keeps, zones[owner])
		}
	}
	p.launch(t, nil, "four")
	logged(t, p.apps["four"], regexp.MustCompile(`Missing required client tags for rack-aware standby assignment: \[zone\]`))
	p.settle(t)
	if s := p.apps["four"].State(); len(s.Active)+len(s.Standby) == 0 {
		t.Errorf("the instance without a zone has no tasks: %+v", s)
	}
	closeApps(t, slices.Collect(maps.Values(p.apps)))
}
