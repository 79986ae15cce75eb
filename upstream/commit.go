package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// outcome is how one try to commit ended.
type outcome int

const (
	answered  outcome = iota // done was called
	tryAgain                 // the upstream has not done it; nothing is wrong with the claim
	claimLost                // the claim, or whether the upstream has done it, is not known any more
	takenOver                // another process holds the claim
)

// commitAll commits the ops, which are all commits, as far as the claim allows. What must be tried again goes back to the
// head of the queue.
func (o *Offsets) commitAll(ctx context.Context, g *group, term uint64, ops []*op) {
	c, ops := o.admit(g, ops)
	if len(ops) == 0 {
		return
	}
	results := make(map[*op]outcome, len(ops))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n, chain := range chains(ops) {
		lane := o.client.lanes[(g.lane+n)%len(o.client.lanes)]
		wg.Go(func() {
			for len(chain) > 0 {
				together := mergeable(chain)
				result := o.commitOnce(ctx, lane, g, c, chain[:together])
				mu.Lock()
				for _, p := range chain[:together] {
					results[p] = result
				}
				if result != answered { // what comes after must not overtake it
					for _, p := range chain[together:] {
						results[p] = result
					}
					mu.Unlock()
					return
				}
				mu.Unlock()
				chain = chain[together:]
			}
		})
	}
	wg.Wait()
	o.settle(ctx, g, term, c, ops, results)
}

// admit answers the commits that cannot be sent, and returns the claim to commit under.
func (o *Offsets) admit(g *group, ops []*op) (claim, []*op) {
	o.mu.Lock()
	c := g.claim
	if c.state == lost {
		g.queue = append(append([]*op{{kind: opReclaim}}, ops...), g.queue...)
		o.mu.Unlock()
		return c, nil
	}
	o.mu.Unlock()
	now := time.Now()
	var keep []*op
	for _, p := range ops {
		switch {
		case c.state == fenced:
			p.fail(coordinator.NotCoordinator, nil)
		case c.state == unclaimed && p.commit.MemberEpoch >= 0:
			p.fail(coordinator.CoordinatorLoadInProgress, nil)
		case !now.Before(p.deadline):
			p.fail(coordinator.CoordinatorNotAvailable, nil)
		default:
			keep = append(keep, p)
		}
	}
	return c, keep
}

// chains splits commits into sequences that may overtake each other: those of each transactional producer, and all
// others as one.
func chains(ops []*op) [][]*op {
	index := map[int64]int{}
	var out [][]*op
	for _, p := range ops {
		key := int64(-1)
		if p.commit.Transactional {
			key = p.commit.Transaction.ProducerID
		}
		n, ok := index[key]
		if !ok {
			n = len(out)
			index[key] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], p)
	}
	return out
}

// maxMerged bounds the partitions of commits that are sent as one, maxMergedBytes what they take upstream.
const (
	maxMerged      = 5000
	maxMergedBytes = offsets.MaxCommitBytes / 4
)

// mergeable is how many commits at the head of a chain can be one request: transactional ones and those that commit the
// same partition twice cannot.
func mergeable(chain []*op) int {
	if chain[0].commit.Transactional || len(chain) == 1 {
		return 1
	}
	seen := map[topicPartition]bool{}
	size := 0
	for n, p := range chain {
		size += offsets.CommitBytes(p.commit)
		if p.commit.Transactional || n > 0 && size > maxMergedBytes {
			return n
		}
		for _, t := range p.commit.Topics {
			for _, part := range t.Partitions {
				key := topicPartition{t.Name, part.Partition}
				if n > 0 && (seen[key] || len(seen) >= maxMerged) {
					return n
				}
				seen[key] = true
			}
		}
	}
	return len(chain)
}

type topicPartition struct {
	topic     string
	partition int32
}

// commitOnce sends the ops as one request and answers them if that settles them.
func (o *Offsets) commitOnce(ctx context.Context, l *lane, g *group, c claim, ops []*op) outcome {
	deadline := ops[0].deadline
	if least := time.Now().Add(leastWait); deadline.Before(least) {
		deadline = least
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var codes map[topicPartition]int16
	var err error
	if ops[0].commit.Transactional {
		codes, err = o.client.txnOffsetCommit(ctx, l, g.id, c, ops[0].commit)
	} else {
		codes, err = o.client.offsetCommit(ctx, l, g.id, c, ops)
	}
	if err != nil {
		if sent(err) && c.state == held {
			return claimLost // it may still arrive: fence it
		}
		return tryAgain
	}
	result := answered
	for _, code := range codes {
		result = max(result, outcomeOf(code, c))
		if isCoordinatorTrouble(code) {
			o.client.coordinators.forget(g.id)
		}
	}
	if result == answered {
		o.noteRefusal(g, codes)
		for _, p := range ops {
			p.commited(answer(p.commit, codes))
		}
	}
	return result
}

// leastWait is the shortest time that a commit is waited for once it is sent.
const leastWait = time.Second

// outcomeOf is what the code of one partition says about the request.
func outcomeOf(code int16, c claim) outcome {
	switch {
	case code == 0:
		return answered
	case code == kerr.FencedInstanceID.Code:
		return takenOver
	case c.state == held && (isClaimLost(code) || code == kerr.RequestTimedOut.Code):
		return claimLost
	case c.state != held && (code == kerr.UnknownMemberID.Code || code == kerr.RebalanceInProgress.Code):
		return claimLost // somebody is a member
	case isCoordinatorTrouble(code) || code == kerr.RequestTimedOut.Code:
		return tryAgain
	}
	return answered
}

// noteRefusal logs, when it changes, that the upstream refuses what the client must not be told, such as a right that
// coordd lacks.
func (o *Offsets) noteRefusal(g *group, codes map[topicPartition]int16) {
	refusal := int16(0)
	for _, code := range codes {
		if code != 0 && clientCode(code) == coordinator.CoordinatorNotAvailable {
			refusal = max(refusal, code)
		}
	}
	o.mu.Lock()
	changed := refusal != g.refusal
	g.refusal = refusal
	o.mu.Unlock()
	if changed && refusal != 0 {
		o.log.Warn("the upstream refuses commits", "group", g.id, "error", kerr.ErrorForCode(refusal))
	}
}

// answer gives each partition of req its code.
func answer(req *offsets.CommitRequest, codes map[topicPartition]int16) *offsets.CommitResponse {
	resp := commitAnswer(req, coordinator.CoordinatorNotAvailable)
	for i, t := range resp.Topics {
		for j, p := range t.Partitions {
			if code, ok := codes[topicPartition{t.Name, p.Partition}]; ok {
				resp.Topics[i].Partitions[j].Code = clientCode(code)
			}
		}
	}
	return resp
}

// settle decides what becomes of commits that were not answered.
func (o *Offsets) settle(ctx context.Context, g *group, term uint64, c claim, ops []*op, results map[*op]outcome) {
	worst := answered
	var again []*op
	for _, p := range ops {
		if results[p] != answered {
			worst = max(worst, results[p])
			again = append(again, p)
		}
	}
	o.mu.Lock()
	if worst == answered {
		g.retries = 0
		o.mu.Unlock()
		return
	}
	g.retries++
	try := g.retries
	if g.term != term || o.closed {
		closed := o.closed
		o.mu.Unlock()
		for _, p := range again {
			if closed {
				p.fail(coordinator.CoordinatorNotAvailable, nil)
			} else {
				p.fail(coordinator.NotCoordinator, nil)
			}
		}
		return
	}
	evict := worst == claimLost && c.state != held
	if !evict {
		head := again
		switch worst {
		case takenOver:
			o.taken(g)
		case claimLost:
			o.setClaim(g, claim{state: lost, memberID: c.memberID})
		}
		if g.claim.state == lost {
			head = append([]*op{{kind: opReclaim}}, again...)
		}
		g.queue = append(head, g.queue...)
	}
	o.mu.Unlock()
	switch {
	case evict:
		o.evict(ctx, g, term, again)
	case worst == takenOver:
		o.log.Info("claim of a group was taken over upstream", "group", g.id)
	case worst == tryAgain || try > 1:
		o.pause(ctx, min(try, 4))
	}
}

// taken notes that another process holds the claim. With Verify the group may turn out to be ours all the same: an
// earlier join of this process that arrived late looks just so. The lock is held.
func (o *Offsets) taken(g *group) {
	next := claim{state: fenced}
	if o.cfg.Verify != nil {
		next = claim{state: lost, memberID: g.claim.memberID, taken: true}
	}
	o.setClaim(g, next)
}

// maxEvictions is how often a commit without a member is tried again because the group has one.
const maxEvictions = 3

// evict makes way for memberless commits: a member that a former leader left behind is removed, once it is proven that it is not the
// next one's. When that does not help the group has members of another kind, and the commits are answered with UNKNOWN_MEMBER_ID.
func (o *Offsets) evict(ctx context.Context, g *group, term uint64, ops []*op) {
	if err := o.verify(ctx, g.id); err != nil {
		for _, p := range ops {
			p.fail(coordinator.NotCoordinator, nil)
		}
		return
	}
	if err := o.client.leave(ctx, o.client.lanes[g.lane].cl, g.id, ""); err != nil {
		o.log.Debug("cannot remove a former member", "group", g.id, "error", err)
	}
	try := ops[0].evicted
	if try > 0 {
		o.pause(ctx, min(try, 4))
	}
	var again, failed []*op
	o.mu.Lock()
	for _, p := range ops {
		if p.evicted++; p.evicted > maxEvictions || g.term != term || o.closed {
			failed = append(failed, p)
		} else {
			again = append(again, p)
		}
	}
	code := coordinator.UnknownMemberID
	if g.term != term || o.closed {
		code = coordinator.NotCoordinator
	}
	g.queue = append(again, g.queue...)
	o.mu.Unlock()
	for _, p := range failed {
		p.fail(code, nil)
	}
}

func (c *Client) offsetCommit(ctx context.Context, l *lane, group string, cl claim, ops []*op) (map[topicPartition]int16, error) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = group, -1, -1
	if cl.state == held {
		req.Generation, req.MemberID, req.InstanceID = cl.generation, cl.memberID, &instanceID
	}
	for _, p := range ops {
		for _, t := range p.commit.Topics {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = t.Name
			for _, part := range t.Partitions {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = part.Partition, part.Offset, part.LeaderEpoch, part.Metadata
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
	}
	resp, err := c.request(ctx, l.cl, group, req)
	if err != nil {
		return nil, err
	}
	codes := map[topicPartition]int16{}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			codes[topicPartition{t.Topic, p.Partition}] = p.ErrorCode
		}
	}
	return codes, nil
}

// errNoTransactions says that a connection for old transactions could not be made.
var errNoTransactions = errors.New("no client for transactions")

func (c *Client) txnOffsetCommit(ctx context.Context, l *lane, group string, cl claim, commit *offsets.CommitRequest) (map[topicPartition]int16, error) {
	client, err := l.forTransactions(c, commit.Version)
	if err != nil {
		return nil, &notSentError{errors.Join(errNoTransactions, err)}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	req.TransactionalID = commit.Transaction.ID
	req.ProducerID, req.ProducerEpoch = commit.Transaction.ProducerID, commit.Transaction.ProducerEpoch
	if cl.state == held {
		req.Generation, req.MemberID, req.InstanceID = cl.generation, cl.memberID, &instanceID
	}
	for _, t := range commit.Topics {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic = t.Name
		for _, part := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = part.Partition, part.Offset, part.LeaderEpoch, part.Metadata
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := c.request(ctx, client, group, req)
	if err != nil {
		return nil, err
	}
	codes := map[topicPartition]int16{}
	for _, t := range resp.(*kmsg.TxnOffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			codes[topicPartition{t.Topic, p.Partition}] = p.ErrorCode
		}
	}
	return codes, nil
}
