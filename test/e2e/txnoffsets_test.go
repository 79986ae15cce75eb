//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/test/rig"
)

// TestTransactionalOffsets takes members of a streams group through commits in transactions of both generations: what is pending,
// committed and aborted, and who may commit at which epoch. coordd answers as Kafka 4.4 does, over Kafka 4.4 and over one without
// transactions of the second generation.
func TestTransactionalOffsets(t *testing.T) {
	b := startBoth(t, scripted, nil)
	old := newSide(t, "coordd over "+oldKafka, startClusterWith(t, 3, startUpstream(t, oldKafka, b.dir+"/old"), b.dir+"/old", scripted).Bootstrap())
	play := func(generation int, sides ...*side) {
		t.Run(fmt.Sprintf("generation %d", generation), func(t *testing.T) {
			want := playTransactions(t, b.kafka, generation)
			for _, s := range sides {
				if diff := cmp.Diff(want, playTransactions(t, s, generation)); diff != "" {
					t.Errorf("%s answers otherwise than Kafka (-):\n%s", s.name, diff)
				}
			}
			t.Logf("FIGURE %d answers of %d servers are Kafka's:\n%s", len(want), len(sides), strings.Join(want, "\n"))
		})
	}
	play(1, b.coordd, old)
	play(2, b.coordd)
	t.Run("many pending", func(t *testing.T) {
		b.each(func(s *side) { manyPending(t, s) })
	})
}

// producer is a transactional producer, as far as offsets go. It speaks as one of a generation: the first names its groups to the
// transaction before it commits for them.
type producer struct {
	s          *side
	generation int
	id         string
	pid        int64
	epoch      int16
	coord      *rig.Conn // of its transactions
}

func newProducer(t *testing.T, s *side, generation int, id string) *producer {
	t.Helper()
	p := &producer{s: s, generation: generation, id: id}
	p.coord = transactionsOf(t, s.bootstrap, id)
	t.Cleanup(p.coord.Close)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
	again(t, func() rig.Code {
		r := asked1[*kmsg.InitProducerIDResponse](t, p.coord, req, 4)
		p.pid, p.epoch = r.ProducerID, r.ProducerEpoch
		return rig.Code(r.ErrorCode)
	})
	return p
}

// transactionsOf connects to the coordinator of a transactional id.
func transactionsOf(t *testing.T, bootstrap, id string) *rig.Conn {
	t.Helper()
	boot := dialed(t, strings.Split(bootstrap, ",")[0])
	defer boot.Close()
	var addr string
	again(t, func() rig.Code {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = 1, []string{id}
		c := asked1[*kmsg.FindCoordinatorResponse](t, boot, req, 4).Coordinators[0]
		addr = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
		return rig.Code(c.ErrorCode)
	})
	return dialed(t, addr)
}

// atCoordinator asks the coordinator of a group, which may be another one each time, until it is told something, and returns what.
func atCoordinator(t *testing.T, bootstrap, group string, ask func(c *rig.Conn) rig.Code) rig.Code {
	t.Helper()
	return untilTold(t, func() rig.Code {
		_, addr, err := rig.FindCoordinator(bootstrap, group, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		c := dialed(t, addr)
		defer c.Close()
		return ask(c)
	})
}

func dialed(t *testing.T, addr string) *rig.Conn {
	t.Helper()
	c, err := rig.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asked1 asks in a version and returns the answer.
func asked1[R kmsg.Response](t *testing.T, c *rig.Conn, req kmsg.Request, version int16) R {
	t.Helper()
	resp, err := c.DoVersion(req, version, 20*time.Second)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

// concurrentTransactions says that the one before is not yet over.
const concurrentTransactions = rig.Code(51)

// again repeats a request while its answer is that it has to be repeated, and fails the test at any other error.
func again(t *testing.T, ask func() rig.Code) {
	t.Helper()
	if code := untilTold(t, ask); code != 0 {
		t.Fatal(code)
	}
}

// untilTold repeats a request while its answer is that it has to be repeated.
func untilTold(t *testing.T, ask func() rig.Code) rig.Code {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for {
		code := ask()
		if ctx.Err() != nil || code != concurrentTransactions && !code.Retriable() {
			return code
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// commit commits offsets in the transaction and returns the code of each partition.
func (p *producer) commit(t *testing.T, group, topic, member string, epoch int32, offsets map[int32]int64) map[int32]rig.Code {
	t.Helper()
	version := int16(6) // which names topics by id
	if p.generation == 1 {
		version = 4
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.id, group, p.pid, p.epoch
		again(t, func() rig.Code {
			return rig.Code(asked1[*kmsg.AddOffsetsToTxnResponse](t, p.coord, req, 3).ErrorCode)
		})
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.id, group, p.pid, p.epoch
	req.MemberID, req.Generation = member, epoch
	in := kmsg.NewTxnOffsetCommitRequestTopic()
	in.Topic, in.TopicID = topic, idOf(t, p.s, topic)
	for _, n := range slices.Sorted(maps.Keys(offsets)) {
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = n, offsets[n]
		in.Partitions = append(in.Partitions, part)
	}
	req.Topics = append(req.Topics, in)
	codes := map[int32]rig.Code{}
	_ = atCoordinator(t, p.s.bootstrap, group, func(conn *rig.Conn) rig.Code {
		var first rig.Code
		for _, part := range asked1[*kmsg.TxnOffsetCommitResponse](t, conn, req, version).Topics[0].Partitions {
			codes[part.Partition] = rig.Code(part.ErrorCode)
			first = rig.Code(part.ErrorCode)
		}
		return first
	})
	return codes
}

func idOf(t *testing.T, s *side, topic string) kadm.TopicID {
	t.Helper()
	listed, err := s.admin.ListTopics(within(t, 20*time.Second), topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		t.Fatal(err)
	}
	return listed[topic].ID
}

// end commits or aborts the transaction.
func (p *producer) end(t *testing.T, commit bool) {
	t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	version := int16(5)
	if p.generation == 1 {
		version = 4
	}
	again(t, func() rig.Code {
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.id, p.pid, p.epoch, commit
		r := asked1[*kmsg.EndTxnResponse](t, p.coord, req, version)
		if r.ErrorCode == 0 && version == 5 {
			p.pid, p.epoch = r.ProducerID, r.ProducerEpoch
		}
		return rig.Code(r.ErrorCode)
	})
}

const unstable = rig.Code(88)

// fetched reads offsets of a group's topic: as text, the offset or the code of each partition that has either.
func fetched(t *testing.T, bootstrap, group, topic string, stable bool, partitions ...int32) map[int32]string {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	in := kmsg.NewOffsetFetchRequestGroupTopic()
	in.Topic, in.Partitions = topic, partitions
	g.Topics = append(g.Topics, in)
	req.Groups = append(req.Groups, g)
	offsets := map[int32]string{}
	code := atCoordinator(t, bootstrap, group, func(conn *rig.Conn) rig.Code {
		r := asked1[*kmsg.OffsetFetchResponse](t, conn, req, 9).Groups[0]
		if r.ErrorCode != 0 {
			return rig.Code(r.ErrorCode)
		}
		for _, part := range r.Topics[0].Partitions {
			switch {
			case part.ErrorCode != 0:
				offsets[part.Partition] = rig.Code(part.ErrorCode).Error()
			case part.Offset >= 0:
				offsets[part.Partition] = fmt.Sprint(part.Offset)
			}
		}
		return 0
	})
	if code != 0 {
		t.Fatal(code)
	}
	return offsets
}

// stableOffsets waits until no transaction hides an offset.
func stableOffsets(t *testing.T, bootstrap, group, topic string, partitions ...int32) map[int32]string {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for {
		offsets := fetched(t, bootstrap, group, topic, true, partitions...)
		if ctx.Err() != nil || !slices.Contains(slices.Collect(maps.Values(offsets)), unstable.Error()) {
			return offsets
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// playTransactions plays the script on one server and returns its answers.
func playTransactions(t *testing.T, s *side, generation int) (answers []string) {
	t.Helper()
	group := fmt.Sprintf("transacted-%d", generation)
	topic := group + ".in"
	createSized(t, s.bootstrap, 4, topic)
	note := func(what string, answer any) { answers = append(answers, fmt.Sprintf("%s: %v", what, answer)) }
	all := []int32{0, 1, 2, 3}
	first := rig.NewProbe(s.bootstrap, group, topic)
	s.join(t, *first)
	a := s.members[first.Member]
	p := newProducer(t, s, generation, group+"-p")

	note("commit", p.commit(t, group, topic, a.Member, a.Epoch, map[int32]int64{0: 10, 1: 11}))
	note("pending, stable", fetched(t, s.bootstrap, group, topic, true, all...))
	note("pending", fetched(t, s.bootstrap, group, topic, false, all...))
	p.end(t, true)
	note("committed", stableOffsets(t, s.bootstrap, group, topic, all...))
	note("commit", p.commit(t, group, topic, a.Member, a.Epoch, map[int32]int64{0: 20}))
	note("pending, stable", fetched(t, s.bootstrap, group, topic, true, all...))
	note("pending", fetched(t, s.bootstrap, group, topic, false, all...))
	p.end(t, false)
	note("aborted", stableOffsets(t, s.bootstrap, group, topic, all...))

	earlier := a.Epoch
	second := rig.NewProbe(s.bootstrap, group, topic)
	s.join(t, *second)
	kept := a.Active()["0"]
	lost := slices.DeleteFunc(slices.Clone(all), func(n int32) bool { return slices.Contains(kept, n) })
	if len(kept) != 2 || len(lost) != 2 || a.Epoch <= earlier {
		t.Fatalf("%s: the first member has %v at epoch %d, before %d", s.name, kept, a.Epoch, earlier)
	}
	commit := func(member string, epoch int32, partitions ...int32) []string {
		offsets := map[int32]int64{}
		for _, n := range partitions {
			offsets[n] = 30
		}
		var codes []string
		for _, code := range p.commit(t, group, topic, member, epoch, offsets) {
			codes = append(codes, code.Error())
		}
		return slices.Compact(codes) // one for all, by the rules
	}
	note("earlier epoch, task lost", commit(a.Member, earlier, lost[0]))
	note("earlier epoch, a task kept and one lost", commit(a.Member, earlier, kept[0], lost[0]))
	note("epoch to come", commit(a.Member, a.Epoch+1, kept[0]))
	note("unknown member", commit("nobody", a.Epoch, kept[0]))
	note("refused commits are not pending", len(fetchedUnstable(t, s.bootstrap, group, topic, all)))
	note("earlier epoch, task kept", commit(a.Member, earlier, kept[0]))
	note("no member named", commit("", -1, lost[0]))
	note("accepted commits are pending", len(fetchedUnstable(t, s.bootstrap, group, topic, all)))
	p.end(t, true)
	now := stableOffsets(t, s.bootstrap, group, topic, kept[0], lost[0])
	note("committed", []string{now[kept[0]], now[lost[0]]})
	s.leave(t, group)
	note("no member left", commit("", -1, 0))
	p.end(t, true)
	note("committed", stableOffsets(t, s.bootstrap, group, topic, 0))
	return answers
}

// fetchedUnstable lists the partitions with an offset in an open transaction.
func fetchedUnstable(t *testing.T, bootstrap, group, topic string, partitions []int32) (pending []int32) {
	t.Helper()
	for n, offset := range fetched(t, bootstrap, group, topic, true, partitions...) {
		if offset == unstable.Error() {
			pending = append(pending, n)
		}
	}
	return pending
}

const (
	manyPartitions   = 1000
	manyTransactions = 100
)

// manyPending opens transactions that all have an offset of each partition, and reads the group's offsets.
func manyPending(t *testing.T, s *side) {
	t.Helper()
	const group, topic = "crowded", "crowded.in"
	createSized(t, s.bootstrap, manyPartitions, topic)
	s.join(t, *rig.NewProbe(s.bootstrap, group, topic))
	offsets, all := map[int32]int64{}, []int32{}
	for n := range int32(manyPartitions) {
		offsets[n], all = 5, append(all, n)
	}
	read := func() time.Duration {
		begin := time.Now()
		fetched(t, s.bootstrap, group, topic, true, all...)
		return time.Since(begin)
	}
	none := read()
	var producers []*producer
	for n := range manyTransactions {
		p := newProducer(t, s, 2, fmt.Sprintf("%s-%d", group, n))
		for partition, code := range p.commit(t, group, topic, "", -1, offsets) {
			if code != 0 {
				t.Fatal(errors.Join(fmt.Errorf("partition %d", partition), code))
			}
		}
		producers = append(producers, p)
	}
	if n := len(fetchedUnstable(t, s.bootstrap, group, topic, all)); n != manyPartitions {
		t.Errorf("%s: %d of %d partitions are said to be pending", s.name, n, manyPartitions)
	}
	many := read()
	for _, p := range producers {
		p.end(t, false)
	}
	if left := stableOffsets(t, s.bootstrap, group, topic, all...); len(left) != 0 {
		t.Errorf("%s: %d offsets after all were aborted", s.name, len(left))
	}
	t.Logf("FIGURE %s: the offsets of %d partitions read in %v, in %v with %d transactions open on each", s.name, manyPartitions, ms(none), ms(many), manyTransactions)
	if many > 5*time.Second {
		t.Errorf("%s: %v to read offsets with many open transactions", s.name, many)
	}
}
