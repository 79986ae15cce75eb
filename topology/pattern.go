package topology

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode"
)

// Limits of source topic patterns: what a client can make of a few bytes, such as (a|b)*a(a|b){20}, must not keep other
// groups waiting.
const (
	// MaxPatternLength is how long a pattern may be, in bytes.
	MaxPatternLength = 1024
	// MaxPatterns is how many patterns the subtopologies of a topology may have in all.
	MaxPatterns = 200
	// maxPatternSize is to how many instructions a pattern may compile. A topic name that is spelled out takes one for
	// each character.
	maxPatternSize = 4000
	// maxPatternStates is how many states the automaton of a pattern may have: as many as one that spells names out over its
	// whole length, and then some.
	maxPatternStates = 2000
	// maxPatternWork is how many steps it may take to make it.
	maxPatternWork = 2_000_000
	// maxPatternsWork is the same for all patterns of a topology.
	maxPatternsWork = 5_000_000
)

// pattern is a compiled element of SourceTopicRegex: RE2 syntax, which has to match a whole name (matches of RE2/J's and
// Java's Matcher). It is immutable.
type pattern struct {
	*automaton
	// work is what it took to make.
	work int
}

// compiled remembers patterns that were compiled, whoever's they are: members of a group that join send the same, and
// commits ask which subtopologies read a topic. It changes how long an answer takes, and nothing else.
var compiled = patternMemo{patterns: map[string]*pattern{}}

// maxRemembered bounds what is remembered, in states of about 130 bytes.
const maxRemembered = 400_000

type patternMemo struct {
	mu       sync.RWMutex
	patterns map[string]*pattern
	states   int
}

func (m *patternMemo) get(text string) *pattern {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.patterns[text]
}

func (m *patternMemo) put(text string, p *pattern) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.patterns[text]; ok {
		return
	}
	if m.states += len(p.next); m.states > maxRemembered {
		clear(m.patterns)
		m.states = len(p.next)
	}
	m.patterns[strings.Clone(text)] = p // the text may be a part of a request's buffer
}

// compilePattern makes a pattern of an element of SourceTopicRegex, or says what is wrong with it.
func compilePattern(text string) (*pattern, error) {
	if p := compiled.get(text); p != nil {
		return p, nil
	}
	switch {
	case text == "":
		return nil, errors.New("it is empty")
	case len(text) > MaxPatternLength:
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", len(text), MaxPatternLength)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return nil, errors.New("it holds a character that cannot be printed; no topic name does")
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("it is no regular expression of RE2: %s", parseError(err))
	}
	if size := programSize(tree); size > maxPatternSize {
		return nil, fmt.Errorf("it makes up to %d instructions; at most %d are allowed. What is repeated counts as often as "+
			"it is repeated", size, maxPatternSize)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("it is no regular expression of RE2: %s", parseError(err))
	}
	a, work, ok := determine(prog, maxPatternStates, maxPatternWork)
	if !ok {
		return nil, errors.New("it is too complex; use fewer repetitions and alternatives, or several patterns")
	}
	p := &pattern{automaton: a, work: work}
	compiled.put(text, p)
	return p, nil
}

// parseError leaves out of an error what it repeats of the pattern, which may be long.
func parseError(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return e.Code.String()
	}
	return err.Error()
}

// programSize is how many instructions a parsed pattern compiles to at most. Nothing is expanded for it.
func programSize(re *syntax.Regexp) int {
	const most = 1 << 30 // the product of it and of a repetition, 1,000 at most, does not overflow
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpRepeat:
		return min(most, max(1, re.Min, re.Max)*(programSize(re.Sub[0])+1)+2)
	}
	n := 2
	for _, sub := range re.Sub {
		n = min(most, n+1+programSize(sub))
	}
	return n
}
