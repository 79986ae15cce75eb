package server

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/raftnode"
)

func handoverNode() (*Node, *runner, *[]input) {
	n := &Node{log: hclog.NewNullLogger(), clock: newClock(nil), config: &config.Node{}}
	var posted []input
	r := &runner{node: n}
	r.owner = owner{step: func(in input) { posted = append(posted, in) }, flush: func() {}}
	n.shards = []*runner{r}
	return n, r, &posted
}

func handoverBytes(number uint32, term uint64, size uint32, content string) []byte {
	b := binary.BigEndian.AppendUint32(nil, number)
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint32(b, size)
	return append(b, content...)
}

// TestHandoverIsTakenWholeOrNotAtAll: what is cut short, too large or of no shard is not answered and not kept.
func TestHandoverIsTakenWholeOrNotAtAll(t *testing.T) {
	for _, test := range []struct {
		name  string
		sent  []byte
		taken bool
	}{
		{"whole", handoverBytes(0, 7, 3, "abc"), true},
		{"empty", handoverBytes(0, 7, 0, ""), true},
		{"cut short", handoverBytes(0, 7, 4, "abc"), false},
		{"header cut short", handoverBytes(0, 7, 4, "")[:9], false},
		{"no such shard", handoverBytes(1, 7, 3, "abc"), false},
		{"shard of all ones", handoverBytes(1<<32-1, 7, 3, "abc"), false},
		{"too large", handoverBytes(0, 7, shard.MaxHandover+1, strings.Repeat("x", 100)), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, r, _ := handoverNode()
			here, there := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				n.takeHandover(there)
				_ = there.Close()
			}()
			go func() {
				_, _ = here.Write(test.sent) // it may be refused before all is read
				if !test.taken {
					_ = here.Close()
				}
			}()
			var answer [1]byte
			if k, _ := here.Read(answer[:]); (k == 1 && answer[0] == handoverTaken) != test.taken {
				t.Errorf("answered %d bytes %v", k, answer)
			}
			_ = here.Close()
			<-done
			h := r.handed.Load()
			if (h != nil) != test.taken {
				t.Fatalf("kept %v", h)
			}
			if h != nil && (h.term != 7 || len(h.content) != int(test.sent[15])) {
				t.Errorf("%+v", h)
			}
		})
	}
}

// TestHandoverCountsForTheElectionThatItWasMadeFor: not for one that nobody planned, of another term or much later, since
// then the old leader went on and its members' time-outs with it.
func TestHandoverCountsForTheElectionThatItWasMadeFor(t *testing.T) {
	for _, test := range []struct {
		name   string
		change raftnode.Elected
		age    time.Duration
		counts bool
	}{
		{"next term", raftnode.Elected{Term: 8, Planned: true}, 0, true},
		{"not planned", raftnode.Elected{Term: 8}, 0, false},
		{"later term", raftnode.Elected{Term: 9, Planned: true}, 0, false},
		{"same term", raftnode.Elected{Term: 7, Planned: true}, 0, false},
		{"long ago", raftnode.Elected{Term: 8, Planned: true}, handoverAge + time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, r, posted := handoverNode()
			r.handed.Store(&handover{term: 7, at: n.clock.now() - test.age.Milliseconds(), content: []byte("abc")})
			r.inherit(test.change)
			if counts := len(*posted) == 1 && (*posted)[0].kind == inputInherit; counts != test.counts {
				t.Errorf("%+v", *posted)
			}
			if r.handed.Load() != nil {
				t.Error("it stays for another election")
			}
		})
	}
}
