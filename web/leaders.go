package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"time"
)

// Leaders is how operators move the leadership of shards. Errors are a [Refusal] wherever it is known what to do.
type Leaders interface {
	// MoveLeader has a node lead a shard, and keeps the shard there until that node loses the leadership. It returns when
	// the node serves the shard.
	MoveLeader(ctx context.Context, r MoveRequest) (Moved, error)
	// DrainNode moves all that a node leads to others and keeps it from leading, or with Undo ends that.
	DrainNode(ctx context.Context, r DrainRequest) (Drained, error)
	// LocalMoveLeader is MoveLeader where this node leads the shard; else it refuses as [Elsewhere].
	LocalMoveLeader(ctx context.Context, r MoveRequest) (Moved, error)
	// LocalKeepLeader keeps a shard that this node was just given.
	LocalKeepLeader(ctx context.Context, r KeepRequest) error
	// LocalDrainNode is DrainNode of this node.
	LocalDrainNode(ctx context.Context, r DrainRequest) (Drained, error)
}

// MoveRequest asks for a node to lead a shard; -1 is the system shard.
type MoveRequest struct {
	Shard int   `json:"shard"`
	To    int32 `json:"to"`
}

// Moved is what came of a MoveRequest.
type Moved struct {
	Shard int `json:"shard"`
	// From led the shard before, Leader leads it now; the same where nothing had to move.
	From   int32 `json:"from"`
	Leader int32 `json:"leader"`
}

// KeepRequest asks a node to keep the leadership of a shard.
type KeepRequest struct {
	Shard int `json:"shard"`
}

// DrainRequest asks for a node to be drained, or to be taken back.
type DrainRequest struct {
	Node int32 `json:"node"`
	Undo bool  `json:"undo"`
}

// Drained is what came of a DrainRequest.
type Drained struct {
	Node    int32 `json:"node"`
	Drained bool  `json:"drained"`
	// Shards are those that the node led, empty after an undo.
	Shards []DrainedShard `json:"shards"`
}

// DrainedShard is one shard that a drained node led.
type DrainedShard struct {
	Shard int `json:"shard"`
	// Leader leads the shard now; -1 while that is not known.
	Leader int32 `json:"leader"`
	// Problem says why the shard stays with the node for now; empty where it moved.
	Problem string `json:"problem,omitempty"`
}

// RefusalKind says what kind of reason a change was refused for.
type RefusalKind int

// The kinds, as statuses of HTTP.
const (
	NotAllowed RefusalKind = http.StatusBadRequest         // a value that is not allowed
	NotFound   RefusalKind = http.StatusNotFound           // no such group
	Conflict   RefusalKind = http.StatusConflict           // not in the state that the cluster is in
	NoLeader   RefusalKind = http.StatusServiceUnavailable // the shard has no leader
	Elsewhere  RefusalKind = http.StatusMisdirectedRequest // this node does not lead the shard
)

// Refusal is why a change was not made, and what to do.
type Refusal struct {
	Kind RefusalKind
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// Refuse makes a Refusal.
func Refuse(kind RefusalKind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// MoveLeader has a node lead a shard.
func (c Client) MoveLeader(ctx context.Context, r MoveRequest) (Moved, error) {
	var m Moved
	return m, c.post(ctx, "/v1/leaders/move", r, &m)
}

// KeepLeader has the node keep the leadership of a shard; only other nodes can ask for that.
func (c Client) KeepLeader(ctx context.Context, r KeepRequest) error {
	return c.post(ctx, "/v1/leaders/keep", r, &struct{}{})
}

// DrainNode drains a node or takes it back.
func (c Client) DrainNode(ctx context.Context, r DrainRequest) (Drained, error) {
	var d Drained
	return d, c.post(ctx, "/v1/leaders/drain", r, &d)
}

// changeTimeout bounds a change as its client sees it: longer than nodes work on one.
const changeTimeout = 30 * time.Second

func (c Client) post(ctx context.Context, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return refusal(c.do(ctx, http.MethodPost, path, content, into))
}

// maxChange bounds the body of a change, in bytes.
const maxChange = 4096

// change serves a request that changes something: JSON with exactly the fields of R, all of them.
func change[R, A any](act func(ctx context.Context, r R) (A, error)) http.HandlerFunc {
	return changeUpTo(maxChange, act)
}

// changeUpTo is change with a bound of its own for the body.
func changeUpTo[R, A any](limit int64, act func(ctx context.Context, r R) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request R
		if refusal := readChange(w, r, limit, &request); refusal != nil {
			answer(w, refusal.status, Problem{Error: refusal.text})
			return
		}
		result, err := act(r.Context(), request)
		answerWith(w, result, err)
	}
}

// answerWith answers with the result, or with why there is none.
func answerWith(w http.ResponseWriter, result any, err error) {
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		answer(w, int(refused.Kind), Problem{Error: refused.Text})
	case err != nil:
		answer(w, http.StatusInternalServerError, Problem{Error: err.Error()})
	default:
		answer(w, http.StatusOK, result)
	}
}

func readChange(w http.ResponseWriter, r *http.Request, limit int64, into any) *statusError {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &statusError{status: http.StatusUnsupportedMediaType, text: "a change is sent as application/json"}
	}
	var fields map[string]json.RawMessage
	body := http.MaxBytesReader(w, r.Body, limit)
	if err := json.NewDecoder(body).Decode(&fields); err != nil {
		return &statusError{status: http.StatusBadRequest, text: fmt.Sprintf("the body is not a JSON object: %v", err)}
	}
	for name, value := range fields {
		if string(value) == "null" {
			return &statusError{status: http.StatusBadRequest, text: fmt.Sprintf("field %q must not be null", name)}
		}
	}
	for _, name := range fieldsOf(into) {
		if _, ok := fields[name]; !ok {
			return &statusError{status: http.StatusBadRequest, text: fmt.Sprintf("field %q is missing", name)}
		}
		content, _ := json.Marshal(map[string]json.RawMessage{name: fields[name]}) // was JSON before
		if err := json.Unmarshal(content, into); err != nil {
			return &statusError{status: http.StatusBadRequest, text: fmt.Sprintf("field %q: %v", name, err)}
		}
		delete(fields, name)
	}
	for name := range fields {
		return &statusError{status: http.StatusBadRequest, text: fmt.Sprintf("field %q is unknown", name)}
	}
	return nil
}

// fieldsOf are the names of the fields of a request.
func fieldsOf(request any) (names []string) {
	content, err := json.Marshal(request)
	var fields map[string]any
	if err != nil || json.Unmarshal(content, &fields) != nil {
		return nil
	}
	for name := range fields {
		names = append(names, name)
	}
	return names
}

// byOperator lets changes through that an operator on this machine asks for: nobody from elsewhere, and no web page, in
// whatever way a browser came to send it (browsers name the page's origin on every POST).
func byOperator(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			answer(w, http.StatusForbidden, Problem{Error: "changes are not taken from web pages; use the coordd command"})
		case !local(r):
			answer(w, http.StatusForbidden, Problem{Error: "changes are only taken from the node's own machine; run the coordd command there"})
		default:
			next(w, r)
		}
	}
}

// local says whether a request came from this machine.
func local(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	own, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && own.IP.Equal(ip)
}
