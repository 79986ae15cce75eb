package protocol

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// codes collects every field named ErrorCode of an answer.
func codes(v reflect.Value, out *[]int16) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			codes(v.Elem(), out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name == "ErrorCode" {
				*out = append(*out, int16(v.Field(i).Int()))
			} else if f.IsExported() {
				codes(v.Field(i), out)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			codes(v.Index(i), out)
		}
	}
}

// TestAppendError asks for an error on every API and version that can carry one, for a request with one group, topic,
// partition and resource: the answer must be readable in its version and hold the code.
func TestAppendError(t *testing.T) {
	t.Parallel()
	for _, key := range []int16{
		KeyOffsetCommit, KeyOffsetFetch, KeyFindCoordinator, KeyJoinGroup, KeyHeartbeat, KeyLeaveGroup, KeySyncGroup, KeyDescribeGroups,
		KeyListGroups, KeyTxnOffsetCommit, KeyDescribeConfigs, KeyAlterConfigs, KeyDeleteGroups, KeyIncrementalAlterConfigs, KeyOffsetDelete,
		KeyConsumerGroupHeartbeat, KeyConsumerGroupDescribe, keyListConfigResources, KeyShareGroupHeartbeat, KeyShareGroupDescribe,
		KeyStreamsGroupHeartbeat, KeyStreamsGroupDescribe, keyDescribeShareGroupOffsets, keyAlterShareGroupOffsets, keyDeleteShareGroupOffsets,
	} {
		for v := int16(0); v <= kmsg.RequestForKey(key).MaxVersion(); v++ {
			h := Header{Key: key, Version: v, Correlation: 77}
			frame, err := AppendError(nil, h, sample(key, v).AppendTo(nil), coordinator.NotCoordinator, "elsewhere")
			if err != nil {
				t.Errorf("key %d v%d: %v", key, v, err)
				continue
			}
			var got []int16
			codes(reflect.ValueOf(answer(t, h, frame, kmsg.ResponseForKey(key))), &got)
			found := false
			for _, c := range got {
				if c != 0 && c != 16 {
					t.Errorf("key %d v%d: code %d", key, v, c)
				}
				found = found || c == 16
			}
			if !found {
				t.Errorf("key %d v%d: no code in the answer", key, v)
			}
		}
	}
}

func TestAppendErrorRefuses(t *testing.T) {
	t.Parallel()
	kept := []byte("kept")
	for _, c := range []struct {
		h    Header
		body []byte
	}{
		{Header{Key: KeyProduce, Version: 9}, sample(KeyProduce, 9).AppendTo(nil)},
		{Header{Key: 1000}, nil},
		{Header{Key: KeyOffsetCommit, Version: 9}, []byte{1}},
		{Header{Key: KeyOffsetCommit, Version: 99}, nil},
	} {
		if out, err := AppendError(kept, c.h, c.body, coordinator.NotCoordinator, ""); err == nil || string(out) != "kept" {
			t.Errorf("%+v: %q, %v", c.h, out, err)
		}
	}
}
