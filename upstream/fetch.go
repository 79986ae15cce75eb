package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
)

// Fetch reads committed offsets; those acknowledged before are seen. Who asks is not looked at. A group that the upstream
// does not know has none. UNSTABLE_OFFSET_COMMIT is passed on.
func (o *Offsets) Fetch(req *offsets.FetchRequest, done func(*offsets.FetchResponse)) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		done(fetchFailed(coordinator.CoordinatorNotAvailable))
		return
	}
	o.wg.Add(1)
	o.mu.Unlock()
	go func() {
		defer o.wg.Done()
		done(o.fetch(req))
	}()
}

func fetchFailed(code coordinator.Code) *offsets.FetchResponse {
	return &offsets.FetchResponse{Err: coordinator.Errorf(code, "the upstream is not available")}
}

func (o *Offsets) fetch(req *offsets.FetchRequest) *offsets.FetchResponse {
	ctx, cancel := context.WithTimeout(o.ctx, o.cfg.Deadline)
	defer cancel()
	lane := o.client.lanes[fnv32(req.GroupID)%uint32(len(o.client.lanes))]
	code := coordinator.CoordinatorNotAvailable
	for try := 1; ; try++ {
		resp, err := o.client.request(ctx, lane.cl, req.GroupID, fetchRequest(req))
		if err == nil {
			out, code := fetchAnswer(req, resp.(*kmsg.OffsetFetchResponse))
			switch {
			case code == 0 || code == kerr.GroupIDNotFound.Code:
				return out
			case isCoordinatorTrouble(code):
				o.client.coordinators.forget(req.GroupID)
			default:
				return fetchFailed(clientCode(code))
			}
		}
		if !o.pause(ctx, min(try, 4)) {
			return fetchFailed(code)
		}
	}
}

// fetchRequest fills the fields of every version: which one is sent depends on the broker.
func fetchRequest(req *offsets.FetchRequest) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	r.Group, group.Group = req.GroupID, req.GroupID
	r.RequireStable = req.RequireStable
	for _, t := range req.Topics {
		old := kmsg.NewOffsetFetchRequestTopic()
		old.Topic, old.Partitions = t.Name, t.Partitions
		r.Topics = append(r.Topics, old)
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = t.Name, t.Partitions
		group.Topics = append(group.Topics, topic)
	}
	if req.Topics != nil && len(req.Topics) == 0 { // none, not all
		r.Topics, group.Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
	}
	r.Groups = append(r.Groups, group)
	return r
}

// fetchAnswer translates the answer and returns the upstream's code for the group. Topics stand in the order of the
// request, or of the answer when all were asked for.
func fetchAnswer(req *offsets.FetchRequest, resp *kmsg.OffsetFetchResponse) (*offsets.FetchResponse, int16) {
	found := map[topicPartition]offsets.FetchedOffset{}
	all := &offsets.FetchResponse{Topics: []offsets.FetchTopicResult{}}
	code := resp.ErrorCode
	add := func(topic string, p offsets.FetchedOffset) {
		found[topicPartition{topic, p.Partition}] = p
		if n := len(all.Topics); n == 0 || all.Topics[n-1].Name != topic {
			all.Topics = append(all.Topics, offsets.FetchTopicResult{Name: topic})
		}
		last := &all.Topics[len(all.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	note := func(c int16) coordinator.Code {
		if isCoordinatorTrouble(c) { // old versions tell it for each partition
			code = c
		}
		return clientCode(c)
	}
	for _, g := range resp.Groups {
		code = g.ErrorCode
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, offsets.FetchedOffset{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, Code: note(p.ErrorCode)})
			}
		}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			add(t.Topic, offsets.FetchedOffset{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, Code: note(p.ErrorCode)})
		}
	}
	if req.Topics == nil {
		return all, code
	}
	return inOrder(req, found), code
}

// inOrder arranges offsets as they were asked for; what the upstream left out has no offset.
func inOrder(req *offsets.FetchRequest, found map[topicPartition]offsets.FetchedOffset) *offsets.FetchResponse {
	out := &offsets.FetchResponse{Topics: make([]offsets.FetchTopicResult, len(req.Topics))}
	none := ""
	for i, t := range req.Topics {
		result := offsets.FetchTopicResult{Name: t.Name, ID: t.ID, Partitions: make([]offsets.FetchedOffset, len(t.Partitions))}
		for j, n := range t.Partitions {
			p, ok := found[topicPartition{t.Name, n}]
			if !ok {
				p = offsets.FetchedOffset{Partition: n, Offset: -1, LeaderEpoch: -1, Metadata: &none}
			}
			result.Partitions[j] = p
		}
		out.Topics[i] = result
	}
	return out
}

// delete deletes offsets; a claim is given up before and made anew after.
func (o *Offsets) delete(ctx context.Context, g *group, term uint64, p *op) {
	o.mu.Lock()
	was := g.claim
	o.mu.Unlock()
	if err := o.giveUp(ctx, g, term, was); err != nil {
		o.restore(g, term, was)
		code := coordinator.NotCoordinator
		if errors.Is(err, errNotKnown) {
			code = coordinator.CoordinatorNotAvailable
		}
		p.fail(code, nil)
		return
	}
	p.deleted(o.offsetDelete(ctx, g, p))
	if (was.state == held || was.state == lost) && o.update(g, term, claim{state: lost}) {
		o.rejoin(ctx, g, term)
	}
}

// giveUp leaves the upstream's group where this process knows its membership there. One that it does not know may be its successor's,
// and keeps the upstream from deleting anything.
func (o *Offsets) giveUp(ctx context.Context, g *group, term uint64, c claim) error {
	switch {
	case c.memberID != "" || c.state == fenced:
		return o.leave(ctx, g, term)
	case !o.update(g, term, claim{}):
		return ErrDropped
	}
	return nil
}

// errNotLeading says that this process could not prove that it leads the group's shard.
var errNotLeading = errors.New("does not lead the group's shard")

// verify waits for a proof, begun now, that this process leads the group's shard.
func (o *Offsets) verify(ctx context.Context, group string) error {
	if o.cfg.Verify == nil {
		return nil
	}
	verified := make(chan error, 1)
	o.cfg.Verify(group, func(err error) { verified <- err })
	select {
	case err := <-verified:
		if err != nil {
			return errors.Join(errNotLeading, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restore puts a claim back that turned out to be another's when it was to be given up.
func (o *Offsets) restore(g *group, term uint64, was claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g.term != term {
		return
	}
	o.setClaim(g, was)
	if was.state == held {
		o.taken(g)
	}
	if g.claim.state == lost {
		g.queue = append([]*op{{kind: opReclaim}}, g.queue...)
	}
}

func (o *Offsets) offsetDelete(ctx context.Context, g *group, p *op) *offsets.DeleteResponse {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = g.id
	for _, t := range p.delete.Topics {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = t.Name
		for _, n := range t.Partitions {
			rp := kmsg.NewOffsetDeleteRequestTopicPartition()
			rp.Partition = n
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	var out *offsets.DeleteResponse
	code := o.retry(ctx, g, p.deadline, func(ctx context.Context) (int16, error) {
		if err := o.verify(ctx, g.id); err != nil {
			return 0, err
		}
		resp, err := o.client.request(ctx, o.client.lanes[g.lane].cl, g.id, req)
		if err != nil {
			return 0, err
		}
		r := resp.(*kmsg.OffsetDeleteResponse)
		out = deleteAnswer(p.delete, r)
		return r.ErrorCode, nil
	})
	switch code {
	case coordinator.None:
		return out
	case coordinator.GroupIDNotFound: // nothing to delete
		return deleteAnswer(p.delete, &kmsg.OffsetDeleteResponse{})
	}
	return &offsets.DeleteResponse{Err: coordinator.Errorf(code, "the upstream did not delete the offsets")}
}

// deleteAnswer gives each partition its code; those left out succeeded.
func deleteAnswer(req *offsets.DeleteRequest, resp *kmsg.OffsetDeleteResponse) *offsets.DeleteResponse {
	codes := map[topicPartition]int16{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			codes[topicPartition{t.Topic, p.Partition}] = p.ErrorCode
		}
	}
	out := &offsets.DeleteResponse{Topics: make([]offsets.CommitTopicResult, len(req.Topics))}
	for i, t := range req.Topics {
		result := offsets.CommitTopicResult{Name: t.Name, ID: t.ID, Partitions: make([]offsets.PartitionResult, len(t.Partitions))}
		for j, n := range t.Partitions {
			result.Partitions[j] = offsets.PartitionResult{Partition: n, Code: clientCode(codes[topicPartition{t.Name, n}])}
		}
		out.Topics[i] = result
	}
	return out
}

// deleteGroup leaves and deletes the upstream's group. Each try is preceded by a proof of leadership, and only the membership that this
// process knows is left: where it is another's by now, the upstream refuses to delete what that one has committed.
func (o *Offsets) deleteGroup(ctx context.Context, g *group, term uint64, p *op) {
	o.mu.Lock()
	was := g.claim
	o.mu.Unlock()
	if was.state == fenced || !o.update(g, term, claim{}) {
		p.fail(coordinator.NotCoordinator, nil)
		return
	}
	code := o.retry(ctx, g, p.deadline, func(ctx context.Context) (int16, error) {
		if err := o.verify(ctx, g.id); err != nil {
			return 0, err
		}
		lane := o.client.lanes[g.lane].cl
		if was.memberID != "" {
			if err := o.client.leave(ctx, lane, g.id, was.memberID); err != nil && !errors.Is(err, kerr.NotCoordinator) {
				o.log.Debug("cannot leave the upstream's group", "group", g.id, "error", err)
			}
		}
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{g.id}
		resp, err := o.client.request(ctx, lane, g.id, req)
		if err != nil {
			return 0, err
		}
		groups := resp.(*kmsg.DeleteGroupsResponse).Groups
		if len(groups) == 0 {
			return kerr.UnknownServerError.Code, nil
		}
		return groups[0].ErrorCode, nil
	})
	if code == coordinator.None || code == coordinator.GroupIDNotFound {
		p.done(nil)
		return
	}
	p.done(coordinator.Errorf(code, "the upstream did not delete the group"))
}

// retry repeats call until it is answered with something else than coordinator trouble, this process leads no more, or until the
// deadline.
func (o *Offsets) retry(ctx context.Context, g *group, deadline time.Time, call func(context.Context) (int16, error)) coordinator.Code {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for try := 1; ; try++ {
		code, err := call(ctx)
		switch {
		case errors.Is(err, errNotLeading):
			return coordinator.NotCoordinator
		case err != nil:
		case isCoordinatorTrouble(code):
			o.client.coordinators.forget(g.id)
		case code == kerr.NonEmptyGroup.Code, code == kerr.GroupIDNotFound.Code:
			return coordinator.Code(code)
		default:
			return clientCode(code)
		}
		if !o.pause(ctx, min(try, 4)) {
			return coordinator.CoordinatorNotAvailable
		}
	}
}
