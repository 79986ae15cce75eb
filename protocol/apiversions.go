package protocol

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// Role says whom a client port stands for.
type Role uint8

// Roles.
const (
	// BrokerPort stands for one upstream broker.
	BrokerPort Role = iota
	// CoordinatorPort stands for the coordd node itself, a group coordinator without partitions.
	CoordinatorPort
)

// VersionRange is an API key with the versions that a node serves.
type VersionRange struct{ Key, Min, Max int16 }

// ownVersions are the APIs that a coordinator port lists in full, whatever the upstream serves: an own group needs them
// at the versions that carry member epochs (OffsetCommit below v9 is refused for streams groups), and what has to go
// upstream for it is written anew. For any other group at a version that the upstream does not know, NOT_COORDINATOR
// sends the client to the upstream's port.
var ownVersions = []int16{
	KeyOffsetCommit, KeyOffsetFetch, KeyListGroups, KeyTxnOffsetCommit, KeyDeleteGroups, KeyOffsetDelete,
}

// telemetry are the keys of KIP-714, which only an upstream broker can answer.
var telemetry = []int16{71, 72}

// Intersect returns what a port lists in ApiVersions, ascending by key: the versions that both sides know for what may
// be forwarded, and coordd's own where it answers alone. Keys in hide are left out. upstream may be nil while the
// upstream is not known yet.
func Intersect(upstream []VersionRange, role Role, hide ...int16) []VersionRange {
	var theirs [len(apis)]VersionRange
	for i := range theirs {
		theirs[i] = VersionRange{int16(i), 0, -1}
	}
	for _, r := range upstream {
		if r.Key >= 0 && int(r.Key) < len(theirs) {
			theirs[r.Key] = r
		}
	}
	var out []VersionRange
	for _, api := range apis {
		own := VersionRange{api.Key, api.Min, api.Max}
		switch {
		case api.Action == Reject || slices.Contains(hide, api.Key):
			continue
		case role == CoordinatorPort && slices.Contains(telemetry, api.Key):
			continue
		case api.Action == Local || role == CoordinatorPort && slices.Contains(ownVersions, api.Key):
		default:
			own.Min = max(own.Min, theirs[api.Key].Min)
			own.Max = min(own.Max, theirs[api.Key].Max)
		}
		if own.Min <= own.Max {
			out = append(out, own)
		}
	}
	return out
}

// Features are a cluster's feature levels. They are passed on as the upstream states them: clients keep the finalized
// features of the node with the highest epoch.
type Features struct {
	Supported []SupportedFeature
	Finalized []FinalizedFeature
	// Epoch is the version of Finalized; -1 when unknown.
	Epoch int64
}

// SupportedFeature is the range of levels that a broker can run.
type SupportedFeature struct {
	Name     string
	Min, Max int16
}

// FinalizedFeature is the range of levels that the cluster runs.
type FinalizedFeature struct {
	Name     string
	Min, Max int16
}

// ApiVersions is a request of API key 18. ClusterID and NodeID are what the client expects to talk to (KIP-1242); they
// are nil and -1 when it does not say.
type ApiVersions struct {
	SoftwareName    string
	SoftwareVersion string
	ClusterID       *string
	NodeID          int32
}

// DecodeApiVersions reads an ApiVersionsRequest v0–5.
func DecodeApiVersions(version int16, body []byte) (*ApiVersions, error) {
	var k kmsg.ApiVersionsRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	req := &ApiVersions{SoftwareName: k.ClientSoftwareName, SoftwareVersion: k.ClientSoftwareVersion, ClusterID: k.ClusterID, NodeID: -1}
	if version >= 5 {
		req.NodeID = k.NodeID
	}
	return req, nil
}

// ValidSoftware says whether name and version of the client follow KIP-511, for requests of v3 and later. A broker
// answers INVALID_REQUEST otherwise.
func (r *ApiVersions) ValidSoftware() bool {
	return validSoftware(r.SoftwareName) && validSoftware(r.SoftwareVersion)
}

// validSoftware matches [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? (ApiVersionsRequest.java).
func validSoftware(s string) bool {
	alnum := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	if s == "" || !alnum(s[0]) || !alnum(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !alnum(s[i]) && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return true
}

// AppendApiVersions appends the frame of an ApiVersionsResponse v0–5. code is None, or INVALID_REQUEST for a client
// whose software is not named as KIP-511 demands; ranges are listed all the same, as Kafka does.
func AppendApiVersions(dst []byte, h Header, code coordinator.Code, ranges []VersionRange, features *Features) []byte {
	k := kmsg.NewPtrApiVersionsResponse()
	k.ErrorCode = int16(code)
	for _, r := range ranges {
		k.ApiKeys = append(k.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: r.Key, MinVersion: r.Min, MaxVersion: r.Max})
	}
	if features != nil && h.Version >= 3 {
		k.FinalizedFeaturesEpoch = features.Epoch
		for _, f := range features.Supported {
			if f.Min == 0 && h.Version < 4 {
				continue // older clients fail on a minimum of 0 (KAFKA-17011)
			}
			k.SupportedFeatures = append(k.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.Name, MinVersion: f.Min, MaxVersion: f.Max})
		}
		for _, f := range features.Finalized {
			k.FinalizedFeatures = append(k.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.Name, MaxVersionLevel: f.Max, MinVersionLevel: f.Min})
		}
	}
	return AppendResponse(dst, h, k)
}

// AppendUnsupportedApiVersions answers an ApiVersions request of a version that is not served: v0 with
// UNSUPPORTED_VERSION and the range of ApiVersions, so that the client can ask again (KIP-511).
func AppendUnsupportedApiVersions(dst []byte, correlation int32) []byte {
	own := apis[KeyApiVersions]
	h := Header{Key: KeyApiVersions, Version: 0, Correlation: correlation}
	return AppendApiVersions(dst, h, coordinator.UnsupportedVersion, []VersionRange{{own.Key, own.Min, own.Max}}, nil)
}

// ReadApiVersionsResponse reads the body of an upstream's ApiVersionsResponse into what [Intersect] and
// [AppendApiVersions] take.
func ReadApiVersionsResponse(version int16, body []byte) (code coordinator.Code, ranges []VersionRange, features *Features, err error) {
	k := kmsg.NewPtrApiVersionsResponse()
	k.Version = version
	if err := k.ReadFrom(body); err != nil {
		return 0, nil, nil, ErrMalformed
	}
	for _, r := range k.ApiKeys {
		ranges = append(ranges, VersionRange{r.ApiKey, r.MinVersion, r.MaxVersion})
	}
	features = &Features{Epoch: k.FinalizedFeaturesEpoch}
	for _, f := range k.SupportedFeatures {
		features.Supported = append(features.Supported, SupportedFeature{f.Name, f.MinVersion, f.MaxVersion})
	}
	for _, f := range k.FinalizedFeatures {
		features.Finalized = append(features.Finalized, FinalizedFeature{f.Name, f.MinVersionLevel, f.MaxVersionLevel})
	}
	return coordinator.Code(k.ErrorCode), ranges, features, nil
}
