// Package content is the known input of the end-to-end tests and the check of what the Streams application must make of
// it. It knows no Kafka: records are topic suffixes, keys and values.
//
// The application keeps no cache, so its output is a full history: not only the last count of each word is checked, but
// that the counts of a word are 1, 2, 3, ... with none missing, none twice and none out of order.
package content

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Keys is the number of distinct record keys, Words the size of the vocabulary.
const (
	Keys  = 40
	Words = 60
)

// Record is one record to produce; Topic is what follows the name of the application, such as ".in".
type Record struct{ Topic, Key, Value string }

// Topics lists the suffixes of the topics of a topology: inputs first, the output last.
func Topics(topology string) []string {
	switch topology {
	case "join", "match":
		return []string{".left", ".right", ".out"}
	case "rolled":
		return []string{".in", ".side", ".out", ".side-out"}
	default:
		return []string{".in", ".out"}
	}
}

// Input is what step i (from 0) of the input consists of.
func Input(topology string, i int) []Record {
	key := keyOf(i)
	switch topology {
	case "join":
		n := strconv.Itoa(i)
		return []Record{{".left", key, "l" + n}, {".right", key, "r" + n}}
	case "match":
		n := strconv.Itoa(i)
		return []Record{{".left", n, "l" + n}, {".right", n, "r" + n}}
	case "wordcount", "fixed":
		return []Record{{".in", key, strings.Join(words(i), " ")}}
	case "rolled":
		return []Record{{".in", key, strings.Join(words(i), " ")}, {".side", key, "line " + strconv.Itoa(i)}}
	default:
		return []Record{{".in", key, "line " + strconv.Itoa(i)}}
	}
}

func keyOf(i int) string { return "key-" + strconv.Itoa(i%Keys) }

// words of line i: one to four, spread over the vocabulary, now and then the same word twice.
func words(i int) []string {
	x := uint32(i)*2654435761 + 12345
	var line []string
	for n := i%4 + 1; n > 0; n-- {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		line = append(line, "word-"+strconv.Itoa(int(x%Words)))
	}
	return line
}

// Check compares output records with what the input of steps 0 to n-1 must give.
type Check interface {
	// Add takes the next output record of its partition.
	Add(key string, value []byte)
	// Complete says whether everything that must come has come.
	Complete() bool
	// Err names what is missing, twice, out of order or unexpected.
	Err() error
	// Outputs is the number of records added.
	Outputs() int
}

// NewCheck is the check of what a topology writes to .out after n steps of input.
func NewCheck(topology string, n int) Check {
	switch topology {
	case "wordcount", "fixed", "rolled":
		c := &counts{want: map[string]int64{}, have: map[string]int64{}}
		for i := range n {
			for _, w := range words(i) {
				c.want[w]++
			}
		}
		return c
	case "join":
		return &pairs{n: n, last: map[string][2]int{}}
	default:
		c := &once{want: map[string]bool{}, have: map[string]int{}}
		for i := range n {
			if topology == "match" {
				c.want[fmt.Sprintf("%d=l%d|r%d", i, i, i)] = true
			} else {
				c.want[keyOf(i)+"=LINE "+strconv.Itoa(i)] = true
			}
		}
		return c
	}
}

// NewSideCheck is the check of what rolled writes to .side-out after n steps of input: what stateless makes of them.
func NewSideCheck(n int) Check { return NewCheck("stateless", n) }

// faults keeps the first few of what is wrong and counts the rest.
type faults struct {
	first   []error
	count   int
	outputs int
}

func (f *faults) add(format string, args ...any) {
	f.count++
	if len(f.first) < 10 {
		f.first = append(f.first, fmt.Errorf(format, args...))
	}
}

func (f *faults) Outputs() int { return f.outputs }

func (f *faults) with(missing []string) error {
	slices.Sort(missing)
	errs := slices.Clone(f.first)
	for _, m := range missing[:min(len(missing), 10)] {
		errs = append(errs, errors.New(m))
	}
	if n := f.count + len(missing); n > 0 {
		return fmt.Errorf("%d faults in %d output records: %w", n, f.outputs, errors.Join(errs...))
	}
	return nil
}

// counts checks wordcount, fixed and rolled.
type counts struct {
	faults
	want, have map[string]int64
}

func (c *counts) Add(word string, value []byte) {
	c.outputs++
	if len(value) != 8 {
		c.add("%s: value of %d bytes, not a count", word, len(value))
		return
	}
	n := int64(binary.BigEndian.Uint64(value))
	if n != c.have[word]+1 {
		c.add("%s: %d follows %d", word, n, c.have[word])
	}
	if n > c.want[word] {
		c.add("%s: %d of only %d", word, n, c.want[word])
	}
	c.have[word] = n
}

func (c *counts) Complete() bool {
	for w, n := range c.want {
		if c.have[w] < n {
			return false
		}
	}
	return true
}

func (c *counts) Err() error {
	var missing []string
	for w, n := range c.want {
		if c.have[w] != n {
			missing = append(missing, fmt.Sprintf("%s: ended at %d, not %d", w, c.have[w], n))
		}
	}
	return c.with(missing)
}

// once checks stateless and match: every value exactly once.
type once struct {
	faults
	want map[string]bool
	have map[string]int
	seen int
}

func (c *once) Add(key string, value []byte) {
	c.outputs++
	kv := key + "=" + string(value)
	c.have[kv]++
	switch {
	case !c.want[kv]:
		c.add("unexpected %s", kv)
	case c.have[kv] == 1:
		c.seen++
	default:
		c.add("%s comes %d times", kv, c.have[kv])
	}
}

func (c *once) Complete() bool { return c.seen == len(c.want) }

func (c *once) Err() error {
	var missing []string
	for kv := range c.want {
		if c.have[kv] == 0 {
			missing = append(missing, "missing "+kv)
		}
	}
	return c.with(missing)
}

// pairs checks join. The left and right values of a key are numbered; each input record after both sides are there gives
// one output, in which one side has gone on by one.
type pairs struct {
	faults
	n    int
	last map[string][2]int // rank of the left and right value last seen
}

func (c *pairs) Add(key string, value []byte) {
	c.outputs++
	var l, r int
	if n, err := fmt.Sscanf(string(value), "l%d|r%d", &l, &r); n != 2 || err != nil || keyOf(l) != key || keyOf(r) != key {
		c.add("%s: unexpected %q", key, value)
		return
	}
	l, r = l/Keys, r/Keys
	prev, seen := c.last[key]
	switch {
	case !seen && l != 0 && r != 0:
		c.add("%s: first pair is (%d,%d)", key, l, r)
	case seen && (l-prev[0])+(r-prev[1]) != 1, seen && l < prev[0], seen && r < prev[1]:
		c.add("%s: (%d,%d) follows (%d,%d)", key, l, r, prev[0], prev[1])
	}
	c.last[key] = [2]int{l, r}
}

func (c *pairs) want() map[string]int {
	want := map[string]int{}
	for i := range c.n {
		want[keyOf(i)] = i / Keys
	}
	return want
}

func (c *pairs) Complete() bool {
	for key, rank := range c.want() {
		if last, seen := c.last[key]; !seen || last != [2]int{rank, rank} {
			return false
		}
	}
	return true
}

func (c *pairs) Err() error {
	var missing []string
	for key, rank := range c.want() {
		if last, seen := c.last[key]; !seen || last != [2]int{rank, rank} {
			missing = append(missing, fmt.Sprintf("%s: ended at %v (seen %v), not (%d,%d)", key, last, seen, rank, rank))
		}
	}
	return c.with(missing)
}
