package upstream

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// producer is a client's transactional producer, as far as offsets go.
type producer struct {
	t  *testing.T
	cl *kgo.Client
	tx offsets.Transaction
}

func (w *world) producer(id string) *producer {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(w.dial), kgo.DisableClientMetrics())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return initProducer(w.t, cl, id)
}

func initProducer(t *testing.T, cl *kgo.Client, id string) *producer {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil || resp.ErrorCode != 0 {
		t.Fatalf("init producer: %v %v", err, resp)
	}
	return &producer{t, cl, offsets.Transaction{ID: id, ProducerID: resp.ProducerID, ProducerEpoch: resp.ProducerEpoch}}
}

func (p *producer) addOffsets(group string) {
	p.t.Helper()
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.Group = p.tx.ID, group
	req.ProducerID, req.ProducerEpoch = p.tx.ProducerID, p.tx.ProducerEpoch
	resp, err := req.RequestWith(context.Background(), p.cl)
	if err != nil || resp.ErrorCode != 0 {
		p.t.Fatalf("add offsets: %v %+v", err, resp)
	}
}

func (p *producer) end(commit bool) {
	p.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.tx.ID, p.tx.ProducerID, p.tx.ProducerEpoch, commit
	resp, err := req.RequestWith(context.Background(), p.cl)
	if err != nil || resp.ErrorCode != 0 {
		p.t.Fatalf("end txn: %v %+v", err, resp)
	}
	if resp.ProducerEpoch > 0 {
		p.tx.ProducerID, p.tx.ProducerEpoch = resp.ProducerID, resp.ProducerEpoch
	}
}

func (p *producer) commit(group string, version int16, offset int64) *offsets.CommitRequest {
	req := commitReq(group, 1, offset)
	req.Version, req.Transactional, req.Transaction = version, true, p.tx
	return req
}

func TestTransactionalCommit(t *testing.T) {
	for _, version := range []int16{3, 4, 5, 6} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			o := w.node()
			w.mustClaim(o, "g")
			p := w.producer("tx")
			sent := make(chan int16, 10)
			w.cluster.ControlKey(28, func(r kmsg.Request) (kmsg.Response, error, bool) {
				w.cluster.KeepControl()
				req := r.(*kmsg.TxnOffsetCommitRequest)
				if req.InstanceID == nil || *req.InstanceID != "coordd" || req.MemberID == "" {
					t.Errorf("not committed as the claim's member: %+v", req)
				}
				sent <- req.Version
				return nil, nil, false
			})
			if version < 5 { // such a client has done this itself
				p.addOffsets("g")
			}
			if code := w.commit(o, p.commit("g", version, 5)); code != 0 {
				t.Fatalf("v%d: %d", version, code)
			}
			if got, want := <-sent, min(max(version, 4), 5); got != want {
				t.Errorf("v%d was sent as v%d, want v%d", version, got, want)
			}
			if got := w.fetch(o, "g", true); got.Code != coordinator.UnstableOffsetCommit || got.Offset != -1 {
				t.Errorf("v%d open transaction: %+v", version, got)
			}
			if got := w.fetch(o, "g", false); got.Offset != -1 || got.Code != 0 {
				t.Errorf("v%d committed state: %+v", version, got)
			}
			p.end(true)
			if got := w.fetch(o, "g", true); got.Offset != 5 || got.Code != 0 {
				t.Errorf("v%d after the commit: %+v", version, got)
			}
			if version < 5 {
				p.addOffsets("g")
			}
			w.commit(o, p.commit("g", version, 9))
			p.end(false)
			if got := w.fetch(o, "g", true); got.Offset != 5 {
				t.Errorf("v%d after an abort: %+v", version, got)
			}
		})
	}
}

// An old client's commit without AddOffsetsToTxn must not be made good by the upstream.
func TestOldTransactionsAreNotJoinedImplicitly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		p := w.producer("tx")
		if code := w.commit(o, p.commit("g", 4, 5)); code != coordinator.Code(kerr.InvalidTxnState.Code) {
			t.Errorf("commit outside a transaction: %d", code)
		}
	})
}

func TestTransactionErrorsArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, next := w.node(), w.node()
		w.mustClaim(old, "g")
		zombie := w.producer("tx")
		p := w.producer("tx") // fences it
		code := w.commit(old, zombie.commit("g", 5, 1))
		if code != coordinator.Code(kerr.InvalidProducerEpoch.Code) && code != coordinator.Code(kerr.ProducerFenced.Code) {
			t.Errorf("fenced producer: %d", code)
		}
		w.mustClaim(next, "g")
		if code := w.commit(old, p.commit("g", 5, 1)); code != coordinator.NotCoordinator {
			t.Errorf("fenced holder: %d", code)
		}
		if code := w.commit(next, p.commit("g", 5, 2)); code != 0 {
			t.Errorf("new holder: %d", code)
		}
		p.end(true)
		if got := w.fetch(next, "g", true).Offset; got != 2 {
			t.Errorf("offset %d", got)
		}
		unknown := commitReq("g", 1, 1)
		unknown.Version, unknown.Transactional, unknown.Transaction = 5, true, offsets.Transaction{ID: "nobody", ProducerID: 999, ProducerEpoch: 0}
		if code := w.commit(next, unknown); code != coordinator.Code(kerr.InvalidProducerIDMapping.Code) {
			t.Errorf("unknown producer: %d", code)
		}
	})
}

// Commits of many producers of one group go side by side.
func TestProducersCommitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.node()
		w.mustClaim(o, "g")
		answers := make(chan coordinator.Code, 8)
		var producers []*producer
		for i := range 8 {
			p := w.producer(string(rune('a' + i)))
			producers = append(producers, p)
			req := p.commit("g", 5, int64(i))
			req.Topics[0].Partitions[0].Partition = int32(i)
			o.Commit(req, func(r *offsets.CommitResponse) { answers <- r.Topics[0].Partitions[0].Code })
		}
		for range 8 {
			if code := <-answers; code != 0 {
				t.Errorf("commit: %d", code)
			}
		}
		for _, p := range producers {
			p.end(true)
		}
		all := wait(t, func(done func(*offsets.FetchResponse)) {
			o.Fetch(&offsets.FetchRequest{GroupID: "g", RequireStable: true}, done)
		})
		if len(all.Topics) != 1 || len(all.Topics[0].Partitions) != 8 {
			t.Errorf("fetched %+v", all)
		}
	})
}
