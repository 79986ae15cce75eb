package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves the admin port.
func Handler(c Cluster, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	if registry != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, c.Status(r.Context())) })
	mux.HandleFunc("GET /v1/node", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, c.Local()) })
	mux.HandleFunc("GET /v1/groups", func(w http.ResponseWriter, r *http.Request) { groups(c, w, r) })
	mux.HandleFunc("GET /v1/group", func(w http.ResponseWriter, r *http.Request) {
		group(w, r, func(id string) (GroupDetail, bool) { return c.Group(r.Context(), id) })
	})
	mux.HandleFunc("GET /v1/group/journal", func(w http.ResponseWriter, r *http.Request) {
		journal(w, r, func(id string) (GroupJournal, error) { return c.Journal(r.Context(), id) })
	})
	mux.HandleFunc("GET /v1/group/topology", func(w http.ResponseWriter, r *http.Request) {
		groupTopology(w, r, func(id string) (GroupTopology, bool) { return c.Topology(r.Context(), id) })
	})
	mux.HandleFunc("GET /v1/group/plan", plan(c.Plan))
	mux.HandleFunc("GET /v1/group/offsets", groupOffsets(c.Offsets))
	mux.HandleFunc("POST /v1/group/offsets/reset", byOperator(changeUpTo(maxReset, c.ResetOffsets)))
	mux.HandleFunc("GET /v1/group/origin", origin(c.Origin))
	mux.HandleFunc("POST /v1/group/import", byOperator(change(c.Import)))
	mux.HandleFunc("POST /v1/group/export", byOperator(change(c.Export)))
	mux.HandleFunc("POST /v1/group/offsets/move", byOperator(change(c.MoveOffsets)))
	mux.HandleFunc("POST /v1/group/topology/abort", byOperator(change(c.AbortTopology)))
	mux.HandleFunc("POST /v1/leaders/move", byOperator(change(c.MoveLeader)))
	mux.HandleFunc("POST /v1/leaders/drain", byOperator(change(c.DrainNode)))
	// Profiles, for `go tool pprof http://HOST/debug/pprof/profile`.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	return mux
}

// NodeHandler serves what other nodes ask this one.
func NodeHandler(c Cluster) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/group", func(w http.ResponseWriter, r *http.Request) { group(w, r, c.LocalGroup) })
	mux.HandleFunc("GET /v1/group/journal", func(w http.ResponseWriter, r *http.Request) { journal(w, r, c.LocalJournal) })
	mux.HandleFunc("GET /v1/group/topology", func(w http.ResponseWriter, r *http.Request) { groupTopology(w, r, c.LocalTopology) })
	mux.HandleFunc("GET /v1/group/plan", plan(c.LocalPlan))
	mux.HandleFunc("GET /v1/group/offsets", groupOffsets(c.LocalOffsets))
	mux.HandleFunc("POST /v1/group/offsets/reset", changeUpTo(maxReset, c.LocalResetOffsets))
	mux.HandleFunc("GET /v1/group/origin", origin(c.LocalOrigin))
	mux.HandleFunc("POST /v1/group/import", change(c.LocalImport))
	mux.HandleFunc("POST /v1/group/export", change(c.LocalExport))
	mux.HandleFunc("POST /v1/group/settings", change(func(ctx context.Context, r OwnSettings) (struct{}, error) {
		return struct{}{}, c.LocalSetOwn(ctx, r)
	}))
	mux.HandleFunc("POST /v1/group/offsets/move", change(c.LocalMoveOffsets))
	mux.HandleFunc("GET /v1/node", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, c.Local()) })
	mux.HandleFunc("POST /v1/group/topology/abort", change(c.LocalAbortTopology))
	mux.HandleFunc("POST /v1/leaders/move", change(c.LocalMoveLeader))
	mux.HandleFunc("POST /v1/leaders/drain", change(c.LocalDrainNode))
	mux.HandleFunc("POST /v1/leaders/keep", change(func(ctx context.Context, r KeepRequest) (struct{}, error) {
		return struct{}{}, c.LocalKeepLeader(ctx, r)
	}))
	return mux
}

// States are the states that a list of groups can be limited to, in any case of letters.
var States = []string{"Empty", "NotReady", "Assigning", "Reconciling", "Stable"}

func groups(c Cluster, w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	if !slices.ContainsFunc(States, func(s string) bool { return state == "" || strings.EqualFold(s, state) }) {
		answer(w, http.StatusBadRequest, Problem{Error: fmt.Sprintf("state %q is not allowed (allowed: %s)", state, strings.Join(States, ", "))})
		return
	}
	list := []GroupSummary{}
	for _, g := range c.Groups() {
		if state == "" || strings.EqualFold(g.State, state) {
			list = append(list, g)
		}
	}
	answer(w, http.StatusOK, list)
}

func group(w http.ResponseWriter, r *http.Request, find func(id string) (GroupDetail, bool)) {
	id := r.URL.Query().Get("id")
	detail, ok := find(id)
	if !ok {
		answer(w, http.StatusNotFound, Problem{Error: noGroup(id)})
		return
	}
	answer(w, http.StatusOK, detail)
}

func noGroup(id string) string { return fmt.Sprintf("group %q is %v", id, ErrNoGroup) }

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(body) // a client that is gone needs no answer
}
