package record

import "encoding/binary"

// Feature levels. Each release that writes records which the one before would leave out of its state has the next level.
const (
	// FeatureLevel is the level of this release: it knows everything up to it.
	FeatureLevel = 2
	// firstLevel is that of releases which do not tell theirs.
	firstLevel = 1
	// OffsetsLevel is the first level that knows committed offsets in the log: types 0 and 1, and 1009.
	OffsetsLevel = 2
)

// LevelOf is the lowest feature level whose releases keep all of the records.
func LevelOf(records []Record) uint16 {
	for i := range records {
		if t := records[i].Key.Type; t == TypeOffsetCommit || t == TypeOffsetsStore {
			return OffsetsLevel
		}
	}
	return firstLevel
}

// EntryLevel reads the feature level from an encoded entry without looking at the rest, which a newer release may have written
// in ways that this one cannot read. It is 0 for what is no entry.
func EntryLevel(entry []byte) uint16 {
	if len(entry) < headerSize || entry[0] != entryMagic {
		return 0
	}
	return binary.BigEndian.Uint16(entry[2:])
}

// Level is the feature level of the node's release.
func (v *Node) Level() uint16 { return max(v.FeatureLevel, firstLevel) }
