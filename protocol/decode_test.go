package protocol

import (
	"encoding/binary"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
)

// decoded are the keys whose requests this package decodes.
var decoded = []int16{
	KeyOffsetCommit, KeyOffsetFetch, KeyFindCoordinator, KeyJoinGroup, KeyHeartbeat, KeyLeaveGroup, KeySyncGroup,
	KeyDescribeGroups, KeyListGroups, KeyApiVersions, KeyTxnOffsetCommit, KeyDescribeConfigs, KeyAlterConfigs, KeyDeleteGroups,
	KeyIncrementalAlterConfigs, KeyOffsetDelete, KeyConsumerGroupDescribe, KeyShareGroupDescribe, KeyStreamsGroupHeartbeat,
	KeyStreamsGroupDescribe, keyDescribeShareGroupOffsets,
}

// noNames resolves no topic id, allNames every one.
func noNames([16]byte) (string, bool)     { return "", false }
func allNames(id [16]byte) (string, bool) { return "topic-" + string('a'+rune(id[0]%26)), true }

// decodeAny runs everything that reads a request body of this key.
func decodeAny(key, version int16, body []byte) {
	var hb streams.HeartbeatRequest
	GroupID(key, version, body)
	_, _ = Groups(key, version, body)
	_, _ = SplitGroups(key, version, body, func(id string) bool { return len(id)%2 == 0 })
	switch key {
	case KeyOffsetCommit:
		_, _, _ = DecodeOffsetCommit(version, body, noNames)
	case KeyTxnOffsetCommit:
		_, _, _ = DecodeTxnOffsetCommit(version, body, allNames)
	case KeyOffsetFetch:
		_, _ = DecodeOffsetFetch(version, body, allNames)
	case KeyOffsetDelete:
		_, _ = DecodeOffsetDelete(version, body)
	case KeyFindCoordinator:
		_, _ = DecodeFindCoordinator(version, body)
	case KeyListGroups:
		_, _ = DecodeListGroups(version, body)
	case KeyApiVersions:
		_, _ = DecodeApiVersions(version, body)
	case KeyStreamsGroupDescribe:
		_, _ = DecodeStreamsDescribe(version, body)
	case KeyStreamsGroupHeartbeat:
		_ = DecodeHeartbeat(version, body, &hb)
	}
	h := Header{Key: key, Version: version, Correlation: 1}
	if out, err := AppendError(nil, h, body, coordinator.NotCoordinator, "elsewhere"); err == nil {
		if _, _, err := ResponseBody(key, version, out[4:]); err != nil {
			panic(err)
		}
	}
	_, _ = AppendTypeRefusal(nil, h, body, false)
}

// fill puts one element into every slice, a value into every pointer and a short text into every string of a request.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		v.Index(0).SetUint(3)
	case reflect.String:
		v.SetString("text")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(2)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(2)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// sample is a request of this key and version with everything in it once.
func sample(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDecodersBoundMemory puts hostile lengths at every position of a request of every API that is decoded here: a few
// bytes must never make the decoder allocate for what they only claim.
func TestDecodersBoundMemory(t *testing.T) {
	for _, key := range decoded {
		for v := int16(0); v <= kmsg.RequestForKey(key).MaxVersion(); v++ {
			body := sample(key, v).AppendTo(nil)
			for at := range body {
				for _, hostile := range [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff, 0x07}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0x7f}} {
					b := append(slices.Clone(body[:at]), hostile...)
					b = append(b, body[min(len(body), at+len(hostile)):]...)
					if n := allocated(func() { decodeAny(key, v, b) }); n > 512<<10 {
						t.Fatalf("key %d v%d: %d bytes allocated for a body of %d, lengths at %d replaced by %x", key, v, n, len(b), at, hostile)
					}
				}
			}
		}
	}
}

// TestDecodersAreLinear fills a large body with as many minimal elements as fit: memory stays within a factor of it.
func TestDecodersAreLinear(t *testing.T) {
	const size = 256 << 10
	for _, key := range decoded {
		version := kmsg.RequestForKey(key).MaxVersion()
		body := sample(key, version).AppendTo(nil)
		for at := range body {
			b := append(slices.Clone(body[:at]), binary.AppendUvarint(nil, size/20)...)
			b = append(b, make([]byte, size)...)
			if n := allocated(func() { decodeAny(key, version, b) }); n > 256*size {
				t.Fatalf("key %d v%d: %d bytes allocated for a body of %d, length at %d", key, version, n, len(b), at)
			}
		}
	}
}

func FuzzDecoders(f *testing.F) {
	for _, key := range decoded {
		top := kmsg.RequestForKey(key).MaxVersion()
		for v := range top + 1 {
			f.Add(key, v, sample(key, v).AppendTo(nil))
		}
		f.Add(key, top, []byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if n := allocated(func() { decodeAny(key, version, body) }); n > 4<<20+512*uint64(len(body)) {
			t.Fatalf("%d bytes allocated for a body of %d", n, len(body))
		}
	})
}

func FuzzUpstreamAnswers(f *testing.F) {
	for _, key := range decoded {
		v := kmsg.ResponseForKey(key).MaxVersion()
		resp := kmsg.ResponseForKey(key)
		fill(reflect.ValueOf(resp).Elem())
		resp.SetVersion(v)
		f.Add(key, v, resp.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if resp := kmsg.ResponseForKey(key); resp == nil || version < 0 || version > resp.MaxVersion() {
			return
		}
		h := Header{Key: key, Version: version}
		switch key {
		case KeyListGroups:
			_, _ = AppendListGroups(nil, h, &GroupFilter{}, nil, body, nil)
		case KeyDeleteGroups:
			_, _ = AppendDeleteGroups(nil, h, nil, body)
		case KeyOffsetFetch:
			_, _ = AppendOffsetFetch(nil, h, nil, body)
		case KeyFindCoordinator:
			_, _ = ReadFindCoordinatorResponse(version, body, &FindCoordinator{Keys: []string{"g"}})
		case KeyApiVersions:
			_, _, _, _ = ReadApiVersionsResponse(version, body)
		default:
			_, _ = AppendForeignDescribe(nil, h, []string{"g"}, body)
		}
	})
}
