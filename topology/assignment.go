package topology

// Assignment is what a member owns or shall own, by role.
type Assignment struct {
	Active, Standby, Warmup Tasks
}

// Equal reports whether both hold the same tasks in the same roles with the same epochs.
func (a Assignment) Equal(o Assignment) bool {
	return a.Active.Equal(o.Active) && a.Standby.Equal(o.Standby) && a.Warmup.Equal(o.Warmup)
}

// SameTasks reports whether both hold the same tasks in the same roles, whatever the epochs.
func (a Assignment) SameTasks(o Assignment) bool {
	return a.Active.SameTasks(o.Active) && a.Standby.SameTasks(o.Standby) && a.Warmup.SameTasks(o.Warmup)
}

// IsEmpty reports whether there is no task in any role.
func (a Assignment) IsEmpty() bool {
	return a.Active.IsEmpty() && a.Standby.IsEmpty() && a.Warmup.IsEmpty()
}

// Len is the number of tasks over all roles.
func (a Assignment) Len() int { return a.Active.Len() + a.Standby.Len() + a.Warmup.Len() }

// Clone returns a deep copy, strings included.
func (a Assignment) Clone() Assignment {
	return Assignment{Active: a.Active.Clone(), Standby: a.Standby.Clone(), Warmup: a.Warmup.Clone()}
}
