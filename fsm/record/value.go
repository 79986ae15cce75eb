package record

import (
	"fmt"

	"github.com/coordd/coordd/topology"
)

// valueVersion is the version of all values, Kafka's and our own, except those of offsets. Fields are added as tagged
// fields; a value of another version is an error (CoordinatorRecordSerde.java refuses them, too).
const valueVersion = 0

// AppendValue appends the version and the fields of a value in the encoding of that version. The bytes equal those that
// Kafka 4.4 writes for the same value (StreamsCoordinatorRecordHelpers.java): tagged fields that equal their default are
// left out (the generated classes take an empty list, not null, for the default of tagged lists), and assignment epochs
// are written for active tasks of a current assignment only.
//
// Lists must be in their documented order. Active tasks without assignment epochs get the member epoch.
func AppendValue(dst []byte, v Value) ([]byte, error) {
	w := writer{b: dst}
	w.value(v)
	if w.err != nil {
		return dst, fmt.Errorf("value of type %d: %w", TypeOf(v), w.err)
	}
	return w.b, nil
}

func (w *writer) value(v Value) {
	if v, ok := v.(*OffsetCommit); ok && v != nil {
		w.offsetCommit(v)
		return
	}
	w.int16(valueVersion)
	var known bool
	switch v := v.(type) {
	case *GroupMetadata:
		if known = v != nil; known {
			w.groupMetadata(v)
		}
	case *MemberMetadata:
		if known = v != nil; known {
			w.memberMetadata(v)
		}
	case *TargetMetadata:
		if known = v != nil; known {
			w.targetMetadata(v)
		}
	case *TargetMember:
		if known = v != nil; known {
			w.targetMember(v)
		}
	case *CurrentAssignment:
		if known = v != nil; known {
			w.currentAssignment(v)
		}
	case *Topology:
		if known = v != nil; known {
			w.topology(v)
		}
	case *OffsetsClaim:
		if known = v != nil; known {
			w.offsetsClaim(v)
		}
	case *Node:
		if known = v != nil; known {
			w.node(v)
		}
	case *BrokerSlot:
		if known = v != nil; known {
			w.brokerSlot(v)
		}
	case *Cluster:
		if known = v != nil; known {
			w.cluster(v)
		}
	case *GroupConfig:
		if known = v != nil; known {
			w.groupConfig(v)
		}
	case *JournalEntry:
		if known = v != nil; known {
			w.journalEntry(v)
		}
	case *GroupMarks:
		if known = v != nil; known {
			w.groupMarks(v)
		}
	case *GroupTopics:
		if known = v != nil; known {
			w.groupTopics(v)
		}
	case *TopologyVersion:
		if known = v != nil; known {
			w.topologyVersion(v)
		}
	case *OffsetsStore:
		if known = v != nil; known {
			w.offsetsStore(v)
		}
	default:
		known = false
	}
	if !known { // no value, or a nil pointer, which only a bug can bring about
		w.err = ErrValue
	}
}

// DecodeValue decodes the value of a record of type t. The result shares no memory with b. It fails with ErrVersion,
// ErrUnknownType and ErrMalformed. Task lists come back in normal form and never nil, active tasks of a current
// assignment always with assignment epochs; other empty lists come back nil.
func DecodeValue(t Type, b []byte) (Value, error) { return decodeValue(t, b, nil) }

func decodeValue(t Type, b []byte, room *room) (Value, error) {
	r := newReader(b)
	r.room = room
	version, newest := r.int16(), int16(valueVersion)
	if t == TypeOffsetCommit {
		newest = offsetVersion
	}
	if r.err == nil && (version < 0 || version > newest) {
		return nil, fmt.Errorf("value of type %d: %w %d", t, ErrVersion, version)
	}
	v, err := r.value(t, version)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, fmt.Errorf("value of type %d: %w", t, err)
	}
	return v, nil
}

func (r *reader) value(t Type, version int16) (Value, error) {
	switch t {
	case TypeOffsetCommit:
		return r.offsetCommit(version), nil
	case TypeGroupMetadata:
		return r.groupMetadata(), nil
	case TypeMemberMetadata:
		return r.memberMetadata(), nil
	case TypeTargetMetadata:
		return r.targetMetadata(), nil
	case TypeTargetMember:
		return r.targetMember(), nil
	case TypeCurrentAssignment:
		return r.currentAssignment(), nil
	case TypeTopology:
		return r.topology(), nil
	case TypeOffsetsClaim:
		return r.offsetsClaim(), nil
	case TypeNode:
		return r.node(), nil
	case TypeBrokerSlot:
		return r.brokerSlot(), nil
	case TypeCluster:
		return r.cluster(), nil
	case TypeGroupConfig:
		return r.groupConfig(), nil
	case TypeJournalEntry:
		return r.journalEntry(), nil
	case TypeGroupMarks:
		return r.groupMarks(), nil
	case TypeGroupTopics:
		return r.groupTopics(), nil
	case TypeTopologyVersion:
		return r.topologyVersion(), nil
	case TypeOffsetsStore:
		return r.offsetsStore(), nil
	}
	return nil, ErrUnknownType
}

func (w *writer) keyValues(list []KeyValue) {
	w.array(len(list))
	for _, kv := range list {
		w.string(kv.Key)
		w.string(kv.Value)
		w.noTags()
	}
}

// minKeyValue is the smallest encoding of a pair: two lengths and the tagged section.
const minKeyValue = 3

// keyValues reads n pairs; n may be -1 for a null array.
func (r *reader) keyValues(n int) []KeyValue {
	if n <= 0 {
		return nil
	}
	list := make([]KeyValue, n)
	for i := range list {
		list[i] = KeyValue{Key: r.string(), Value: r.string()}
		r.tags(nil)
	}
	return list
}

func keyValuesLen(list []KeyValue) int {
	n := uvarintLen(len(list) + 1)
	for _, kv := range list {
		n += stringLen(kv.Key) + stringLen(kv.Value) + 1
	}
	return n
}

// optionalEpoch writes a tagged epoch unless it is -1, its default.
func (w *writer) optionalEpoch(tag int, epoch int32) {
	if epoch != -1 {
		w.tag(tag, 4)
		w.int32(epoch)
	}
}

func (w *writer) groupMetadata(v *GroupMetadata) {
	w.int32(v.Epoch)
	w.int64(v.MetadataHash)
	fields := min(len(v.AssignmentConfigs), 1)
	for _, epoch := range [...]int32{v.ValidatedTopologyEpoch, v.StoredDescriptionEpoch, v.FailedDescriptionEpoch} {
		if epoch != -1 {
			fields++
		}
	}
	w.uvarint(fields)
	w.optionalEpoch(0, v.ValidatedTopologyEpoch)
	if len(v.AssignmentConfigs) > 0 {
		w.tag(1, keyValuesLen(v.AssignmentConfigs))
		w.keyValues(v.AssignmentConfigs)
	}
	w.optionalEpoch(2, v.StoredDescriptionEpoch)
	w.optionalEpoch(3, v.FailedDescriptionEpoch)
}

func (r *reader) groupMetadata() *GroupMetadata {
	v := &GroupMetadata{
		Epoch:                  r.int32(),
		MetadataHash:           r.int64(),
		ValidatedTopologyEpoch: -1,
		StoredDescriptionEpoch: -1,
		FailedDescriptionEpoch: -1,
	}
	r.tags(func(tag int) bool {
		switch tag {
		case 0:
			v.ValidatedTopologyEpoch = r.int32()
		case 1:
			v.AssignmentConfigs = r.keyValues(r.array(minKeyValue))
		case 2:
			v.StoredDescriptionEpoch = r.int32()
		case 3:
			v.FailedDescriptionEpoch = r.int32()
		default:
			return false
		}
		return true
	})
	return v
}

func (w *writer) memberMetadata(v *MemberMetadata) {
	w.nullableString(v.InstanceID)
	w.nullableString(v.RackID)
	w.string(v.ClientID)
	w.string(v.ClientHost)
	w.int32(v.RebalanceTimeoutMs)
	w.int32(v.TopologyEpoch)
	w.string(v.ProcessID)
	if e := v.UserEndpoint; e != nil {
		w.int8(1)
		w.string(e.Host)
		w.uint16(e.Port)
		w.noTags()
	} else {
		w.int8(-1)
	}
	w.keyValues(v.ClientTags)
	w.noTags()
}

func (r *reader) memberMetadata() *MemberMetadata {
	v := &MemberMetadata{
		InstanceID:         r.nullableString(),
		RackID:             r.nullableString(),
		ClientID:           r.string(),
		ClientHost:         r.string(),
		RebalanceTimeoutMs: r.int32(),
		TopologyEpoch:      r.int32(),
		ProcessID:          r.string(),
	}
	if r.int8() >= 0 {
		v.UserEndpoint = &Endpoint{Host: r.string(), Port: r.uint16()}
		r.tags(nil)
	}
	v.ClientTags = r.keyValues(r.list(minKeyValue))
	r.tags(nil)
	return v
}

func (w *writer) targetMetadata(v *TargetMetadata) {
	w.int32(v.AssignmentEpoch)
	if v.TimestampMs == 0 {
		w.noTags()
		return
	}
	w.uvarint(1)
	w.tag(0, 8)
	w.int64(v.TimestampMs)
}

func (r *reader) targetMetadata() *TargetMetadata {
	v := &TargetMetadata{AssignmentEpoch: r.int32()}
	r.tags(func(tag int) bool {
		if tag != 0 {
			return false
		}
		v.TimestampMs = r.int64()
		return true
	})
	return v
}

func (w *writer) targetMember(v *TargetMember) {
	w.tasks(v.Assignment.Active)
	w.tasks(v.Assignment.Standby)
	w.tasks(v.Assignment.Warmup)
	w.noTags()
}

func (r *reader) targetMember() *TargetMember {
	v := &TargetMember{Assignment: topology.Assignment{Active: r.tasks(), Standby: r.tasks(), Warmup: r.tasks()}}
	r.tags(nil)
	return v
}

func (w *writer) currentAssignment(v *CurrentAssignment) {
	w.int32(v.MemberEpoch)
	w.int32(v.PreviousEpoch)
	w.int8(int8(v.State))
	w.tasksWithEpochs(v.Assigned.Active, v.MemberEpoch)
	w.tasks(v.Assigned.Standby)
	w.tasks(v.Assigned.Warmup)
	w.tasksWithEpochs(v.Revoking.Active, v.MemberEpoch)
	w.tasks(v.Revoking.Standby)
	w.tasks(v.Revoking.Warmup)
	w.noTags()
}

func (r *reader) currentAssignment() *CurrentAssignment {
	v := &CurrentAssignment{MemberEpoch: r.int32(), PreviousEpoch: r.int32(), State: memberState(r.int8())}
	for _, a := range [...]*topology.Assignment{&v.Assigned, &v.Revoking} {
		a.Active = r.tasksWithEpochs(v.MemberEpoch)
		a.Standby = r.tasks()
		a.Warmup = r.tasks()
	}
	r.tags(nil)
	return v
}

// memberState maps numbers of newer versions to MemberUnknown (MemberState.java).
func memberState(n int8) MemberState {
	switch s := MemberState(n); s {
	case MemberStable, MemberUnrevokedTasks, MemberUnreleasedTasks:
		return s
	}
	return MemberUnknown
}
