package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/fsm/record"
)

// cannotStore ends a task whose records the state refused. A heartbeat with more in it than a record can hold is told
// so: tried again it would never be taken.
func (m *Machine) cannotStore(t task, records []record.Record, err error) {
	if t.call != nil {
		if r, ok := t.call.Request.(*streams.HeartbeatRequest); ok {
			if refusal := unstorable(records); refusal != nil {
				m.finishHeartbeat(t.call, r, &streams.Decision{Reply: streams.HeartbeatResponse{Err: refusal}})
				return
			}
		}
	}
	m.host.Observe(Event{Group: t.group, Failed: fmt.Errorf("the log cannot hold it: %w", err)})
	if e := m.groups[t.group]; e != nil && e.soft != nil && slices.ContainsFunc(records, ofTarget) {
		env := m.env(t.group)
		rest := streams.TargetRefused(&env)
		m.applySoft(t.group, e.soft, &rest)
		m.lookAll(e) // who waits for it is told
	}
	if t.failed != nil {
		t.failed(m)
	}
	if t.call != nil {
		m.refuse(t.call, notAvailable)
	}
}

// ofTarget says that a record belongs to a new target assignment: heartbeats are answered without it when it rests.
func ofTarget(r record.Record) bool {
	return r.Value != nil && (r.Key.Type == record.TypeTargetMember || r.Key.Type == record.TypeTargetMetadata)
}

// unstorable says what is wrong with a heartbeat whose own words no record can hold; nil when that is not the trouble.
func unstorable(records []record.Record) *coordinator.Error {
	for i := range records {
		code, what := coordinator.InvalidRequest, "member"
		switch records[i].Key.Type {
		case record.TypeMemberMetadata:
		case record.TypeTopology:
			code, what = coordinator.StreamsInvalidTopology, "topology"
		default:
			continue
		}
		b, err := record.AppendRecord(nil, records[i])
		switch {
		case errors.Is(err, record.ErrTooLong):
			return coordinator.Errorf(code, "The %s has a string of more than 32767 bytes, which cannot be stored.", what)
		case len(b) > record.MaxRecordSize:
			return coordinator.Errorf(code, "The %s takes %d bytes; at most %d can be stored.", what, len(b), record.MaxRecordSize)
		}
	}
	return nil
}
