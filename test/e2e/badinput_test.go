//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

const (
	badConnections  = 300
	closedWithin    = time.Minute
	idleConnections = 10_000
	idleMemory      = 48 << 10  // most bytes of memory for an idle connection
	spareMemory     = 192 << 20 // most memory that bad input may leave behind, as garbage not yet collected
)

// TestBadInput sends one node what no client sends. The node must live on, hold its memory, answer a real member all the
// time, and log each cause at most once a second.
func TestBadInput(t *testing.T) {
	dir := place(t)
	cluster := startCluster(t, 1, startUpstream(t, "kafka", dir), dir) // real Kafka, as it takes noise that reaches it
	node := cluster.Nodes[0]
	createTopics(t, node.Client, "bad", "stateless")
	member := startPulse(t, node.Client, "bad-probe", "bad.in")
	logFrom := logSize(t, node.Log)
	begin := time.Now()
	before := node.RSS()

	steps := []struct {
		name string
		run  func(t *testing.T, node *rig.Node)
	}{
		{"random bytes on the client port", func(t *testing.T, n *rig.Node) { garbage(t, n.Client, randomBytes) }},
		{"random bytes on the raft port", func(t *testing.T, n *rig.Node) { garbage(t, n.Raft, randomBytes) }},
		{"mutated and truncated requests", func(t *testing.T, n *rig.Node) { garbage(t, n.Client, mutatedRequest) }},
		{"framed noise on the raft port", func(t *testing.T, n *rig.Node) { garbage(t, n.Raft, framedNoise) }},
		{"frames of 2 GiB", hugeFrames},
		{"unknown API key", unknownKey},
		{"unknown version", unknownVersion},
		{"unknown version of ApiVersions", unknownApiVersions},
		{"idle connections", idle},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			s.run(t, node)
			if !node.Alive() {
				t.Fatalf("the node ended: %v\n%s", node.Err(), node.Tail(40))
			}
			member.waitAnswer(t, time.Now(), 10*time.Second)
			member.check(t)
			t.Logf("resident memory %d MiB", node.RSS()>>20)
		})
	}
	after := node.RSS()
	t.Logf("FIGURE bad input: resident memory %d MiB before, %d MiB after", before>>20, after>>20)
	if after > before+spareMemory+idleConnections*idleMemory {
		t.Errorf("resident memory went from %d to %d MiB", before>>20, after>>20)
	}
	checkLog(t, node.Log, logFrom, time.Since(begin))
	member.stop(t)
}

// garbage opens many connections, writes what make returns to each and ends the stream. The node may notice an end that
// comes together with the last bytes late, but not never.
func garbage(t *testing.T, addr string, make func(*rand.Rand) []byte) {
	t.Helper()
	r := rand.New(rand.NewPCG(1071, 44))
	type open struct {
		net.Conn
		sent []byte
	}
	var conns []open
	deadline := time.Now().Add(closedWithin)
	for range badConnections {
		c, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(deadline)
		sent := make(r)
		_, _ = c.Write(sent) // the node may close while we write
		_ = c.(*net.TCPConn).CloseWrite()
		conns = append(conns, open{c, sent})
	}
	for _, c := range conns {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that sent garbage and its end is still open after %v: % x", closedWithin, c.sent[:min(len(c.sent), 120)])
		}
	}
}

func randomBytes(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(4096))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// framedNoise is noise behind a plausible length and first byte.
func framedNoise(r *rand.Rand) []byte {
	noise := randomBytes(r)
	b := []byte{"RHS0\x00\x01"[r.IntN(6)]}
	b = binary.BigEndian.AppendUint32(b, uint32(len(noise)))
	return append(b, noise...)
}

// mutatedRequest is a valid request of some kind with a few bytes changed, or cut short, or followed by another.
func mutatedRequest(r *rand.Rand) []byte {
	var b []byte
	for range 1 + r.IntN(3) {
		frame := validRequest(r)
		for range r.IntN(4) {
			frame[4+r.IntN(len(frame)-4)] = byte(r.Uint32())
		}
		if r.IntN(3) == 0 {
			frame = frame[:r.IntN(len(frame))]
		}
		b = append(b, frame...)
	}
	return b
}

var requestKeys = []int16{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 22, 28, 42, 47, 60, 69, 88, 89, 93}

func validRequest(r *rand.Rand) []byte {
	req := kmsg.RequestForKey(requestKeys[r.IntN(len(requestKeys))])
	req.SetVersion(int16(r.IntN(int(req.MaxVersion()) + 1)))
	switch h := req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		h.Group, h.MemberID = "bad-group", "member"
		h.ActiveTasks = []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{0, 1, 2}}}
		topology := kmsg.NewStreamsGroupHeartbeatRequestTopology()
		topology.Subtopologies = append(topology.Subtopologies, kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology())
		h.Topology = &topology
	case *kmsg.FindCoordinatorRequest:
		h.CoordinatorKey, h.CoordinatorKeys = "bad-group", []string{"bad-group"}
	case *kmsg.StreamsGroupDescribeRequest:
		h.Groups = []string{"bad-group"}
	}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bad")).AppendRequest(nil, req, int32(r.Uint32()>>1))
}

// hugeFrames announces frames that are too long or negative, on both ports; the node must close, not wait for them.
func hugeFrames(t *testing.T, n *rig.Node) {
	before := n.RSS()
	for _, addr := range []string{n.Client, n.Raft} {
		for _, length := range []uint32{1<<31 - 1, 1 << 31, 1<<32 - 1, 512 << 20} {
			for range 8 {
				c, err := net.DialTimeout("tcp", addr, 5*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				frame := binary.BigEndian.AppendUint32(nil, length)
				_, _ = c.Write(append(frame, make([]byte, 64<<10)...))
				if addr == n.Client {
					if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("a frame of %d bytes is waited for on %s", length, addr)
					}
				}
			}
		}
	}
	if grown := n.RSS() - before; grown > spareMemory {
		t.Errorf("frames that were only announced cost %d MiB", grown>>20)
	}
}

// header is a request header v1 with nothing behind it.
func header(key, version int16, correlation int32) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, 3)
	b = append(b, "bad"...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func unknownKey(t *testing.T, n *rig.Node) {
	for _, key := range []int16{-1, 4, 52, 95, 1000, 32767} {
		exchange(t, n.Client, header(key, 0, 7))
	}
}

func unknownVersion(t *testing.T, n *rig.Node) {
	for _, key := range []int16{3, 8, 9, 10, 28, 88, 89} {
		for _, version := range []int16{-1, 99, 32767} {
			exchange(t, n.Client, header(key, version, 7))
		}
	}
}

// unknownApiVersions: a client newer than the node must be told the versions (as v0 with UNSUPPORTED_VERSION), since it
// cannot find them out otherwise.
func unknownApiVersions(t *testing.T, n *rig.Node) {
	request := append(header(18, 99, 7), 0) // no tags: the header of flexible versions
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	frame := exchange(t, n.Client, request)
	if frame == nil {
		t.Fatal("no answer to ApiVersions v99")
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	if err := resp.ReadFrom(frame[4:]); err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != 35 || len(resp.ApiKeys) == 0 {
		t.Errorf("ApiVersions v99: error %d, %d keys", resp.ErrorCode, len(resp.ApiKeys))
	}
}

// exchange sends one frame and returns the answer, nil when the node closes instead.
func exchange(t *testing.T, addr string, frame []byte) []byte {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	got, err := rig.ReadFrame(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("% x: neither answered nor closed within 10 s", frame)
	}
	return got
}

// idle opens connections and leaves them alone, half of them after an ApiVersions exchange.
func idle(t *testing.T, n *rig.Node) {
	count := idleConnections
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < uint64(count)+200 {
		count = int(limit.Cur) - 200
		t.Logf("only %d connections: the limit of open files is %d", count, limit.Cur)
	}
	before := n.RSS()
	conns := make([]net.Conn, 0, count)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range count {
		c, err := net.DialTimeout("tcp", n.Client, 10*time.Second)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, c)
		if i%2 == 0 {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Write(header(18, 0, 1)); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			if _, err := rig.ReadFrame(c); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	if _, _, err := rig.FindCoordinator(n.Client, "bad-probe", 10*time.Second); err != nil {
		t.Errorf("with %d idle connections: %v", count, err)
	}
	grown := n.RSS() - before
	t.Logf("FIGURE idle connections: %d cost %d MiB, %.1f KiB each", count, grown>>20, float64(grown)/1024/float64(count))
	if grown > int64(count)*idleMemory {
		t.Errorf("%d idle connections cost %d MiB", count, grown>>20)
	}
}

func logSize(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// checkLog counts the lines of each cause: what the line says without its time and its values.
func checkLog(t *testing.T, file string, from int64, took time.Duration) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	most := int(took.Seconds()) + 2
	counts := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(b[min(from, int64(len(b))):]))
	lines.Buffer(nil, 1<<20)
	total := 0
	for lines.Scan() {
		total++
		if strings.HasPrefix(lines.Text(), "panic:") || strings.HasPrefix(lines.Text(), "goroutine ") {
			t.Errorf("log: %s", lines.Text())
		}
		counts[cause(lines.Text())]++
	}
	for what, n := range counts {
		if n > most {
			t.Errorf("%d log lines in %v of %q", n, took.Round(time.Second), what)
		}
	}
	t.Logf("FIGURE log: %d lines of %d causes in %v", total, len(counts), took.Round(time.Second))
}

var (
	stamp  = regexp.MustCompile(`^\S*\d{4}-\d\d-\d\dT\S+\s*`)
	fields = regexp.MustCompile(`\s\S+=.*$`)
)

func cause(line string) string {
	var entry struct {
		Level   string `json:"@level"`
		Message string `json:"@message"`
		Module  string `json:"@module"`
	}
	if json.Unmarshal([]byte(line), &entry) == nil && entry.Message != "" {
		return fmt.Sprintf("%s %s: %s", entry.Level, entry.Module, entry.Message)
	}
	return fields.ReplaceAllString(stamp.ReplaceAllString(line, ""), "")
}
