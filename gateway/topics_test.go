package gateway

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchByID is an OffsetFetch v10 for partition 0 of a topic; for all topics without an id.
func fetchByID(group string, id [16]byte) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 10
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if id != [16]byte{} {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.TopicID, topic.Partitions = id, []int32{0}
		g.Topics = append(g.Topics, topic)
	}
	req.Groups = append(req.Groups, g)
	return req
}

func TestOffsetsByTopicIDWaitForTheImage(t *testing.T) {
	for _, leader := range []int32{1, 2} {
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}, config: waitLong})
		w.hold("ours")
		w.lead(leader)
		c := dialPort(t, w.nodes[0].addr())
		image := w.image
		id := image.ids["in"]
		do[*kmsg.OffsetCommitResponse](c, commit("ours", "in", id, 99), 10)
		empty := &fakeImage{cluster: image.cluster, controller: image.controller, brokers: image.brokers}
		for i, lagging := range []*fakeImage{nil, empty} {
			for k, req := range []kmsg.Request{fetchByID("ours", id), fetchByID("ours", [16]byte{}), commit("ours", "", id, 99)} {
				if lagging == empty && k == 1 {
					continue // an image that lacks a topic cannot be told from an upstream without it
				}
				req.SetVersion(10)
				w.change(func() { w.image = lagging })
				c.send(c.encode(req))
				eventually(t, "the request has come", func() bool {
					conns := w.nodes[0].g.connections()
					return len(conns) == 1 && conns[0].activity.Load() > 0
				})
				w.change(func() { w.image = image })
				resp, err := c.receive(req, c.corr)
				if err != nil {
					t.Fatal(err)
				}
				switch r := resp.(type) {
				case *kmsg.OffsetFetchResponse:
					if g := r.Groups[0]; len(g.Topics) != 1 || g.Topics[0].Partitions[0].Offset != 99 || g.Topics[0].Partitions[0].ErrorCode != 0 {
						t.Errorf("leader %d, image %d, request %d: %+v", leader, i, k, r)
					}
				case *kmsg.OffsetCommitResponse:
					if r.Topics[0].Partitions[0].ErrorCode != 0 {
						t.Errorf("leader %d, image %d, request %d: %+v", leader, i, k, r)
					}
				}
			}
		}
	}
}

func TestOffsetsByTopicIDWithoutAnImage(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, topics: []string{"in"}})
	w.hold("ours")
	id := w.image.ids["in"]
	w.change(func() { w.image = nil })
	c := dialPort(t, w.nodes[0].addr())
	for _, id := range [][16]byte{id, {}} {
		if r := do[*kmsg.OffsetFetchResponse](c, fetchByID("ours", id), 10); r.Groups[0].ErrorCode != 14 {
			t.Errorf("%+v", r)
		}
	}
	if r := do[*kmsg.OffsetCommitResponse](c, commit("ours", "", id, 1), 10); r.Topics[0].Partitions[0].ErrorCode != 14 {
		t.Errorf("%+v", r)
	}
}

func TestOffsetsByTopicNameWaitForTheImage(t *testing.T) {
	for _, leader := range []int32{1, 2} {
		w := newWorld(t, worldConfig{nodes: 2, brokers: 1, topics: []string{"in"}, config: waitLong})
		w.hold("ours")
		w.lead(leader)
		c := dialPort(t, w.nodes[0].addr())
		image := w.image
		empty := &fakeImage{cluster: image.cluster, controller: image.controller, brokers: image.brokers}
		byName := commit("ours", "in", [16]byte{}, 99)
		byName.SetVersion(9)
		remove := kmsg.NewPtrOffsetDeleteRequest()
		remove.Group = "ours"
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic, topic.Partitions = "in", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
		remove.Topics = append(remove.Topics, topic)
		for _, req := range []kmsg.Request{byName, remove} {
			w.change(func() { w.image = empty })
			refreshed := w.refreshed.Load()
			c.send(c.encode(req))
			eventually(t, "the image was asked to look again", func() bool { return w.refreshed.Load() > refreshed })
			w.change(func() { w.image = image })
			resp, err := c.receive(req, c.corr)
			if err != nil {
				t.Fatal(err)
			}
			code := int16(-2)
			switch r := resp.(type) {
			case *kmsg.OffsetCommitResponse:
				code = r.Topics[0].Partitions[0].ErrorCode
			case *kmsg.OffsetDeleteResponse:
				code = r.ErrorCode
			}
			if code != 0 {
				t.Errorf("leader %d, key %d: error %d", leader, req.Key(), code)
			}
		}
	}
}

// Clients that go on naming a topic that does not exist do not have the image look again each time, and a name never has
// it look at all topics.
func TestAbsentTopicsAreNotLookedForAgainAndAgain(t *testing.T) {
	w := newWorld(t, worldConfig{nodes: 1, brokers: 1, topics: []string{"in"}})
	w.hold("ours")
	c := dialPort(t, w.nodes[0].addr())
	do[*kmsg.OffsetCommitResponse](c, commit("ours", "gone", [16]byte{}, 1), 9) // waits in vain
	named := w.refreshed.Load()
	if all := w.refreshedAll.Load(); named == 0 || all != 0 {
		t.Errorf("looked for the topic %d times, for all %d times", named, all)
	}
	do[*kmsg.OffsetCommitResponse](c, commit("ours", "", [16]byte{7}, 1), 10)
	all := w.refreshedAll.Load()
	if all == 0 {
		t.Error("not looked for the topic of an unknown id")
	}
	for range 20 {
		do[*kmsg.OffsetCommitResponse](c, commit("ours", "gone", [16]byte{}, 1), 9)
		do[*kmsg.OffsetCommitResponse](c, commit("ours", "", [16]byte{7}, 1), 10)
	}
	if w.refreshed.Load() != named || w.refreshedAll.Load() != all {
		t.Errorf("looked again %d times for the topic, %d times for all", w.refreshed.Load()-named, w.refreshedAll.Load()-all)
	}
}
