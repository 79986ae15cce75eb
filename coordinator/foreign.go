package coordinator

// ForeignGroup is what the upstream has under the id of a group; the zero value says nothing. Memberships that coordd has
// there for the offsets of its own groups count for Offsets only.
type ForeignGroup struct {
	// Type is "consumer", "share", "streams", or the protocol type of a classic group ("classic" without one); "" for no
	// group.
	Type string
	// InUse says that no streams group may take the id over.
	InUse bool
	// Offsets says that there is a group of any kind under the id, which may have committed offsets: one without members, or
	// what coordd's own membership left.
	Offsets bool
}
