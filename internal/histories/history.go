package histories

import (
	"fmt"
	"sync"
	"time"
)

// Kind is what an operation does.
type Kind uint8

// The operations of a history.
const (
	Commit  Kind = iota // of an offset
	Read                // of the committed offset
	Grant               // a task is given to a member
	Release             // a task is taken from a member: it gave it up, left, or was removed
)

func (k Kind) String() string { return [...]string{"commit", "read", "grant", "release"}[k] }

// Outcome is what a client knows of its commit.
type Outcome uint8

// The outcomes of a commit.
const (
	Unknown      Outcome = iota // no answer, or one that says to ask again: it counts from some moment on, or never
	Acknowledged                // it counts from some moment before the answer on
	Refused                     // it never counts
)

func (o Outcome) String() string { return [...]string{"unknown", "acknowledged", "refused"}[o] }

// None is the value of a partition without a committed offset.
const None = -1

// Tenure is one time during which a member has a task: from when it is given until it is taken.
type Tenure struct {
	// Number tells tenures of a history apart; 0 is nobody's.
	Number int
	Member string
}

// Op is one operation on the committed offset of one partition. It happened at one moment between Call and Return, both
// included, which are measured from the start of the history.
type Op struct {
	Kind         Kind
	Partition    string
	Call, Return time.Duration
	// Tenure is whose task it is (all but reads), and Epoch the member epoch of the request or of the answer.
	Tenure Tenure
	Epoch  int32
	// Value is the offset; no two commits of a history have the same.
	Value   int64
	Outcome Outcome
	// Request numbers the requests of commits: a partition of a request may be refused for another one.
	Request int
}

func (o Op) String() string {
	s := fmt.Sprintf("[%v, %v] %s of %s", o.Call.Round(time.Microsecond), o.Return.Round(time.Microsecond), o.Kind, o.Partition)
	if o.Kind != Read {
		s += fmt.Sprintf(" by %s, tenure %d, epoch %d", o.Tenure.Member, o.Tenure.Number, o.Epoch)
	}
	switch o.Kind {
	case Commit:
		s += fmt.Sprintf(": %d %s", o.Value, o.Outcome)
	case Read:
		s += fmt.Sprintf(": %d", o.Value)
	}
	return s
}

// Proof says that a tenure was not over at a moment: the member was answered as one that has the task, and had asked then.
type Proof struct {
	Tenure     Tenure
	From, Till time.Duration
}

// History is what clients saw.
type History struct {
	Ops    []Op
	Proofs []Proof
}

// Log writes a history down. Its methods may be called by many goroutines.
type Log struct {
	start time.Time

	mu      sync.Mutex
	history History
	proofs  map[Tenure]int // where in history.Proofs
	next    int64          // value, tenure or request
	odd     []Violation
}

// NewLog begins a history.
func NewLog() *Log { return &Log{start: time.Now(), proofs: map[Tenure]int{}} }

// Now is the time since the start of the history.
func (l *Log) Now() time.Duration { return time.Since(l.start) }

// Number is one that the log has given out to nobody else.
func (l *Log) Number() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next
}

// Add notes operations that are over.
func (l *Log) Add(ops ...Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history.Ops = append(l.history.Ops, ops...)
}

// Proved notes that a tenure which began (was told) at a moment lasted at a later one.
func (l *Log) Proved(t Tenure, from, till time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, known := l.proofs[t]
	if !known {
		i = len(l.history.Proofs)
		l.proofs[t] = i
		l.history.Proofs = append(l.history.Proofs, Proof{t, from, till})
	}
	l.history.Proofs[i].Till = max(l.history.Proofs[i].Till, till)
}

// Odd notes an answer that must not be, whatever else was answered.
func (l *Log) Odd(partition, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.odd) < 20 {
		l.odd = append(l.odd, Violation{Partition: partition, What: fmt.Sprintf("%v: ", time.Since(l.start)) + fmt.Sprintf(format, args...)})
	}
}

// History is what was written down so far, with what was odd about it.
func (l *Log) History() (History, []Violation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return History{Ops: append([]Op(nil), l.history.Ops...), Proofs: append([]Proof(nil), l.history.Proofs...)}, append([]Violation(nil), l.odd...)
}

// Counts is how much there is in a history.
type Counts struct {
	Reads, Grants, Releases        int
	Acknowledged, Refused, Unknown int // commits
	// Late is how many commits of unknown outcome were read.
	Late int
}

func (c Counts) String() string {
	return fmt.Sprintf("%d commits acknowledged, %d refused, %d of unknown outcome of which %d were read, %d reads, %d grants, %d releases",
		c.Acknowledged, c.Refused, c.Unknown, c.Late, c.Reads, c.Grants, c.Releases)
}

// Counts counts.
func (h History) Counts() (c Counts) {
	read := map[int64]bool{}
	for _, o := range h.Ops {
		if o.Kind == Read {
			read[o.Value] = true
		}
	}
	for _, o := range h.Ops {
		switch {
		case o.Kind == Read:
			c.Reads++
		case o.Kind == Grant:
			c.Grants++
		case o.Kind == Release:
			c.Releases++
		case o.Outcome == Acknowledged:
			c.Acknowledged++
		case o.Outcome == Refused:
			c.Refused++
		default:
			c.Unknown++
			if read[o.Value] {
				c.Late++
			}
		}
	}
	return c
}
