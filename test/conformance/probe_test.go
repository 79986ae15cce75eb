package conformance

import "testing"

func TestProbeGroupsHaveTheHashOfTheirGroup(t *testing.T) {
	for _, group := range []string{"", "a", "o-endpoints-s", "o-repartition-unresolvable-s-4"} {
		r := &runner{s: &Scenario{id: group}}
		first := r.probeGroup(group)
		for _, probe := range []string{first, r.probeGroup(group)} {
			if javaHash([]rune(probe)) != javaHash([]rune(group)) {
				t.Errorf("%q has another hash than %q", probe, group)
			}
		}
		if r.probeGroup(group) == first {
			t.Errorf("%q is not fresh", first)
		}
	}
	if h := javaHash([]rune("hello")); h != 99162322 { // "hello".hashCode()
		t.Errorf("hash of hello is %d", h)
	}
}
