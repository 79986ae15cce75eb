package protocol

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// answer reads a frame that this package made the way a client does.
func answer[R kmsg.Response](t *testing.T, h Header, frame []byte, resp R) R {
	t.Helper()
	correlation, body, err := ResponseBody(h.Key, h.Version, frame[4:])
	if err != nil || correlation != h.Correlation {
		t.Fatalf("key %d v%d: correlation %d, %v", h.Key, h.Version, correlation, err)
	}
	if err := decodeResponse(resp, h.Version, body); err != nil {
		t.Fatalf("key %d v%d: %v", h.Key, h.Version, err)
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		t.Fatalf("key %d v%d: %d bytes, of which %d were understood", h.Key, h.Version, len(body), len(again))
	}
	return resp
}

func names(known ...string) (TopicNames, map[string][16]byte) {
	byName, byID := map[string][16]byte{}, map[[16]byte]string{}
	for i, n := range known {
		id := [16]byte{byte(i + 1)}
		byName[n], byID[id] = id, n
	}
	return func(id [16]byte) (string, bool) { n, ok := byID[id]; return n, ok }, byName
}

func TestOffsetCommit(t *testing.T) {
	t.Parallel()
	resolve, ids := names("in")
	meta, instance := "meta", "i"
	for v := int16(2); v <= 10; v++ {
		k := kmsg.NewPtrOffsetCommitRequest()
		k.Version, k.Group, k.Generation, k.MemberID = v, "g", 4, "m"
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.Metadata = 3, 99, &meta
		leader := int32(-1)
		if v >= 6 {
			part.LeaderEpoch, leader = 7, 7
		}
		want := &offsets.CommitRequest{Version: v, GroupID: "g", MemberID: "m", MemberEpoch: 4}
		if v >= 7 {
			k.InstanceID, want.InstanceID = &instance, &instance
		}
		topic := kmsg.OffsetCommitRequestTopic{Topic: "in", Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}
		wt := offsets.CommitTopic{Name: "in", Partitions: []offsets.CommitPartition{{Partition: 3, Offset: 99, LeaderEpoch: leader, Metadata: &meta}}}
		k.Topics = append(k.Topics, topic)
		var refused []offsets.CommitTopicResult
		if v >= 10 {
			k.Topics[0].Topic, k.Topics[0].TopicID, wt.ID = "", ids["in"], ids["in"]
			topic.TopicID = [16]byte{99}
			k.Topics = append(k.Topics, topic)
			refused = []offsets.CommitTopicResult{{ID: [16]byte{99}, Partitions: []offsets.PartitionResult{{Partition: 3, Code: coordinator.UnknownTopicID}}}}
		}
		want.Topics = []offsets.CommitTopic{wt}
		got, gotRefused, err := DecodeOffsetCommit(v, k.AppendTo(nil), resolve)
		if err != nil {
			t.Fatalf("v%d: %v", v, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("v%d (-want +got):\n%s", v, d)
		}
		if d := cmp.Diff(refused, gotRefused); d != "" {
			t.Errorf("v%d refused (-want +got):\n%s", v, d)
		}
		h := Header{Key: KeyOffsetCommit, Version: v, Correlation: 5}
		resp := answer(t, h, AppendCommit(nil, h, offsets.CommitFailed(got, coordinator.None), gotRefused...), kmsg.NewPtrOffsetCommitResponse())
		if len(resp.Topics) != len(k.Topics) || resp.Topics[0].Topic != k.Topics[0].Topic || resp.Topics[0].TopicID != k.Topics[0].TopicID {
			t.Errorf("v%d answer: %+v", v, resp.Topics)
		}
		if v >= 10 && resp.Topics[1].Partitions[0].ErrorCode != 100 {
			t.Errorf("unknown id answered %+v", resp.Topics[1])
		}
	}
}

func TestTxnOffsetCommit(t *testing.T) {
	t.Parallel()
	resolve, ids := names("in")
	for v := int16(0); v <= 6; v++ {
		k := kmsg.NewPtrTxnOffsetCommitRequest()
		k.Version, k.TransactionalID, k.Group, k.ProducerID, k.ProducerEpoch = v, "tx", "g", 12, 3
		want := &offsets.CommitRequest{
			Version: v, Transactional: true, GroupID: "g", MemberEpoch: -1,
			Transaction: offsets.Transaction{ID: "tx", ProducerID: 12, ProducerEpoch: 3},
			Topics:      []offsets.CommitTopic{{Name: "in", Partitions: []offsets.CommitPartition{{Partition: 3, Offset: 99, LeaderEpoch: -1}}}},
		}
		if v >= 3 {
			k.Generation, k.MemberID = 4, "m"
			want.MemberEpoch, want.MemberID = 4, "m"
		}
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = 3, 99
		k.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{part}}}
		if v >= 6 {
			k.Topics[0].Topic, k.Topics[0].TopicID, want.Topics[0].ID = "", ids["in"], ids["in"]
		}
		got, refused, err := DecodeTxnOffsetCommit(v, k.AppendTo(nil), resolve)
		if err != nil || refused != nil {
			t.Fatalf("v%d: %v, %v", v, refused, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("v%d (-want +got):\n%s", v, d)
		}
		h := Header{Key: KeyTxnOffsetCommit, Version: v, Correlation: 5}
		resp := answer(t, h, AppendCommit(nil, h, offsets.CommitFailed(got, coordinator.FencedInstanceID)), kmsg.NewPtrTxnOffsetCommitResponse())
		if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 82 {
			t.Errorf("v%d answer: %+v", v, resp.Topics)
		}
		if id, ok := GroupID(KeyTxnOffsetCommit, v, k.AppendTo(nil)); !ok || id != "g" {
			t.Errorf("v%d: group id %q", v, id)
		}
	}
}

func TestOffsetFetch(t *testing.T) {
	t.Parallel()
	resolve, ids := names("in")
	member := "m"
	for v := int16(1); v <= 10; v++ {
		k := kmsg.NewPtrOffsetFetchRequest()
		k.Version = v
		want := &offsets.FetchRequest{Version: v, GroupID: "g", MemberEpoch: -1, Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{1, 2}}}}
		if v >= 7 {
			k.RequireStable, want.RequireStable = true, true
		}
		groups := 1
		if v < 8 {
			k.Group, k.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "in", Partitions: []int32{1, 2}}}
		} else {
			groups = 2
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "in", Partitions: []int32{1, 2}}}
			if v >= 9 {
				g.MemberID, g.MemberEpoch = &member, 6
				want.MemberID, want.MemberEpoch = &member, 6
			}
			if v >= 10 {
				g.Topics[0].Topic, g.Topics[0].TopicID, want.Topics[0].ID = "", ids["in"], ids["in"]
				g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{TopicID: [16]byte{99}, Partitions: []int32{5}})
			}
			all := kmsg.NewOffsetFetchRequestGroup()
			all.Group = "everything"
			k.Groups = []kmsg.OffsetFetchRequestGroup{g, all}
		}
		body := k.AppendTo(nil)
		got, err := DecodeOffsetFetch(v, body, resolve)
		if err != nil || len(got) != groups {
			t.Fatalf("v%d: %d groups, %v", v, len(got), err)
		}
		if d := cmp.Diff(want, got[0].Request); d != "" {
			t.Errorf("v%d (-want +got):\n%s", v, d)
		}
		if groups == 2 && got[1].Request.Topics != nil {
			t.Errorf("v%d: all topics became %v", v, got[1].Request.Topics)
		}
		h := Header{Key: KeyOffsetFetch, Version: v, Correlation: 5}
		own := []FetchAnswer{{GroupID: "g", Response: offsets.NoOffsets(got[0].Request), Refused: got[0].Refused}}
		checkFetchAnswer(t, h, own, body)
	}
}

func checkFetchAnswer(t *testing.T, h Header, own []FetchAnswer, body []byte) {
	t.Helper()
	var rest []byte
	if h.Version >= 8 { // "everything" is the upstream's
		part, err := SplitGroups(h.Key, h.Version, body, func(id string) bool { return id != "g" })
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := Groups(h.Key, h.Version, part); err != nil || !cmp.Equal(ids, []string{"everything"}) {
			t.Fatalf("split left %v, %v", ids, err)
		}
		theirs := kmsg.NewPtrOffsetFetchResponse()
		theirs.Version = h.Version
		theirs.Groups = []kmsg.OffsetFetchResponseGroup{{Group: "everything", ErrorCode: 30}}
		rest = theirs.AppendTo(nil)
	}
	frame, err := AppendOffsetFetch(nil, h, own, rest)
	if err != nil {
		t.Fatal(err)
	}
	resp := answer(t, h, frame, kmsg.NewPtrOffsetFetchResponse())
	if h.Version < 8 {
		if len(resp.Topics) != 1 || resp.Topics[0].Partitions[1].Offset != -1 || resp.Topics[0].Partitions[1].Metadata == nil {
			t.Errorf("v%d answer: %+v", h.Version, resp.Topics)
		}
		return
	}
	if len(resp.Groups) != 2 || resp.Groups[0].Topics[0].Partitions[1].Partition != 2 || resp.Groups[1].ErrorCode != 30 {
		t.Errorf("v%d answer: %+v", h.Version, resp.Groups)
	}
	if h.Version >= 10 && resp.Groups[0].Topics[1].Partitions[0].ErrorCode != 100 {
		t.Errorf("unknown id answered %+v", resp.Groups[0].Topics[1])
	}
}

func TestOffsetDelete(t *testing.T) {
	t.Parallel()
	k := kmsg.NewPtrOffsetDeleteRequest()
	k.Group = "g"
	k.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "in", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 4}}}}
	req, err := DecodeOffsetDelete(0, k.AppendTo(nil))
	want := &offsets.DeleteRequest{GroupID: "g", Topics: []offsets.FetchTopic{{Name: "in", Partitions: []int32{4}}}}
	if err != nil || !cmp.Equal(want, req) {
		t.Fatalf("%+v, %v", req, err)
	}
	h := Header{Key: KeyOffsetDelete}
	resp := answer(t, h, AppendOffsetDelete(nil, h, &offsets.DeleteResponse{
		Topics: []offsets.CommitTopicResult{{Name: "in", Partitions: []offsets.PartitionResult{{Partition: 4, Code: coordinator.GroupSubscribedToTopic}}}},
	}), kmsg.NewPtrOffsetDeleteResponse())
	if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0] != (kmsg.OffsetDeleteResponseTopicPartition{Partition: 4, ErrorCode: 86}) {
		t.Errorf("%+v", resp)
	}
	resp = answer(t, h, AppendOffsetDelete(nil, h, offsets.DeleteFailed(coordinator.Errorf(coordinator.GroupIDNotFound, ""))), kmsg.NewPtrOffsetDeleteResponse())
	if resp.ErrorCode != 69 || resp.Topics != nil {
		t.Errorf("%+v", resp)
	}
}

func TestListGroupsFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter GroupFilter
		want   bool
	}{
		{GroupFilter{}, true},
		{GroupFilter{States: []string{"NotReady"}}, true},
		{GroupFilter{States: []string{"not_ready"}}, true},
		{GroupFilter{States: []string{"NOTREADY"}}, true},
		{GroupFilter{States: []string{"Stable"}}, false},
		{GroupFilter{Types: []string{"Streams"}}, true},
		{GroupFilter{Types: []string{"consumer", "STREAMS"}}, true},
		{GroupFilter{Types: []string{"str_eams"}}, false},
		{GroupFilter{States: []string{"notready"}, Types: []string{"classic"}}, false},
	} {
		if got := c.filter.Match("NotReady", "streams"); got != c.want {
			t.Errorf("%+v: %v", c.filter, got)
		}
	}
}

func TestListGroups(t *testing.T) {
	t.Parallel()
	own := []GroupEntry{
		{"wordcount", StreamsProtocolType, "Stable", StreamsGroupType},
		{"join", StreamsProtocolType, "NotReady", StreamsGroupType},
		{"idle", StreamsProtocolType, "Empty", StreamsGroupType},
	}
	for v := int16(0); v <= 5; v++ {
		k := kmsg.NewPtrListGroupsRequest()
		k.Version = v
		if v >= 4 {
			k.StatesFilter = []string{"stable", "Not_Ready"}
		}
		filter, err := DecodeListGroups(v, k.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		theirs := kmsg.NewPtrListGroupsResponse()
		theirs.Version = v
		theirs.Groups = []kmsg.ListGroupsResponseGroup{{Group: "wordcount", ProtocolType: "coordd"}, {Group: "shadow", ProtocolType: "coordd"}, {Group: "c", ProtocolType: "consumer"}}
		h := Header{Key: KeyListGroups, Version: v, Correlation: 2}
		frame, err := AppendListGroups(nil, h, filter, own, theirs.AppendTo(nil), func(id string) bool { return id == "shadow" })
		if err != nil {
			t.Fatal(err)
		}
		resp := answer(t, h, frame, kmsg.NewPtrListGroupsResponse())
		var got []string
		for _, g := range resp.Groups {
			got = append(got, g.Group)
		}
		want := []string{"join", "wordcount", "c"}
		if v < 4 {
			want = []string{"idle", "join", "wordcount", "c"}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("v%d (-want +got):\n%s", v, d)
		}
		if v >= 5 && (resp.Groups[1].GroupState != "Stable" || resp.Groups[1].GroupType != "streams") {
			t.Errorf("v%d: %+v", v, resp.Groups[1])
		}
	}
}

func TestDeleteGroups(t *testing.T) {
	t.Parallel()
	for v := int16(0); v <= 3; v++ {
		k := kmsg.NewPtrDeleteGroupsRequest()
		k.Version, k.Groups = v, []string{"own", "theirs"}
		ids, err := Groups(KeyDeleteGroups, v, k.AppendTo(nil))
		if err != nil || !cmp.Equal(ids, k.Groups) {
			t.Fatalf("v%d: %v, %v", v, ids, err)
		}
		theirs := kmsg.NewPtrDeleteGroupsResponse()
		theirs.Version, theirs.Groups = v, []kmsg.DeleteGroupsResponseGroup{{Group: "theirs", ErrorCode: 30}}
		h := Header{Key: KeyDeleteGroups, Version: v}
		frame, err := AppendDeleteGroups(nil, h, []GroupResult{{"own", coordinator.Errorf(coordinator.GroupDeletionFailed, "why")}, {ID: "done"}}, theirs.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		resp := answer(t, h, frame, kmsg.NewPtrDeleteGroupsResponse())
		code := int16(134)
		if v < 3 {
			code = -1
		}
		if len(resp.Groups) != 3 || resp.Groups[0].ErrorCode != code || resp.Groups[1].ErrorCode != 0 || resp.Groups[2].ErrorCode != 30 {
			t.Errorf("v%d: %+v", v, resp.Groups)
		}
	}
}

func TestFindCoordinator(t *testing.T) {
	t.Parallel()
	for v := int16(0); v <= 6; v++ {
		want := &FindCoordinator{Keys: []string{"g"}}
		if v >= 4 {
			want.Keys = []string{"g", "h"}
		}
		if v >= 1 {
			want.Type = CoordinatorOfTransaction
		}
		got, err := DecodeFindCoordinator(v, AppendFindCoordinatorRequest(nil, v, want))
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("v%d: %+v, %v", v, got, err)
		}
		h := Header{Key: KeyFindCoordinator, Version: v, Correlation: 3}
		answers := []Found{{Key: "g", Node: 1000001, Host: "h", Port: 9092}, NotFound("h", coordinator.Errorf(coordinator.CoordinatorNotAvailable, ""))}
		answers = answers[:len(want.Keys)]
		_, body, err := ResponseBody(h.Key, h.Version, AppendFindCoordinator(nil, h, answers)[4:])
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadFindCoordinatorResponse(v, body, got)
		if err != nil || !cmp.Equal(answers, back) {
			t.Errorf("v%d: %+v, %v", v, back, err)
		}
	}
}

func TestForeignDescribe(t *testing.T) {
	t.Parallel()
	for _, key := range []int16{KeyDescribeGroups, KeyConsumerGroupDescribe, KeyShareGroupDescribe, keyDescribeShareGroupOffsets} {
		for v := int16(0); v <= kmsg.RequestForKey(key).MaxVersion(); v++ {
			h := Header{Key: key, Version: v, Correlation: 4}
			theirs := describeFailed(key, v, []GroupResult{{"theirs", coordinator.Errorf(coordinator.GroupAuthorizationFailed, "no")}})
			theirs.SetVersion(v)
			frame, err := AppendForeignDescribe(nil, h, []string{"own"}, theirs.AppendTo(nil))
			if err != nil {
				t.Fatalf("key %d v%d: %v", key, v, err)
			}
			resp := answer(t, h, frame, kmsg.ResponseForKey(key))
			switch k := resp.(type) {
			case *kmsg.DescribeGroupsResponse:
				code := int16(0)
				if v >= 6 {
					code = 69
				}
				if len(k.Groups) != 2 || k.Groups[0].State != "Dead" || k.Groups[0].ErrorCode != code || k.Groups[1].ErrorCode != 30 {
					t.Errorf("v%d: %+v", v, k.Groups)
				}
			case *kmsg.ConsumerGroupDescribeResponse:
				if len(k.Groups) != 2 || k.Groups[0].ErrorCode != 69 || k.Groups[1].Group != "theirs" {
					t.Errorf("v%d: %+v", v, k.Groups)
				}
			case *kmsg.ShareGroupDescribeResponse:
				if len(k.Groups) != 2 || k.Groups[0].ErrorCode != 69 || k.Groups[1].GroupID != "theirs" {
					t.Errorf("v%d: %+v", v, k.Groups)
				}
			}
		}
	}
}

// TestTypeRefusal is what Kafka answers to requests of other protocols that name a streams group.
func TestTypeRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key             int16
		empty, nonEmpty coordinator.Code
	}{
		{KeyJoinGroup, coordinator.UnknownMemberID, coordinator.InconsistentGroupProtocol},
		{KeySyncGroup, coordinator.UnknownMemberID, coordinator.UnknownMemberID},
		{KeyHeartbeat, coordinator.UnknownMemberID, coordinator.UnknownMemberID},
		{KeyConsumerGroupHeartbeat, coordinator.GroupIDNotFound, coordinator.GroupIDNotFound},
		{KeyShareGroupHeartbeat, coordinator.GroupIDNotFound, coordinator.GroupIDNotFound},
	} {
		for v := int16(0); v <= kmsg.RequestForKey(c.key).MaxVersion(); v++ {
			for _, empty := range []bool{true, false} {
				want := c.nonEmpty
				if empty {
					want = c.empty
				}
				h := Header{Key: c.key, Version: v, Correlation: 9}
				frame, err := AppendTypeRefusal(nil, h, sample(c.key, v).AppendTo(nil), empty)
				if err != nil {
					t.Fatal(err)
				}
				if got := topCode(answer(t, h, frame, kmsg.ResponseForKey(c.key))); got != int16(want) {
					t.Errorf("key %d v%d empty %v: %d, want %d", c.key, v, empty, got, want)
				}
			}
		}
	}
	for v := int16(0); v <= 5; v++ {
		h := Header{Key: KeyLeaveGroup, Version: v}
		frame, err := AppendTypeRefusal(nil, h, sample(KeyLeaveGroup, v).AppendTo(nil), false)
		if err != nil {
			t.Fatal(err)
		}
		resp := answer(t, h, frame, kmsg.NewPtrLeaveGroupResponse())
		if v < 3 && resp.ErrorCode != 25 || v >= 3 && (resp.ErrorCode != 0 || len(resp.Members) != 1 || resp.Members[0].ErrorCode != 25) {
			t.Errorf("v%d: %+v", v, resp)
		}
	}
}

// topCode is the error at the top of an answer; 0 where there is no such field.
func topCode(resp kmsg.Response) int16 {
	switch k := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return k.ErrorCode
	case *kmsg.SyncGroupResponse:
		return k.ErrorCode
	case *kmsg.HeartbeatResponse:
		return k.ErrorCode
	case *kmsg.LeaveGroupResponse:
		return k.ErrorCode
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return k.ErrorCode
	case *kmsg.ShareGroupHeartbeatResponse:
		return k.ErrorCode
	case *kmsg.StreamsGroupHeartbeatResponse:
		return k.ErrorCode
	case *kmsg.ListGroupsResponse:
		return k.ErrorCode
	case *kmsg.OffsetDeleteResponse:
		return k.ErrorCode
	}
	return 0
}

func TestSplitEach(t *testing.T) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{"a", "b", "a", "", "c"}
	parts, err := SplitEach(KeyStreamsGroupDescribe, 0, req.AppendTo(nil), func(id string) bool { return id != "b" })
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range parts {
		one, err := Groups(KeyStreamsGroupDescribe, 0, p.Body)
		if err != nil || len(one) != 1 || one[0] != p.ID {
			t.Errorf("part %q asks for %q, %v", p.ID, one, err)
		}
		ids = append(ids, p.ID)
	}
	if !slices.Equal(ids, []string{"a", "a", "", "c"}) {
		t.Errorf("%q", ids)
	}
	if _, err := SplitEach(KeyOffsetFetch, 7, nil, nil); err != ErrMalformed {
		t.Error(err)
	}
}

// TestPartsOfManyGroupsCostWhatTheyTake: taking the whole request apart for each of its groups would be quadratic.
func TestPartsOfManyGroupsCostWhatTheyTake(t *testing.T) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version = 2
	for i := range 5000 {
		req.Groups = append(req.Groups, fmt.Sprintf("group-%05d", i))
	}
	body := req.AppendTo(nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	parts, err := SplitEach(KeyDeleteGroups, 2, body, func(string) bool { return true })
	runtime.ReadMemStats(&after)
	if err != nil || len(parts) != len(req.Groups) {
		t.Fatal(len(parts), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(40*len(body)) {
		t.Errorf("%d bytes for a request of %d", took, len(body))
	}
}
