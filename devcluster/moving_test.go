package devcluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/coordd/coordd/web"
)

// refused returns what a refusal says, and "" where there is none.
func refused(err error) string {
	var r *web.Refusal
	if errors.As(err, &r) {
		return r.Text
	}
	return ""
}

// TestAClassicGroupIsTakenOverAndGivenBack moves a group at each node, whoever leads its shard, with its offsets and settings, in both
// directions, and again.
func TestAClassicGroupIsTakenOverAndGivenBack(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0")
	if _, err := r.adm.CreateTopics(r.ctx, 2, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	consumer := r.client(kgo.ConsumerGroup("app"), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit())
	eventually(t, "the classic app runs", func() bool {
		d, err := r.adm.DescribeGroups(r.ctx, "app")
		return err == nil && d["app"].State == "Stable"
	})
	nodes := r.Nodes()
	ctx := context.Background()
	for i, node := range nodes {
		if o, err := node.Origin(ctx, "app"); err != nil || o.State != "Stable" || len(o.Members) != 1 || !strings.Contains(o.NoImport, "stop the app there first") {
			t.Errorf("node %d: %+v %v", i, o, err)
		}
		if _, err := node.Import(ctx, web.ImportRequest{Group: "app"}); !strings.Contains(refused(err), "stop the app there first") {
			t.Errorf("node %d: %v", i, err)
		}
	}
	if err := consumer.LeaveGroupContext(r.ctx); err != nil {
		t.Fatal(err)
	}
	for i, node := range nodes {
		var at kadm.Offsets
		at.AddOffset("in", 0, int64(i+1), -1)
		if resp, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil || resp.Error() != nil {
			t.Fatal(err, resp.Error())
		}
		o, err := node.Origin(ctx, "app")
		if err != nil || o.NoImport != "" || len(o.Offsets) != 1 || o.Offsets[0].Committed != int64(i+1) || o.Type != "classic" ||
			!strings.Contains(strings.Join(o.Notes, ""), "no offset is committed for in[1]") || o.Held {
			t.Fatalf("%+v %v", o, err)
		}
		done, err := nodes[(i+1)%len(nodes)].Import(ctx, web.ImportRequest{Group: "app"})
		if err != nil || done.Offsets != 1 || done.TopologyEpoch != -1 {
			t.Fatalf("%+v %v", done, err)
		}
		if types := r.listed("app"); len(types) != 1 || r.committed("app") != int64(i+1) {
			t.Errorf("listed %v, committed %d", types, r.committed("app"))
		}
		if _, err := node.Import(ctx, web.ImportRequest{Group: "app"}); !strings.Contains(refused(err), "coordd's already") {
			t.Errorf("again: %v", err)
		}
		if resp := r.beat("app", 0); resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		if _, err := node.Export(ctx, web.ExportRequest{Group: "app"}); !strings.Contains(refused(err), "has members") {
			t.Errorf("a running app: %v", err)
		}
		if resp := r.beat("app", -1); resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		if e, err := nodes[(i+2)%len(nodes)].Export(ctx, web.ExportRequest{Group: "app"}); err != nil || e.Offsets != 1 {
			t.Fatalf("%+v %v", e, err)
		}
		if o, err := node.Origin(ctx, "app"); err != nil || o.Held || o.Offsets[0].Committed != int64(i+1) || !strings.Contains(o.NoExport, "coordd has no group app") {
			t.Errorf("%+v %v", o, err)
		}
	}
	if _, err := nodes[0].Import(ctx, web.ImportRequest{Group: "nothing"}); !strings.Contains(refused(err), "has no group nothing") {
		t.Error(err)
	}
}

// TestAGroupThatMayBeHeldIsNotTakenOver: what a coordd cluster had last is only taken over from a caller who says that none has it.
func TestAGroupThatMayBeHeldIsNotTakenOver(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0")
	if _, err := r.adm.CreateTopics(r.ctx, 1, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	if resp := r.beat("app", 0); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	node := r.Nodes()[0]
	eventually(t, "coordd is a member upstream", func() bool {
		o, err := node.Origin(r.ctx, "app")
		return err == nil && o.Protocol == "coordd"
	})
	if resp := r.beat("app", -1); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	var at kadm.Offsets
	at.AddOffset("in", 0, 7, -1)
	if resp, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	if _, err := node.Export(r.ctx, web.ExportRequest{Group: "app"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "coordd has left", func() bool {
		o, err := node.Origin(r.ctx, "app")
		return err == nil && o.MayBeHeld
	})
	if _, err := node.Import(r.ctx, web.ImportRequest{Group: "app"}); !strings.Contains(refused(err), "add --from-coordd") {
		t.Errorf("without a word: %v", err)
	}
	if _, err := node.Import(r.ctx, web.ImportRequest{Group: "app", FromCoordd: true}); err != nil {
		t.Error(err)
	}
}

// TestOffsetsInTheLogAreGivenBack: offsets that coordd keeps itself are in the Kafka behind when the group is not coordd's any more.
func TestOffsetsInTheLogAreGivenBack(t *testing.T) {
	r := run(t, "group.streams.initial.rebalance.delay.ms=0", "offsets.store=raft")
	if _, err := r.adm.CreateTopics(r.ctx, 1, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []int32{0, -1} {
		if resp := r.beat("app", epoch); resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
	}
	var at kadm.Offsets
	at.AddOffset("in", 0, 7, -1)
	if resp, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	node := r.Nodes()[0]
	o, err := node.Origin(r.ctx, "app")
	if err != nil || o.HeldStore != "raft" || o.Type != "" || o.NoExport != "" || !strings.Contains(strings.Join(o.Notes, ""), "that coordd keeps itself: 1;") ||
		len(o.Offsets) != 1 || o.Offsets[0].Committed != 7 {
		t.Fatalf("%+v %v", o, err)
	}
	if e, err := node.Export(r.ctx, web.ExportRequest{Group: "app"}); err != nil || e.Offsets != 1 {
		t.Fatalf("%+v %v", e, err)
	}
	if got := r.committed("app"); got != 7 {
		t.Errorf("committed %d", got)
	}
	if d, err := r.adm.DescribeGroups(r.ctx, "app"); err != nil || d["app"].Err != nil && !errors.Is(d["app"].Err, kerr.GroupIDNotFound) {
		t.Errorf("%+v %v", d, err)
	}
}

// TestAGroupWithAnOpenTransactionIsNotTakenOver: what an instance that was killed left open is over first, as nobody knows whether its
// offsets count.
func TestAGroupWithAnOpenTransactionIsNotTakenOver(t *testing.T) {
	r := run(t)
	if _, err := r.adm.CreateTopics(r.ctx, 1, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	var at kadm.Offsets
	at.AddOffset("in", 0, 5, -1)
	if resp, err := r.adm.CommitOffsets(r.ctx, "app", at); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	txn := r.openTransaction("app", 9)
	node := r.Nodes()[0]
	if o, err := node.Origin(r.ctx, "app"); err != nil || !strings.Contains(o.NoImport, "a transaction that commits offsets of group app is open (in[0])") {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := node.Import(r.ctx, web.ImportRequest{Group: "app"}); !strings.Contains(refused(err), "a transaction") || len(r.listed("app")) != 1 {
		t.Errorf("%v, listed %v", err, r.listed("app"))
	}
	txn.end()
	eventually(t, "the group can be taken over", func() bool {
		o, err := node.Origin(r.ctx, "app")
		return err == nil && o.NoImport == "" && o.Offsets[0].Committed == 9
	})
}

// transaction is one that a producer has open.
type transaction struct {
	*running
	id       string
	producer int64
	epoch    int16
}

// openTransaction commits an offset of in[0] in a transaction that stays open.
func (r *running) openTransaction(group string, offset int64) transaction {
	r.t.Helper()
	t := transaction{running: r, id: "killed"}
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = &t.id, 60_000
	begun, err := init.RequestWith(r.ctx, r.cl)
	if err != nil || begun.ErrorCode != 0 {
		r.t.Fatal(begun, err)
	}
	t.producer, t.epoch = begun.ProducerID, begun.ProducerEpoch
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = t.id, t.producer, t.epoch, group
	if added, err := add.RequestWith(r.ctx, r.cl); err != nil || added.ErrorCode != 0 {
		r.t.Fatal(added, err)
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group, commit.Generation = t.id, t.producer, t.epoch, group, -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = offset
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	committed, err := commit.RequestWith(r.ctx, r.client(kgo.MaxVersions(kversion.V3_6_0()))) // AddOffsetsToTxn goes with these
	if err != nil || committed.Topics[0].Partitions[0].ErrorCode != 0 {
		r.t.Fatal(committed, err)
	}
	return t
}

func (t transaction) end() {
	t.t.Helper()
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = t.id, t.producer, t.epoch, true
	if ended, err := end.RequestWith(t.ctx, t.cl); err != nil || ended.ErrorCode != 0 {
		t.t.Fatal(ended, err)
	}
}
