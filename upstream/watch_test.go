package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/topicctl"
)

// alter has the cluster do what a request says.
func alter[R kmsg.Response](t *testing.T, c *Client, req kmsg.Request, code func(R) int16) {
	t.Helper()
	resp, err := c.admin.Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(code(resp.(R))); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c *Client, name string, partitions int32) {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	req.Topics = append(req.Topics, topic)
	alter(t, c, req, func(r *kmsg.CreateTopicsResponse) int16 { return r.Topics[0].ErrorCode })
}

func remove(t *testing.T, c *Client, name string) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{name}
	alter(t, c, req, func(r *kmsg.DeleteTopicsResponse) int16 { return r.Topics[0].ErrorCode })
}

func grow(t *testing.T, c *Client, name string, partitions int32) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, partitions
	req.Topics = append(req.Topics, topic)
	alter(t, c, req, func(r *kmsg.CreatePartitionsResponse) int16 { return r.Topics[0].ErrorCode })
}

// The watch sees within a second what becomes of a topic: created, grown, made anew, deleted.
func TestWatchSeesChangesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeBrokers(t)
		c := w.node().client
		watcher := topicctl.NewWatcher(topicctl.WatcherConfig{Source: c})
		ctx, cancel := context.WithCancel(context.Background())
		go watcher.Run(ctx)
		t.Cleanup(func() {
			cancel()
			synctest.Wait()
		})
		<-watcher.Ready()
		expect := func(what string, partitions int32) (id [16]byte) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			topic, ok := watcher.Image().Topic("t")
			if ok != (partitions > 0) || topic.Partitions != partitions {
				t.Errorf("%s: %+v %v, want %d partitions", what, topic, ok, partitions)
			}
			return topic.ID
		}
		for range 20 { // each round meets the polls at other moments
			create(t, c, "t", 2)
			first := expect("created", 2)
			grow(t, c, "t", 5)
			if id := expect("grown", 5); id != first {
				t.Error("a grown topic has another id")
			}
			remove(t, c, "t")
			create(t, c, "t", 5)
			if id := expect("made anew", 5); id == first {
				t.Error("a topic made anew has the id of the one before")
			}
			remove(t, c, "t")
			expect("deleted", 0)
			time.Sleep(37 * time.Millisecond)
		}
		before := watcher.Counts()
		time.Sleep(time.Minute)
		if n := watcher.Counts().Polls - before.Polls; n < 80 || n > 90 {
			t.Errorf("%d polls in a minute in which nothing happened", n)
		}
	})
}
