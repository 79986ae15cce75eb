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
				result := o.commitOnce(ctx, lane, g.id, c, chain[:together])
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

// maxMerged bounds the partitions of commits that are sent as one.
const maxMerged = 5000

// mergeable is how many commits at the head of a chain can be one request: transactional ones and those that commit the
// same partition twice cannot.
func mergeable(chain []*op) int {
	if chain[0].commit.Transactional || len(chain) == 1 {
		return 1
	}
	seen := map[topicPartition]bool{}
	for n, p := range chain {
		if p.commit.Transactional {
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
func (o *Offsets) commitOnce(ctx context.Context, l *lane, group string, c claim, ops []*op) outcome {
	ctx, cancel := context.WithTimeout(ctx, o.client.opts.RequestTimeout)
	defer cancel()
	var codes map[topicPartition]int16
	var err error
	if ops[0].commit.Transactional {
		codes, err = o.client.txnOffsetCommit(ctx, l, group, c, ops[0].commit)
	} else {
		codes, err = o.client.offsetCommit(ctx, l, group, c, ops)
	}
	if err != nil {
		if sent(err) && c.state == held {
			return claimLost // it may still arrive: fence it
		}
		return tryAgain
	}
	result := answered
	for _, code := range codes {
		switch {
		case code == kerr.FencedInstanceID.Code:
			result = max(result, takenOver)
		case isClaimLost(code) && (c.state == held || code == kerr.RebalanceInProgress.Code):
			result = max(result, claimLost)
		case code == kerr.UnknownMemberID.Code:
			result = max(result, claimLost) // memberless, but somebody is a member
		case isCoordinatorTrouble(code):
			o.client.coordinators.forget(group)
			result = max(result, tryAgain)
		case code == kerr.RequestTimedOut.Code:
			result = max(result, claimLost)
		}
	}
	if result == answered {
		for _, p := range ops {
			p.commited(answer(p.commit, codes))
		}
	}
	return result
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
	removed := false
	switch {
	case worst == takenOver && c.state != unclaimed:
		o.taken(g)
	case worst == claimLost && c.state == held:
		o.setClaim(g, claim{state: lost})
	case worst == claimLost:
		removed = true
	}
	// Without a wait, except where it makes sense: the queue must keep its order meanwhile.
	g.queue = append(append([]*op(nil), again...), g.queue...)
	o.mu.Unlock()
	if removed {
		o.removeLeftover(ctx, g, again, try)
	}
	if worst == tryAgain || try > 1 {
		o.pause(ctx, min(try, 4))
	}
}

// taken notes that another process holds the claim. With Verify the group may turn out to be ours all the same: an
// earlier join of this process that arrived late looks just so. The lock is held.
func (o *Offsets) taken(g *group) {
	next := claim{state: fenced}
	if o.cfg.Verify != nil {
		next.state = lost
	}
	o.log.Info("claim of a group was taken over upstream", "group", g.id)
	o.setClaim(g, next)
}

// removeLeftover makes way for memberless commits: a member that a former leader left behind is removed. When that does
// not help the group has members of another kind, and the commits are answered with UNKNOWN_MEMBER_ID.
func (o *Offsets) removeLeftover(ctx context.Context, g *group, ops []*op, try int) {
	if try == 1 {
		if err := o.client.leave(ctx, o.client.lanes[g.lane].cl, g.id, ""); err != nil {
			o.log.Debug("cannot remove a former member", "group", g.id, "error", err)
		}
		return
	}
	if try <= 3 {
		return
	}
	for _, p := range o.withdraw(g, ops) {
		p.fail(coordinator.UnknownMemberID, nil)
	}
}

// withdraw takes ops out of the queue and returns those that were still in it.
func (o *Offsets) withdraw(g *group, ops []*op) []*op {
	gone := map[*op]bool{}
	for _, p := range ops {
		gone[p] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	g.retries = 0
	var out, rest []*op
	for _, p := range g.queue {
		if gone[p] {
			out = append(out, p)
		} else {
			rest = append(rest, p)
		}
	}
	g.queue = rest
	return out
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
