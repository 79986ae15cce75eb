package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

// TestEveryAddressFieldIsKnown walks all response types: one that can carry a broker's address is rewritten, or is
// listed here with the reason why not.
func TestEveryAddressFieldIsKnown(t *testing.T) {
	others := map[int16]string{
		52: "controller listener", 53: "controller listener", 54: "controller listener", 59: "controller listener",
		82: "controller listener", 55: "addresses of controllers, for people",
		88: "endpoints of the application", 89: "endpoints of the application",
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		resp := kmsg.ResponseForKey(key)
		if resp == nil {
			continue
		}
		has := hasAddress(reflect.TypeOf(resp).Elem(), map[reflect.Type]bool{})
		rewritten := rewriterFor(key, resp.MaxVersion()) != nil
		_, excused := others[key]
		if has != (rewritten || excused) || rewritten && excused {
			t.Errorf("%s: has addresses %v, rewritten %v, excused %v", kmsg.NameForKey(key), has, rewritten, excused)
		}
		if action, _ := protocol.Lookup(key); excused && action.Action != protocol.Reject && action.Action != protocol.Local && key != 55 {
			t.Errorf("%s is passed on with addresses", kmsg.NameForKey(key))
		}
	}
}

func hasAddress(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer:
		return hasAddress(t.Elem(), seen)
	case reflect.Struct:
		if seen[t] {
			return false
		}
		seen[t] = true
		_, host := t.FieldByName("Host")
		_, port := t.FieldByName("Port")
		if host && port {
			return true
		}
		for i := range t.NumField() {
			if hasAddress(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// tailAnswers are Produce and Fetch answers with everything that a walk has to step over.
func tailAnswers() []kmsg.Response {
	message, rack := "broken", "r1"
	var out []kmsg.Response
	for v := int16(9); v <= 13; v++ {
		r := kmsg.NewPtrProduceResponse()
		r.Version, r.ThrottleMillis = v, 5
		for i := range 3 {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode, p.BaseOffset = int32(i), 6, 9
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 2, 7
			p.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 1, ErrorMessage: &message}, {}}
			p.ErrorMessage = &message
			r.Topics = append(r.Topics, kmsg.ProduceResponseTopic{Topic: "t", TopicID: [16]byte{1}, Partitions: []kmsg.ProduceResponseTopicPartition{p}})
		}
		r.Brokers = []kmsg.ProduceResponseBroker{{NodeID: 0, Host: "upstream-secret", Port: 1234, Rack: &rack}, {NodeID: 9, Host: "upstream-unknown", Port: 99}}
		out = append(out, r)
	}
	for v := int16(12); v <= 18; v++ {
		r := kmsg.NewPtrFetchResponse()
		r.Version, r.SessionID = v, 77
		for i := range 3 {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.HighWatermark, p.PreferredReadReplica = int32(i), 100, 3
			p.DivergingEpoch.Epoch = 4
			p.CurrentLeader.LeaderID = 2
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
			p.RecordBatches = bytes.Repeat([]byte{0, 1, 2, 3}, 50_000*i)
			r.Topics = append(r.Topics, kmsg.FetchResponseTopic{Topic: "t", TopicID: [16]byte{1}, Partitions: []kmsg.FetchResponseTopicPartition{p}})
		}
		r.Brokers = []kmsg.FetchResponseBroker{{NodeID: 0, Host: "upstream-secret", Port: 1234, Rack: &rack}, {NodeID: 9, Host: "upstream-unknown", Port: 99}}
		out = append(out, r)
	}
	return out
}

func tailGateway() *Gateway {
	return New(Config{Coordinators: echoCoords{}, Cluster: oneSlot{}})
}

type oneSlot struct{ lonelyCluster }

func (oneSlot) Nodes() []Node {
	return []Node{{ID: 1, Host: "coordd.example", ClientPort: 9092, BrokerPortBase: 9100, BrokerPortStep: 1, Live: true}}
}
func (oneSlot) Slots() []Slot { return []Slot{{K: 4, Broker: 0}} }

func TestNodeEndpointsAreRewritten(t *testing.T) {
	for _, resp := range tailAnswers() {
		key, version := resp.Key(), resp.GetVersion()
		t.Run(fmt.Sprintf("%s v%d", kmsg.NameForKey(key), version), func(t *testing.T) {
			h := protocol.Header{Key: key, Version: version, Correlation: 3}
			answer := protocol.AppendResponse(nil, h, resp)
			if !hasTail(key, version) {
				if bytes.Contains(answer, []byte("upstream")) {
					t.Fatal("an address in a version without NodeEndpoints")
				}
				return
			}
			got, err := rewriteTail(&conn{g: tailGateway()}, h, slices.Clone(answer))
			if err != nil {
				t.Fatal(err)
			}
			want := kmsg.ResponseForKey(key)
			want.SetVersion(version)
			_, body, _ := protocol.ResponseBody(key, version, answer[4:])
			if err := want.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			rack := "r1"
			switch r := want.(type) {
			case *kmsg.ProduceResponse:
				r.Brokers = []kmsg.ProduceResponseBroker{{NodeID: 0, Host: "coordd.example", Port: 9104, Rack: &rack}}
			case *kmsg.FetchResponse:
				r.Brokers = []kmsg.FetchResponseBroker{{NodeID: 0, Host: "coordd.example", Port: 9104, Rack: &rack}}
			}
			if !bytes.Equal(got, protocol.AppendResponse(nil, h, want)) {
				t.Error("the answer is not the same with other addresses")
			}
		})
	}
}

func TestRelayedAnswersHideNodeEndpoints(t *testing.T) {
	for _, resp := range tailAnswers() {
		key, version := resp.Key(), resp.GetVersion()
		if !hasTail(key, version) {
			continue
		}
		h := protocol.Header{Key: key, Version: version, Correlation: 3}
		answer := protocol.AppendResponse(nil, h, resp)
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		r := &relay{src: bufio.NewReaderSize(bytes.NewReader(answer), 16), dst: w, left: len(answer)}
		r.hideEndpoints(key, version)
		r.skip(r.left)
		_ = w.Flush()
		if r.err != nil || out.Len() != len(answer) {
			t.Fatalf("%s v%d: %v, %d of %d bytes", kmsg.NameForKey(key), version, r.err, out.Len(), len(answer))
		}
		got := kmsg.ResponseForKey(key)
		got.SetVersion(version)
		_, body, _ := protocol.ResponseBody(key, version, out.Bytes()[4:])
		if err := got.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		brokers := reflect.ValueOf(got).Elem().FieldByName("Brokers")
		if brokers.Len() != 0 {
			t.Errorf("%s v%d: endpoints are left: %v", kmsg.NameForKey(key), version, brokers)
		}
		reflect.ValueOf(resp).Elem().FieldByName("Brokers").SetLen(0)
		reflect.ValueOf(got).Elem().FieldByName("UnknownTags").SetZero() // what hides the endpoints
		if !bytes.Equal(resp.AppendTo(nil), got.AppendTo(nil)) {
			t.Errorf("%s v%d: more than the endpoints has changed", kmsg.NameForKey(key), version)
		}
	}
}

// FuzzRewriteTail: whatever an upstream sends as a Produce or Fetch answer, nothing panics or runs away.
func FuzzRewriteTail(f *testing.F) {
	for _, resp := range tailAnswers() {
		h := protocol.Header{Key: resp.Key(), Version: resp.GetVersion()}
		if b := protocol.AppendResponse(nil, h, resp); len(b) < 4<<10 {
			f.Add(b, resp.Key() == protocol.KeyFetch)
		}
	}
	g := tailGateway()
	f.Fuzz(func(t *testing.T, b []byte, fetch bool) {
		h := protocol.Header{Key: protocol.KeyProduce, Version: 13}
		if fetch {
			h = protocol.Header{Key: protocol.KeyFetch, Version: 18}
		}
		_, _ = rewriteTail(&conn{g: g}, h, slices.Clone(b))
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		r := &relay{src: bufio.NewReader(bytes.NewReader(b)), dst: w, left: len(b)}
		r.hideEndpoints(h.Key, h.Version)
		r.skip(r.left)
		_ = w.Flush()
		if out.Len() > len(b) {
			t.Errorf("%d bytes of %d passed on", out.Len(), len(b))
		}
	})
}
