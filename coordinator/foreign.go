package coordinator

// ForeignGroup is what the upstream has under the id of a group; the zero value says nothing. Memberships that coordd has
// there for the offsets of its own groups do not count.
type ForeignGroup struct {
	// Type is "consumer", "share", "streams", or the protocol type of a classic group ("classic" without one); "" for no
	// group.
	Type string
	// InUse says that no streams group may take the id over.
	InUse bool
}
