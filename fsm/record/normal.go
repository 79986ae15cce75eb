package record

import "github.com/coordd/coordd/topology"

// Normal returns v as DecodeValue would return it after AppendValue, except that empty lists inside a topology stay as
// they are: task lists are non-nil and without empty subtopologies, active tasks of a current assignment have
// epochs, other empty lists are nil, and an offset that expires at a time of its own has neither leader epoch nor topic id. It returns v itself when that is so already, and never changes v.
func Normal(v Value) Value {
	switch v := v.(type) {
	case *OffsetCommit:
		if v != nil && !v.isNormal() {
			return v.normal()
		}
	case *GroupMetadata:
		if v != nil && v.AssignmentConfigs != nil && len(v.AssignmentConfigs) == 0 {
			c := *v
			c.AssignmentConfigs = nil
			return &c
		}
	case *GroupConfig:
		if v != nil && v.Settings != nil && len(v.Settings) == 0 {
			return &GroupConfig{}
		}
	case *MemberMetadata:
		if v != nil && v.ClientTags != nil && len(v.ClientTags) == 0 {
			c := *v
			c.ClientTags = nil
			return &c
		}
	case *TopologyVersion:
		if v != nil && v.Tasks != nil && len(v.Tasks) == 0 {
			c := *v
			c.Tasks = nil
			return &c
		}
	case *JournalEntry:
		if v != nil && !v.isNormal() {
			return v.normal()
		}
	case *GroupTopics:
		if v != nil && !v.isNormal() {
			return v.normal()
		}
	case *TargetMember:
		if v != nil && !plain(&v.Assignment) {
			return &TargetMember{Assignment: topology.Assignment{
				Active:  normalCopy(v.Assignment.Active, nil),
				Standby: normalCopy(v.Assignment.Standby, nil),
				Warmup:  normalCopy(v.Assignment.Warmup, nil),
			}}
		}
	case *CurrentAssignment:
		if v != nil && (!current(&v.Assigned) || !current(&v.Revoking) || memberState(int8(v.State)) != v.State) {
			c := *v
			c.State = memberState(int8(v.State))
			for _, a := range [...]*topology.Assignment{&c.Assigned, &c.Revoking} {
				a.Active = normalCopy(a.Active, &v.MemberEpoch)
				a.Standby = normalCopy(a.Standby, nil)
				a.Warmup = normalCopy(a.Warmup, nil)
			}
			return &c
		}
	}
	return v
}

// plain says whether an assignment is normal without epochs.
func plain(a *topology.Assignment) bool {
	return bare(a.Active) && bare(a.Standby) && bare(a.Warmup)
}

// current says whether an assignment is normal with epochs on its active tasks.
func current(a *topology.Assignment) bool {
	if a.Active == nil || !isNormal(a.Active) || !bare(a.Standby) || !bare(a.Warmup) {
		return false
	}
	for i := range a.Active {
		if len(a.Active[i].Epochs) != len(a.Active[i].Partitions) {
			return false
		}
	}
	return true
}

func bare(tasks topology.Tasks) bool {
	if tasks == nil || !isNormal(tasks) {
		return false
	}
	for i := range tasks {
		if tasks[i].Epochs != nil {
			return false
		}
	}
	return true
}

// normalCopy returns a copy of tasks in normal form, with epochs (those it has, else the given one) unless epoch is nil.
func normalCopy(tasks topology.Tasks, epoch *int32) topology.Tasks {
	out := make(topology.Tasks, len(tasks))
	for i := range tasks {
		t := tasks[i]
		out[i].Subtopology = t.Subtopology
		out[i].Partitions = append([]int32(nil), t.Partitions...)
		if epoch != nil {
			out[i].Epochs = append([]int32(nil), epochsOf(&t, *epoch)...)
		}
	}
	return normalTasks(out)
}
