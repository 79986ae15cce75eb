package topology

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// nameChars are the characters of topic names. maxTopicName and [validTopicName] say the rest.
const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// symbols numbers the characters of topic names from 1; all others are 0.
var symbols = func() (s [256]uint8) {
	for i := range len(nameChars) {
		s[nameChars[i]] = uint8(i + 1)
	}
	return s
}()

// automaton is a deterministic automaton over the characters of topic names: a name takes one step for each character,
// however hostile the pattern is that it was made of. It is immutable.
type automaton struct {
	// next has for each state the state after each character. State 0 is that of names that cannot match any more, 1
	// the first.
	next [][len(nameChars)]uint16
	// accepts are the states in which a name that ends matches.
	accepts []bool
}

// match reports whether the whole of name matches. What no topic can be called does not.
func (a *automaton) match(name string) bool {
	if len(name) > maxTopicName {
		return false
	}
	state := uint16(1)
	for i := range len(name) {
		symbol := symbols[name[i]]
		if symbol == 0 {
			return false
		}
		if state = a.next[state][symbol-1]; state == 0 {
			return false
		}
	}
	return a.accepts[state]
}

// What comes before a position of a name decides, with what comes after it, which assertions (^, \b) hold there.
const (
	beforeFirst = iota
	beforeWord
	beforeOther
)

// contextOf is a rune that stands for what comes before.
var contextOf = [...]rune{beforeFirst: -1, beforeWord: 'a', beforeOther: '-'}

// determine makes an automaton of a compiled pattern by the subset construction. It gives up, and reports false, when the
// automaton has more than maxStates states or takes more than maxWork steps to make; work is what it took.
func determine(prog *syntax.Prog, maxStates, maxWork int) (a *automaton, work int, ok bool) {
	d := &determiner{
		prog: prog, a: &automaton{}, states: map[string]uint16{}, seen: make([]int, len(prog.Inst)),
	}
	d.classify()
	d.state(nil, 0)
	d.state([]uint32{uint32(prog.Start)}, beforeFirst)
	for s := 1; s < len(d.sets); s++ {
		d.expand(s)
		if len(d.sets) > maxStates || d.work > maxWork {
			return nil, d.work, false
		}
	}
	return d.a, d.work, true
}

// determiner holds what the construction of an automaton needs.
type determiner struct {
	prog   *syntax.Prog
	a      *automaton
	states map[string]uint16 // set and what comes before it -> state
	sets   []instructionSet
	words  bool // the pattern asks whether a position is at the border of a word
	// class has for each character the first one that no instruction tells from it.
	class [len(nameChars)]uint8
	work  int
	// seen marks the instructions of the closure that is being made with its number.
	seen   []int
	marked int
	key    []byte
}

// instructionSet is where the program may stand, before instructions that read nothing are followed.
type instructionSet struct {
	at     []uint32
	before uint8
}

// state is the number of the state with a sorted set of instructions.
func (d *determiner) state(set []uint32, before uint8) uint16 {
	if len(set) == 0 {
		before = beforeFirst
	}
	d.key = append(d.key[:0], before)
	for _, pc := range set {
		d.key = binary.LittleEndian.AppendUint32(d.key, pc)
	}
	s, ok := d.states[string(d.key)]
	if !ok {
		s = uint16(len(d.sets))
		d.states[string(d.key)] = s
		d.sets = append(d.sets, instructionSet{slices.Clone(set), before})
		d.a.next = append(d.a.next, [len(nameChars)]uint16{})
		d.a.accepts = append(d.a.accepts, false)
	}
	return s
}

// classify groups the characters that the pattern does not tell from each other.
func (d *determiner) classify() {
	split := func(matches func(c rune) bool) {
		var other [len(nameChars)]int // for each class, its first character that differs from the first of all, plus 1
		was := d.class
		for i := range len(nameChars) {
			first := was[i]
			if matches(rune(nameChars[i])) == matches(rune(nameChars[first])) {
				continue
			}
			if other[first] == 0 {
				other[first] = i + 1
			}
			d.class[i] = uint8(other[first] - 1)
		}
	}
	split(syntax.IsWordChar)
	type ranges struct {
		first *rune // of long lists, which copies of a repetition share
		small [4]rune
		flags uint32
	}
	known := map[ranges]bool{}
	for i := range d.prog.Inst {
		switch in := &d.prog.Inst[i]; in.Op {
		case syntax.InstEmptyWidth:
			d.words = d.words || syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			key := ranges{flags: in.Arg}
			if len(in.Rune) > len(key.small) {
				key.first = &in.Rune[0]
			} else {
				key.small = [4]rune{-1, -1, -1, -1}
				copy(key.small[:], in.Rune)
			}
			if !known[key] {
				known[key] = true
				split(in.MatchRune)
			}
		}
	}
}

// expand finds the states that follow one.
func (d *determiner) expand(s int) {
	set := d.sets[s]
	end, _ := d.closure(set, -1)
	d.a.accepts[s] = end
	_, word := d.closure(set, contextOf[beforeWord])
	other := word
	if d.words {
		_, other = d.closure(set, contextOf[beforeOther])
	}
	var next []uint32
	for i := range len(nameChars) {
		if first := d.class[i]; int(first) != i {
			d.a.next[s][i] = d.a.next[s][first]
			continue
		}
		c := rune(nameChars[i])
		from, before := other, uint8(beforeOther)
		if d.words && syntax.IsWordChar(c) {
			from, before = word, beforeWord
		}
		next = next[:0]
		d.work += len(from) + 1
		for _, pc := range from {
			if in := &d.prog.Inst[pc]; in.MatchRune(c) {
				next = append(next, in.Out)
			}
		}
		d.work += len(next)
		slices.Sort(next)
		d.a.next[s][i] = d.state(slices.Compact(next), before)
	}
}

// closure follows what reads nothing, where the next character is as given (-1: the end), and returns the instructions
// that read one, and whether the pattern is at its end.
func (d *determiner) closure(set instructionSet, next rune) (matched bool, reads []uint32) {
	holds := syntax.EmptyOpContext(contextOf[set.before], next)
	d.marked++
	stack := slices.Clone(set.at)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if d.seen[pc] == d.marked {
			continue
		}
		d.seen[pc] = d.marked
		d.work++
		switch in := &d.prog.Inst[pc]; in.Op {
		case syntax.InstMatch:
			matched = true
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^holds == 0 {
				stack = append(stack, in.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			reads = append(reads, pc)
		}
	}
	return matched, reads
}
