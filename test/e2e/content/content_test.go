package content

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const steps = 500

type output struct {
	key   string
	value []byte
}

// process is what a correct application makes of the input.
func process(topology string, n int) (out []output) {
	counts := map[string]uint64{}
	last := map[string]string{}
	for i := range n {
		for _, r := range Input(topology, i) {
			switch topology {
			case "wordcount", "rolled":
				if r.Topic == ".side" {
					continue
				}
				for w := range strings.FieldsSeq(r.Value) {
					counts[w]++
					out = append(out, output{w, binary.BigEndian.AppendUint64(nil, counts[w])})
				}
			case "join", "match":
				last[r.Topic+r.Key] = r.Value
				l, r2 := last[".left"+r.Key], last[".right"+r.Key]
				if l != "" && r2 != "" {
					out = append(out, output{r.Key, fmt.Appendf(nil, "%s|%s", l, r2)})
				}
			default:
				out = append(out, output{r.Key, []byte(strings.ToUpper(r.Value))})
			}
		}
	}
	return out
}

func check(topology string, out []output) Check {
	c := NewCheck(topology, steps)
	for _, o := range out {
		c.Add(o.key, o.value)
	}
	return c
}

func TestCheck(t *testing.T) {
	for _, topology := range []string{"stateless", "wordcount", "join", "match", "rolled"} {
		t.Run(topology, func(t *testing.T) {
			good := process(topology, steps)
			if c := check(topology, good); !c.Complete() || c.Err() != nil {
				t.Fatalf("correct output: complete %v, %v", c.Complete(), c.Err())
			}
			mid := len(good) / 2
			for name, bad := range map[string][]output{
				"empty":      nil,
				"lost last":  good[:len(good)-1],
				"lost":       slices.Delete(slices.Clone(good), mid, mid+1),
				"duplicate":  slices.Insert(slices.Clone(good), mid, good[mid]),
				"dup last":   append(slices.Clone(good), good[len(good)-1]),
				"unexpected": slices.Insert(slices.Clone(good), mid, output{"other", []byte("what")}),
				"extra step": process(topology, steps+1),
			} {
				if c := check(topology, bad); c.Err() == nil {
					t.Errorf("%s is not noticed", name)
				}
			}
		})
	}
}

func TestCompleteOnlyAtTheEnd(t *testing.T) {
	for _, topology := range []string{"stateless", "wordcount", "join", "match", "rolled"} {
		good := process(topology, steps)
		if check(topology, good[:len(good)-1]).Complete() {
			t.Errorf("%s: complete before the last output", topology)
		}
	}
}
