package web

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Imports is how groups are taken over from the coordinator of the Kafka behind, and given back to it. Errors are a [Refusal]
// wherever it is known what to do.
type Imports interface {
	// Origin shows what the Kafka behind has of a group, from the leader of its shard. It changes nothing.
	Origin(ctx context.Context, group string) (GroupOrigin, error)
	// LocalOrigin is Origin where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalOrigin(ctx context.Context, group string) (GroupOrigin, error)
	// Import takes a group without members over.
	Import(ctx context.Context, r ImportRequest) (Imported, error)
	// LocalImport is Import where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalImport(ctx context.Context, r ImportRequest) (Imported, error)
	// Export gives a group without members back: it is no longer coordd's, and its offsets are in the Kafka behind.
	Export(ctx context.Context, r ExportRequest) (Exported, error)
	// LocalExport is Export where this node leads the group's shard; else it refuses as [Elsewhere].
	LocalExport(ctx context.Context, r ExportRequest) (Exported, error)
	// LocalSetOwn gives a group settings of its own where this node leads the system shard; else it refuses as [Elsewhere].
	LocalSetOwn(ctx context.Context, r OwnSettings) error
}

// GroupOrigin is what the Kafka behind has of a group, and how it stands with coordd.
type GroupOrigin struct {
	Group string `json:"group"`
	// Type is "classic", "consumer", "share" or "streams"; empty where the Kafka behind has no such group. Protocol is the protocol
	// type of a classic one: "consumer" for apps, "coordd" for what holds the offsets of a group of coordd's.
	Type     string `json:"type"`
	Protocol string `json:"protocol"`
	State    string `json:"state"`
	// Epoch and TopologyEpoch are those of a streams group; -1 for none.
	Epoch         int32          `json:"epoch"`
	TopologyEpoch int32          `json:"topologyEpoch"`
	Members       []OriginMember `json:"members"`
	// Subtopologies are those of a streams group, without what Kafka does not tell: patterns.
	Subtopologies []GroupSubtopology `json:"subtopologies"`
	// Settings are those that the Kafka behind has for this group.
	Settings []OriginSetting `json:"settings"`
	// Offsets are committed there or, of a group that keeps them in store raft, in coordd. Lag is the sum of what is left to read, as
	// far as that is known, -1 where nothing is; LagUnknown counts the partitions that it is without.
	Offsets    []OriginOffset `json:"offsets"`
	Lag        int64          `json:"lag"`
	LagUnknown int            `json:"lagUnknown"`
	// Held says that coordd has a group of that id, HeldState its state and HeldStore where its offsets are kept: "upstream" or
	// "raft".
	Held      bool   `json:"held"`
	HeldState string `json:"heldState,omitempty"`
	HeldStore string `json:"heldStore,omitempty"`
	// NoImport and NoExport say why the group cannot be taken over, or given back, now, and what to do; empty where it can.
	NoImport string `json:"noImport,omitempty"`
	NoExport string `json:"noExport,omitempty"`
	// MayBeHeld says that a coordd cluster had the group last and may have it still, which cannot be seen while it has no members
	// there: it is only taken over where ImportRequest.FromCoordd says that none has.
	MayBeHeld bool `json:"mayBeHeld,omitempty"`
	// Notes say what is good to know before.
	Notes []string `json:"notes"`
}

// OriginMember is a member of the group in the Kafka behind.
type OriginMember struct {
	Member     string `json:"member"`
	InstanceID string `json:"instanceId,omitempty"`
	ClientID   string `json:"clientId"`
	Host       string `json:"host"`
}

// OriginSetting is a setting of the group in the Kafka behind.
type OriginSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Problem says why it is not taken over; empty where it is.
	Problem string `json:"problem,omitempty"`
}

// OriginOffset is a committed offset. Offsets are -1 where there is none, or it is not known.
type OriginOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	// Start and End are where the partition's log starts and ends, Lag is how many offsets are left to the end.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	Lag   int64 `json:"lag"`
	// Problem says what the app will meet there; empty where nothing is wrong.
	Problem string `json:"problem,omitempty"`
}

// ImportRequest asks for a group to be taken over.
type ImportRequest struct {
	Group string `json:"group"`
	// FromCoordd says that no other coordd cluster has the group any more: see GroupOrigin.MayBeHeld.
	FromCoordd bool `json:"fromCoordd"`
}

// Imported is what came of an ImportRequest.
type Imported struct {
	Group string `json:"group"`
	// Epoch and TopologyEpoch are those that the group has; the second is -1 while it has no topology.
	Epoch         int32 `json:"epoch"`
	TopologyEpoch int32 `json:"topologyEpoch"`
	// Offsets counts the partitions with a committed offset, which stay in the Kafka behind.
	Offsets int `json:"offsets"`
	// Settings are those that were taken over.
	Settings []OriginSetting `json:"settings"`
}

// ExportRequest asks for a group to be given back.
type ExportRequest struct {
	Group string `json:"group"`
}

// Exported is what came of an ExportRequest.
type Exported struct {
	Group string `json:"group"`
	// Offsets counts the partitions with a committed offset in the Kafka behind.
	Offsets int `json:"offsets"`
}

// OwnSettings are settings that a group is to have of its own.
type OwnSettings struct {
	Group    string          `json:"group"`
	Settings []OriginSetting `json:"settings"`
}

// originTimeout bounds the question as its client sees it: the Kafka behind is asked for the group, its offsets and the ends of logs.
const originTimeout = 30 * time.Second

// Origin asks what the Kafka behind has of a group.
func (c Client) Origin(ctx context.Context, group string) (GroupOrigin, error) {
	var o GroupOrigin
	return o, c.question(ctx, originTimeout, "/v1/group/origin?id="+url.QueryEscape(group), &o)
}

// Import takes a group over from the Kafka behind.
func (c Client) Import(ctx context.Context, r ImportRequest) (Imported, error) {
	var i Imported
	return i, c.post(ctx, "/v1/group/import", r, &i)
}

// Export gives a group back to the Kafka behind.
func (c Client) Export(ctx context.Context, r ExportRequest) (Exported, error) {
	var e Exported
	return e, c.post(ctx, "/v1/group/export", r, &e)
}

// SetOwn gives a group settings of its own; only other nodes can ask for that.
func (c Client) SetOwn(ctx context.Context, r OwnSettings) error {
	return c.post(ctx, "/v1/group/settings", r, &struct{}{})
}

// origin serves the question what the Kafka behind has of a group.
func origin(find func(ctx context.Context, group string) (GroupOrigin, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		var refused *Refusal
		switch id := query["id"]; {
		case err != nil:
			refused = Refuse(NotAllowed, "the query is malformed: %v", err)
		case len(query) > 1 || len(id) != 1 || id[0] == "":
			refused = Refuse(NotAllowed, "the query names the group by one parameter id and has no other")
		}
		if refused != nil {
			answerWith(w, nil, refused)
			return
		}
		o, err := find(r.Context(), query.Get("id"))
		answerWith(w, o, err)
	}
}
