package shard

import (
	"github.com/coordd/coordd/fsm"
	"github.com/coordd/coordd/fsm/record"
)

// deletionRecords are the tombstones of a group in the order that replay demands (semantics: GroupMetadataManager,
// "createGroupTombstoneRecords").
func deletionRecords(g *fsm.Group) []record.Record {
	var current, target, members []record.Record
	for m := range g.Members() {
		current = append(current, tombstone(record.TypeCurrentAssignment, g.ID, m.ID))
		target = append(target, tombstone(record.TypeTargetMember, g.ID, m.ID))
		members = append(members, tombstone(record.TypeMemberMetadata, g.ID, m.ID))
	}
	records := append(current, target...)
	records = append(records, tombstone(record.TypeTargetMetadata, g.ID, ""))
	records = append(records, members...)
	records = append(records, tombstone(record.TypeGroupMetadata, g.ID, ""), tombstone(record.TypeTopology, g.ID, ""))
	if g.OffsetsClaimed {
		records = append([]record.Record{tombstone(record.TypeOffsetsClaim, g.ID, "")}, records...)
	}
	return records
}

func tombstone(t record.Type, group, member string) record.Record {
	return record.Record{Key: record.Key{Type: t, Group: group, Member: member}}
}
