package streams

import (
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// maxMoves bounds the moved tasks that a journal entry lists; it counts all of them.
const maxMoves = 32

// targetChange is a member whose target another one replaces.
type targetChange struct {
	member   string
	old, new topology.Assignment
}

// targetMoves are the tasks that a new target moves.
type targetMoves struct {
	count int
	list  []record.JournalMove
}

func tasksIn(a *topology.Assignment, r record.TaskRole) topology.Tasks {
	return [...]topology.Tasks{a.Active, a.Standby, a.Warmup}[r]
}

// movesOf compares targets. A task counts once for each role in which it gets or loses a holder; the list has first those
// that get one, by member, and then those that nobody has any more. Beyond the list it only counts, since a large group
// moves thousands.
func movesOf(changes []targetChange) targetMoves {
	var m targetMoves
	var gained, lost [3]int
	at := make(map[roleTask]int, maxMoves)
	for i := range changes {
		c := &changes[i]
		for r := range record.TaskRole(3) {
			had, has := tasksIn(&c.old, r), tasksIn(&c.new, r)
			common := had.NumCommon(has)
			gained[r] += has.Len() - common
			lost[r] += had.Len() - common
			if has.Len() > common {
				m.addGained(c.member, r, had, has, at)
			}
		}
	}
	all := 0
	for r := range gained {
		m.count += max(gained[r], lost[r])
		all += gained[r]
	}
	open := len(m.list)
	for i := range changes {
		if open > 0 || all < maxMoves && len(m.list) < maxMoves {
			open -= m.addLost(&changes[i], at, all < maxMoves)
		}
	}
	return m
}

func (m *targetMoves) addGained(member string, r record.TaskRole, had, has topology.Tasks, at map[roleTask]int) {
	for t := range has.All() {
		if len(m.list) == maxMoves {
			return
		}
		if !had.Contains(t) {
			at[roleTask{r, t}] = len(m.list)
			m.list = append(m.list, record.JournalMove{Task: t, Role: r, To: member})
		}
	}
}

// addLost names who had the listed tasks before and says of how many; where the list has all that somebody got, it also
// lists what nobody got.
func (m *targetMoves) addLost(c *targetChange, at map[roleTask]int, whole bool) (named int) {
	for r := range record.TaskRole(3) {
		has := tasksIn(&c.new, r)
		for t := range tasksIn(&c.old, r).All() {
			if has.Contains(t) {
				continue
			}
			if i, ok := at[roleTask{r, t}]; ok {
				if m.list[i].From == "" {
					named++
				}
				m.list[i].From = c.member
			} else if whole && len(m.list) < maxMoves && !hasTask(&c.new, t) {
				m.list = append(m.list, record.JournalMove{Task: t, Role: r, From: c.member})
			}
		}
	}
	return named
}

type roleTask struct {
	role record.TaskRole
	task topology.Task
}

func hasTask(a *topology.Assignment, t topology.Task) bool {
	return a.Active.Contains(t) || a.Standby.Contains(t) || a.Warmup.Contains(t)
}

// movesOfAll lists every task of an assignment as moving from one member to another, up to the bound.
func movesOfAll(a *topology.Assignment, from, to string) targetMoves {
	m := targetMoves{count: a.Len()}
	for r := range record.TaskRole(3) {
		for t := range tasksIn(a, r).All() {
			if len(m.list) == maxMoves {
				return m
			}
			m.list = append(m.list, record.JournalMove{Task: t, Role: r, From: from, To: to})
		}
	}
	return m
}
