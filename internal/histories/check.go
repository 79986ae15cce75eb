package histories

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Violation is something in a history that no correct cluster shows.
type Violation struct {
	Partition string
	What      string
}

func (v Violation) String() string { return v.Partition + ": " + v.What }

// checkWithin bounds the search for an order of one partition's operations, in real time.
const checkWithin = time.Minute

// Check returns what is wrong with a history, nil for nothing.
func Check(h History) (all []Violation) {
	parts := map[string][]Op{}
	for _, o := range h.Ops {
		parts[o.Partition] = append(parts[o.Partition], o)
	}
	for _, partition := range slices.Sorted(maps.Keys(parts)) {
		ops := parts[partition]
		violations := checkValues(partition, ops)
		if len(violations) == 0 { // else no order can be found either
			violations = checkOrder(partition, ops)
		}
		all = append(all, violations...)
	}
	return append(all, checkRefusals(h)...)
}

// checkValues looks at each value by itself: what was read must have been committed, and not been refused.
func checkValues(partition string, ops []Op) (out []Violation) {
	commits := map[int64]Op{}
	for _, o := range ops {
		if o.Kind != Commit {
			continue
		}
		if other, twice := commits[o.Value]; twice {
			out = append(out, Violation{partition, fmt.Sprintf("the history commits %d twice, which tells nothing: %v, %v", o.Value, other, o)})
		}
		commits[o.Value] = o
	}
	seen := map[int64]bool{}
	for _, o := range ops {
		if o.Kind != Read || o.Value == None || seen[o.Value] {
			continue
		}
		seen[o.Value] = true
		switch c, known := commits[o.Value]; {
		case !known:
			out = append(out, Violation{partition, fmt.Sprintf("nobody committed what was read: %v", o)})
		case c.Outcome == Refused:
			out = append(out, Violation{partition, fmt.Sprintf("a commit counts that was refused: %v, then %v", c, o)})
		}
	}
	return out
}

// state is of one partition: the committed offset, whose task it is, and the epoch at which that was told.
type state struct {
	value  int64
	tenure Tenure
	epoch  int32
}

// step is what an operation does to a partition, and whether it may happen there.
func step(s state, o Op) (bool, state) {
	switch o.Kind {
	case Read:
		return s.value == o.Value, s
	case Commit:
		legal := s.tenure == o.Tenure
		s.value = o.Value
		return legal, s
	case Grant:
		legal := s.tenure == o.Tenure || o.Epoch > s.epoch
		s.tenure, s.epoch = o.Tenure, max(s.epoch, o.Epoch)
		return legal, s
	default: // Release
		legal := s.tenure == o.Tenure
		s.tenure = Tenure{}
		return legal, s
	}
}

var model = porcupine.Model{
	Init: func() any { return state{value: None} },
	Step: func(s, input, _ any) (bool, any) { return step(s.(state), input.(Op)) },
}

// checkOrder looks for an order of the operations of one partition that explains all answers.
func checkOrder(partition string, ops []Op) []Violation {
	ops = decided(ops)
	history := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		history[i] = porcupine.Operation{ClientId: i, Input: o, Call: int64(o.Call), Return: int64(o.Return)}
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, checkWithin)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Violation{{partition, fmt.Sprintf("whether its %d operations have an order was not found out in %v", len(ops), checkWithin)}}
	}
	var longest []porcupine.Operation
	for _, p := range info.PartialLinearizationsOperations() {
		for _, order := range p {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	return []Violation{{partition, explain(ops, longest)}}
}

// decided takes out commits that are known to have had no effect, or that need not have had one. Of the others, those
// without an answer have one by when somebody read them.
func decided(ops []Op) (out []Op) {
	read := map[int64]time.Duration{}
	for _, o := range ops {
		if at, known := read[o.Value]; o.Kind == Read && (!known || o.Return < at) {
			read[o.Value] = o.Return
		}
	}
	for _, o := range ops {
		if o.Kind == Commit {
			at, known := read[o.Value]
			if o.Outcome == Refused || o.Outcome == Unknown && !known {
				continue
			}
			if o.Outcome == Unknown {
				o.Return = max(at, o.Call) // a read that was over before makes the history impossible, whatever stands here
			}
		}
		out = append(out, o)
	}
	return out
}

// explained is how many operations an explanation shows of both sides of the place where no order goes on.
const explained = 8

// explain shows where the longest order that was found ends.
func explain(ops []Op, longest []porcupine.Operation) string {
	placed := map[Op]bool{}
	var b strings.Builder
	b.WriteString("no order of its operations explains all answers; one goes so far:")
	for i, o := range longest {
		op := o.Input.(Op)
		placed[op] = true
		if i >= len(longest)-explained {
			fmt.Fprintf(&b, "\n\t%v", op)
		}
	}
	b.WriteString("\n    and none of these can be next:")
	left := slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return placed[o] })
	slices.SortFunc(left, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	left = left[:min(explained, len(left))]
	for _, o := range left {
		fmt.Fprintf(&b, "\n\t%v", o)
	}
	if i := slices.IndexFunc(left, func(o Op) bool { return o.Kind == Read }); i >= 0 {
		fmt.Fprintf(&b, "\n    all about offset %d:", left[i].Value)
		for _, o := range ops {
			if o.Kind <= Read && o.Value == left[i].Value {
				fmt.Fprintf(&b, "\n\t%v", o)
			}
		}
	}
	return b.String()
}

// checkRefusals looks for commits that were refused although the member had all their tasks before, then and afterwards.
func checkRefusals(h History) (out []Violation) {
	proofs := map[Tenure]Proof{}
	for _, p := range h.Proofs {
		proofs[p.Tenure] = p
	}
	excused := map[int]bool{}
	refused := map[int]Op{}
	for _, o := range h.Ops {
		if o.Kind != Commit || o.Outcome != Refused {
			continue
		}
		p, known := proofs[o.Tenure]
		if !known || o.Call <= p.From || o.Return >= p.Till {
			excused[o.Request] = true
		} else {
			refused[o.Request] = o
		}
	}
	for _, request := range slices.Sorted(maps.Keys(refused)) {
		if o := refused[request]; !excused[request] {
			out = append(out, Violation{o.Partition, fmt.Sprintf("a commit was refused though its member had the task from %v till %v: %v",
				proofs[o.Tenure].From, proofs[o.Tenure].Till, o)})
		}
	}
	return out
}
