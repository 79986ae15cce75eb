package assignor

import (
	"encoding/binary"
	"slices"
)

// maxPairs bounds the classes of which all pairs are tried. Beyond, copies are chosen one by one.
const maxPairs = 32

// apartness is how far copies of a task are apart: for each tag as many different values as the processes of its copies have,
// counted together. A process without a tag differs from all others in it, as nobody knows where it is. Processes that say the
// same are of one class. They are as their first members say.
type apartness struct {
	tags    int
	classOf []int32 // by process
	values  []int32 // by class and tag; -1: missing, or of one process alone
	// numValues are the different values by tag, -1 where some class has none.
	numValues []int
	// free are the processes of a class that can get standbys, numFree those of all.
	free    []int32
	numFree int
	// known are the results of reach.
	known map[string]int
	key   []byte
}

// newApartness returns nil where there are no tags, or no two processes that differ.
func newApartness(p *problem) *apartness {
	tags := p.spec.RackAwareTags
	if len(tags) == 0 {
		return nil
	}
	r := &apartness{tags: len(tags), classOf: make([]int32, p.numProcesses()), known: map[string]int{}}
	values := r.readValues(p)
	classes := map[string]int32{}
	for process := range r.classOf {
		says := values[process*r.tags : (process+1)*r.tags]
		free := int32(min(1, p.fresh[process]))
		r.key = append(r.key[:0], byte(free))
		for _, v := range says {
			r.key = binary.BigEndian.AppendUint32(r.key, uint32(v))
		}
		class, ok := classes[string(r.key)]
		if !ok {
			class = int32(len(r.free))
			classes[string(r.key)] = class
			r.values = append(r.values, says...)
			r.free = append(r.free, 0)
		}
		r.classOf[process] = class
		r.free[class] += free
		r.numFree += int(free)
	}
	r.countValues()
	for at := r.tags; at < len(r.values); at += r.tags {
		if !slices.Equal(r.values[:r.tags], r.values[at:at+r.tags]) {
			return r
		}
	}
	return nil
}

// readValues numbers the values of tags, by process and tag. One that a single process has is as good as none: there is no second
// copy of a task in the process, so that all others differ from it.
func (r *apartness) readValues(p *problem) []int32 {
	type value struct {
		tag  int
		text string
	}
	numbers := map[value]int32{}
	var processes []int32 // by number
	values := make([]int32, 0, p.numProcesses()*r.tags)
	for process := range p.numProcesses() {
		member := &p.spec.Members[p.members[p.first[process]]]
		for i, tag := range p.spec.RackAwareTags {
			text, ok := member.Tags[tag]
			if !ok {
				values = append(values, -1)
				continue
			}
			n, ok := numbers[value{i, text}]
			if !ok {
				n = int32(len(processes))
				numbers[value{i, text}] = n
				processes = append(processes, 0)
			}
			processes[n]++
			values = append(values, n)
		}
	}
	for i, n := range values {
		if n >= 0 && processes[n] == 1 {
			values[i] = -1
		}
	}
	return values
}

func (r *apartness) countValues() {
	r.numValues = make([]int, r.tags)
	seen := map[int32]bool{} // a value is of one tag
	for i, v := range r.values {
		switch n := &r.numValues[i%r.tags]; {
		case v < 0:
			*n = -1
		case *n >= 0 && !seen[v]:
			seen[v] = true
			*n++
		}
	}
}

func (r *apartness) numClasses() int32 { return int32(len(r.free)) }

// hasRoom reports whether another copy may be in a process of the class, beside copies in processes of the used classes.
func (r *apartness) hasRoom(used []int32, class int32) bool {
	room := r.free[class]
	for _, c := range used {
		if c == class {
			room--
		}
	}
	return room > 0
}

// gain is in how many tags a process of the class differs from all of the used classes.
func (r *apartness) gain(used []int32, class int32) (n int) {
	for tag := range r.tags {
		if r.differs(used, class, tag) {
			n++
		}
	}
	return n
}

func (r *apartness) differs(used []int32, class int32, tag int) bool {
	value := r.values[int(class)*r.tags+tag]
	if value < 0 {
		return true
	}
	for _, c := range used {
		if r.values[int(c)*r.tags+tag] == value {
			return false
		}
	}
	return true
}

// bound is no less than what one more copy can gain: tags of which the used classes have all values tell no process apart.
func (r *apartness) bound(used []int32) (most int) {
	for tag, left := range r.numValues {
		for i, c := range used {
			if left > 0 && r.differs(used[:i], c, tag) {
				left--
			}
		}
		if left != 0 {
			most++
		}
	}
	return most
}

// exact says that reach finds the most for two copies, too.
func (r *apartness) exact() bool { return r.numClasses() <= maxPairs }

// greedy says that copies are chosen one by one: each is to gain the most that one can.
func (r *apartness) greedy() bool { return r.tags > 1 && !r.exact() }

// need is what serves is to go by for so many more copies.
func (r *apartness) need(used []int32, left int) int {
	if r.greedy() {
		left = min(left, 1)
	}
	return r.reach(used, left)
}

// reach is what so many more copies can gain beside those of the used classes, whatever the load: the most there is with one tag,
// for one copy, and for two where there are not too many classes; else what choosing the best class first gives.
func (r *apartness) reach(used []int32, left int) int {
	if left <= 0 {
		return 0
	}
	r.key = binary.BigEndian.AppendUint32(r.key[:0], uint32(left))
	for _, c := range used {
		r.key = binary.BigEndian.AppendUint32(r.key, uint32(c))
	}
	if n, ok := r.known[string(r.key)]; ok {
		return n
	}
	return r.findReach(used, left, string(r.key))
}

// reachWith is reach beside one more class.
func (r *apartness) reachWith(used []int32, class int32, left int) int {
	if left <= 0 {
		return 0
	}
	r.key = binary.BigEndian.AppendUint32(r.key[:0], uint32(left))
	for _, c := range used {
		r.key = binary.BigEndian.AppendUint32(r.key, uint32(c))
	}
	r.key = binary.BigEndian.AppendUint32(r.key, uint32(class))
	if n, ok := r.known[string(r.key)]; ok {
		return n
	}
	return r.findReach(append(slices.Clip(used), class), left, string(r.key))
}

func (r *apartness) findReach(used []int32, left int, key string) int {
	most, choice := -1, int32(-1)
	pairs := left == 2 && r.tags > 1 && r.exact()
	enough := r.bound(used)
	if pairs {
		enough += r.tags
	}
	for c := range r.numClasses() {
		if !r.hasRoom(used, c) {
			continue
		}
		n := r.gain(used, c)
		if pairs {
			n += r.reachWith(used, c, 1)
		}
		if n > most {
			if most, choice = n, c; n >= enough {
				break
			}
		}
	}
	if left > 1 && !pairs && choice >= 0 {
		most += r.reachWith(used, choice, left-1)
	}
	r.known[key] = max(0, most)
	return max(0, most)
}

// serves reports whether a copy in the class leaves left-1 others able to make up what is needed. At least one class with room
// does, if that is what need says. Of many classes it is those that gain most at once.
func (r *apartness) serves(used []int32, class int32, left, need int) bool {
	if !r.hasRoom(used, class) {
		return false
	}
	gain := r.gain(used, class)
	switch {
	case r.tags == 1:
		return gain == 1 || need <= left-1 && r.reach(used, left-1) >= need
	case r.exact():
		return gain >= need || gain+r.reachWith(used, class, left-1) >= need
	}
	return gain >= need
}
