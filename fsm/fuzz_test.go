package fsm

import (
	"testing"

	"github.com/coordd/coordd/fsm/record"
)

// FuzzEvolve applies the records of arbitrary entries: nothing panics, a record that is refused changes nothing, and the
// state is the one that its own records make, in a snapshot or anew.
func FuzzEvolve(f *testing.F) {
	f.Add([]byte{})
	var previous []byte
	for r := range sampleState(f).Records() {
		b, err := record.AppendRecord(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(previous, b...))
		previous = b
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var decoder record.Decoder
		state := NewState()
		for len(b) > 0 {
			r, n, err := decoder.Decode(b)
			if n <= 0 || err != nil {
				return
			}
			b = b[n:]
			before := state.Digest()
			next, err := state.Evolve(r)
			if err != nil {
				if state.Digest() != before {
					t.Fatalf("refused, and changed: %v", err)
				}
				continue
			}
			state = next
		}
		again := NewState()
		for r := range state.Records() {
			next, err := again.Evolve(r)
			if err != nil {
				t.Fatalf("its own record is refused: %v", err)
			}
			again = next
		}
		if again.Digest() != state.Digest() || print(again) != print(state) {
			t.Fatalf("made anew it differs:\n%s\n%s", print(state), print(again))
		}
	})
}
