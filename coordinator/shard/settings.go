package shard

// SettingsChanged tells that [Host.Settings] of a group changed; "" is all groups. Decisions read the settings anyway, so
// that the next heartbeat acts by them; held members need not wait for one, and neither does a target assignment whose
// interval became shorter.
func (m *Machine) SettingsChanged(now int64, id string) {
	m.now = now
	if e := m.groups[id]; e != nil {
		m.reconsider(id, e)
	}
	if id == "" {
		for id, e := range m.groups {
			m.reconsider(id, e)
		}
	}
}

func (m *Machine) reconsider(id string, e *group) {
	m.recheck(e)
	m.lookAll(e)
	if e.soft != nil {
		env := m.env(id)
		e.soft.SettingsChanged(m.working.Group(id), &env)
		m.timers.arm(timerKey{kind: timerGroup, group: id}, e.soft.NextDeadline())
	}
}
