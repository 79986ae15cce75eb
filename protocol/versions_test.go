package protocol

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

func TestTable(t *testing.T) {
	t.Parallel()
	if len(apis) != kmsg.MaxKey+1 {
		t.Fatalf("%d keys, kmsg knows %d", len(apis), kmsg.MaxKey+1)
	}
	for i, a := range apis {
		if int(a.Key) != i {
			t.Errorf("key %d at index %d", a.Key, i)
		}
		if a.Max > kmsg.RequestForKey(a.Key).MaxVersion() {
			t.Errorf("%s: v%d, kmsg knows v%d", a.Name, a.Max, kmsg.RequestForKey(a.Key).MaxVersion())
		}
		if a.Name == "" {
			t.Errorf("key %d has no name", a.Key)
		}
	}
	for _, c := range []struct {
		key, version int16
		want         bool
	}{
		{88, 0, true}, {88, 1, true}, {88, 2, false}, {88, -1, false}, {93, 0, false}, {0, 0, true}, {0, 14, false},
		{8, 1, false}, {8, 2, true}, {4, 0, false}, {52, 0, false}, {-1, 0, false}, {95, 0, false}, {18, 5, true}, {18, 6, false},
	} {
		if got := Supported(c.key, c.version); got != c.want {
			t.Errorf("Supported(%d, %d) = %v", c.key, c.version, got)
		}
	}
}

func find(ranges []VersionRange, key int16) (VersionRange, bool) {
	i := slices.IndexFunc(ranges, func(r VersionRange) bool { return r.Key == key })
	if i < 0 {
		return VersionRange{}, false
	}
	return ranges[i], true
}

func TestIntersect(t *testing.T) {
	t.Parallel()
	// An upstream like Kafka 3.5: no KIP-1071, OffsetCommit without member epochs; and some things that must not pass.
	old := []VersionRange{
		{0, 0, 9}, {1, 0, 15}, {3, 0, 12}, {8, 0, 8}, {9, 0, 8}, {10, 0, 4}, {16, 0, 4}, {18, 0, 3}, {28, 0, 3}, {52, 0, 0},
		{71, 0, 0}, {72, 0, 0}, {75, 0, 0}, {88, 0, 0}, {93, 0, 0}, {3000, 0, 1}, {-1, 0, 1},
	}
	for _, c := range []struct {
		role Role
		key  int16
		want VersionRange
		ok   bool
	}{
		{BrokerPort, 0, VersionRange{0, 0, 9}, true},
		{BrokerPort, 1, VersionRange{1, 4, 15}, true},
		{BrokerPort, 8, VersionRange{8, 2, 8}, true},
		{CoordinatorPort, 8, VersionRange{8, 2, 10}, true},
		{CoordinatorPort, 9, VersionRange{9, 1, 10}, true},
		{CoordinatorPort, 28, VersionRange{28, 0, 6}, true},
		{CoordinatorPort, 10, VersionRange{10, 0, 4}, true},
		{BrokerPort, 18, VersionRange{18, 0, 5}, true},
		{BrokerPort, 88, VersionRange{88, 0, 1}, true},
		{CoordinatorPort, 88, VersionRange{88, 0, 1}, true},
		{BrokerPort, 89, VersionRange{89, 0, 1}, true},
		{BrokerPort, 93, VersionRange{}, false},
		{BrokerPort, 52, VersionRange{}, false},
		{BrokerPort, 71, VersionRange{71, 0, 0}, true},
		{CoordinatorPort, 71, VersionRange{}, false},
		{BrokerPort, 75, VersionRange{}, false}, // hidden
		{BrokerPort, 68, VersionRange{}, false}, // not upstream
	} {
		got, ok := find(Intersect(old, c.role, 75), c.key)
		if ok != c.ok || got != c.want {
			t.Errorf("role %d key %d: %+v %v, want %+v %v", c.role, c.key, got, ok, c.want, c.ok)
		}
	}
	ranges := Intersect(old, BrokerPort)
	if !slices.IsSortedFunc(ranges, func(a, b VersionRange) int { return int(a.Key) - int(b.Key) }) {
		t.Error("not ascending")
	}
	if none := Intersect(nil, BrokerPort); len(none) != 3 {
		t.Errorf("without an upstream: %+v", none)
	}
}

func TestApiVersions(t *testing.T) {
	t.Parallel()
	ranges := []VersionRange{{18, 0, 5}, {88, 0, 1}}
	features := &Features{
		Supported: []SupportedFeature{{"kraft.version", 0, 1}, {"metadata.version", 7, 29}},
		Finalized: []FinalizedFeature{{"transaction.version", 2, 2}}, Epoch: 41,
	}
	for v := int16(0); v <= 5; v++ {
		h := Header{Key: KeyApiVersions, Version: v, Correlation: 6}
		frame := AppendApiVersions(nil, h, coordinator.None, ranges, features)
		answer(t, h, frame, kmsg.NewPtrApiVersionsResponse())
		_, body, err := ResponseBody(h.Key, v, frame[4:])
		if err != nil {
			t.Fatal(err)
		}
		code, gotRanges, got, err := ReadApiVersionsResponse(v, body)
		if err != nil || code != 0 || !cmp.Equal(ranges, gotRanges) {
			t.Errorf("v%d: %d %+v %v", v, code, gotRanges, err)
		}
		want := *features
		switch {
		case v < 3:
			want = Features{Epoch: -1}
		case v < 4: // a minimum of 0 breaks older clients
			want.Supported = want.Supported[1:]
		}
		if d := cmp.Diff(&want, got); d != "" {
			t.Errorf("v%d features (-want +got):\n%s", v, d)
		}
	}
}

func TestUnsupportedApiVersions(t *testing.T) {
	t.Parallel()
	h := Header{Key: KeyApiVersions, Version: 0, Correlation: 8}
	resp := answer(t, h, AppendUnsupportedApiVersions(nil, 8), kmsg.NewPtrApiVersionsResponse())
	if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 5 {
		t.Errorf("%+v", resp)
	}
}

func TestDecodeApiVersions(t *testing.T) {
	t.Parallel()
	cluster := "c"
	for v := int16(0); v <= 5; v++ {
		k := kmsg.NewPtrApiVersionsRequest()
		k.Version, k.ClientSoftwareName, k.ClientSoftwareVersion, k.ClusterID, k.NodeID = v, "apache-kafka-java", "4.4.0", &cluster, 7
		want := &ApiVersions{NodeID: -1}
		if v >= 3 {
			want.SoftwareName, want.SoftwareVersion = "apache-kafka-java", "4.4.0"
		}
		if v >= 5 {
			want.ClusterID, want.NodeID = &cluster, 7
		}
		got, err := DecodeApiVersions(v, k.AppendTo(nil))
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("v%d: %+v, %v", v, got, err)
		}
	}
	for name, want := range map[string]bool{"a": true, "apache-kafka-java": true, "4.4.0": true, "": false, "-a": false, "a.": false, "a b": false, "a(b)c": false} {
		if got := (&ApiVersions{SoftwareName: name, SoftwareVersion: "1"}).ValidSoftware(); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
