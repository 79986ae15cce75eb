package gateway

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/offsets"
	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// batchWidth is how many groups of one request are asked for at a time.
const batchWidth = 16

// partition is a batch of groups by who answers for them.
type partition struct {
	own     []string
	foreign map[int32][]string // by upstream coordinator
	refused map[string]*coordinator.Error
}

// batch answers a request about several groups: each by who coordinates it, merged in the order of the request.
func (c *conn) batch(h protocol.Header, body, frame []byte) error {
	ids, err := protocol.Groups(h.Key, h.Version, body)
	if err != nil {
		return err
	}
	if len(ids) == 0 && h.Key != protocol.KeyStreamsGroupDescribe {
		return c.forward(c.homeBroker(), h, frame, nil)
	}
	p, err := c.partition(h, ids)
	if err != nil {
		return err
	}
	if len(p.own) == 0 && len(p.refused) == 0 && len(p.foreign) == 1 {
		for broker, groups := range p.foreign {
			return c.forward(broker, h, frame, c.passedOn(h, body, groups...))
		}
	}
	m := newMerger(h, ids)
	if err := c.answerOwn(m, h, body, p.own); err != nil {
		return err
	}
	if err := c.answerRefused(m, h, body, p.refused); err != nil {
		return err
	}
	for broker, groups := range p.foreign {
		if err := c.answerForeign(m, h, body, broker, groups); err != nil {
			return err
		}
	}
	resp := m.merged()
	if h.Key == protocol.KeyStreamsGroupDescribe {
		if req, err := protocol.DecodeStreamsDescribe(h.Version, body); err == nil && req.AuthorizedOperations {
			c.addOperations(resp.(*kmsg.StreamsGroupDescribeResponse))
		}
	}
	c.reply(h, resp)
	return nil
}

// partition asks the leaders also about groups that this node's replica holds, since it may lag: a group may be gone, and
// one of another type may have its id. Only offsets are found wherever they are asked for.
func (c *conn) partition(h protocol.Header, ids []string) (*partition, error) {
	p := &partition{foreign: map[int32][]string{}, refused: map[string]*coordinator.Error{}}
	var doubtful []string
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		if h.Key == protocol.KeyStreamsGroupDescribe {
			p.own = append(p.own, id)
			continue
		}
		now, refusal := c.ours(id, h.Key)
		if now.held() && refusal == nil && h.Key != protocol.KeyOffsetFetch {
			doubtful = append(doubtful, id)
			continue
		}
		if err := c.place(p, h, id, now.held(), refusal); err != nil {
			return nil, err
		}
	}
	now, refusals := make([]holding, len(doubtful)), make([]*coordinator.Error, len(doubtful))
	c.inParallel(len(doubtful), func(i int) {
		now[i], refusals[i] = c.g.holdsAtLeader(&errand{group: doubtful[i], c: c}, c.client)
	})
	for i, id := range doubtful {
		if err := c.place(p, h, id, now[i].held(), refusals[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// place puts a group to those who answer for it.
func (c *conn) place(p *partition, h protocol.Header, id string, ours bool, refusal *coordinator.Error) error {
	switch {
	case refusal != nil:
		p.refused[id] = refusal
	case ours:
		p.own = append(p.own, id)
	default:
		broker, refusal, err := c.reachCoordinator(id, h)
		switch {
		case err != nil:
			return err
		case refusal != nil:
			p.refused[id] = refusal
		default:
			p.foreign[broker] = append(p.foreign[broker], id)
		}
	}
	return nil
}

// inParallel runs f for 0 to n-1, batchWidth at a time: one shard without a leader is not to keep the groups of others waiting.
func (c *conn) inParallel(n int, f func(i int)) {
	if n == 0 {
		return
	}
	c.blocking(func() {
		var wg sync.WaitGroup
		width := make(chan struct{}, batchWidth)
		for i := range n {
			width <- struct{}{}
			wg.Go(func() {
				defer func() { <-width }()
				f(i)
			})
		}
		wg.Wait()
	})
}

// answerOwn adds the answers for our own groups, each from the leader of its shard.
func (c *conn) answerOwn(m *merger, h protocol.Header, body []byte, own []string) error {
	switch h.Key {
	case protocol.KeyOffsetFetch, protocol.KeyDeleteGroups, protocol.KeyStreamsGroupDescribe:
	default:
		answer, err := protocol.AppendForeignDescribe(nil, h, own, nil)
		if err != nil {
			return err
		}
		return m.add(answer)
	}
	parts, err := protocol.SplitEach(h.Key, h.Version, body, once(h.Key, own))
	if err != nil {
		return err
	}
	answers := make([][]byte, len(parts))
	errs := make([]error, len(parts))
	c.inParallel(len(parts), func(i int) {
		id, part := parts[i].ID, parts[i].Body
		out, err := c.g.requestAtLeader(&errand{group: id, c: c}, c.client, appendFrame(nil, h, part))
		if err == nil && out.err != nil {
			out.answer, err = protocol.AppendError(nil, h, part, out.err.Code, out.err.Message)
		}
		answers[i], errs[i] = out.answer, err
	})
	for i, answer := range answers {
		if errs[i] != nil {
			return errs[i]
		}
		if err := m.add(answer); err != nil {
			return err
		}
	}
	return nil
}

// once wants the groups of a list each time that they are named; a deletion of a group that is named twice is one, as in
// Kafka.
func once(key int16, ids []string) func(string) bool {
	left := setOf(ids)
	return func(id string) bool {
		_, ok := left[id]
		if key == protocol.KeyDeleteGroups {
			delete(left, id)
		}
		return ok
	}
}

func setOf(ids []string) map[string]struct{} {
	set := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return set
}

// answerRefused adds the errors of groups that nobody can be asked about.
func (c *conn) answerRefused(m *merger, h protocol.Header, body []byte, refused map[string]*coordinator.Error) error {
	if len(refused) == 0 {
		return nil
	}
	parts, err := protocol.SplitEach(h.Key, h.Version, body, func(id string) bool { return refused[id] != nil })
	if err != nil {
		return err
	}
	for _, part := range parts {
		e := refused[part.ID]
		answer, err := protocol.AppendError(nil, h, part.Body, e.Code, e.Message)
		if err != nil {
			return err
		}
		if err := m.add(answer); err != nil {
			return err
		}
	}
	return nil
}

// answerForeign adds the upstream's answer for groups that one broker coordinates.
func (c *conn) answerForeign(m *merger, h protocol.Header, body []byte, broker int32, groups []string) error {
	theirs := setOf(groups)
	part, err := protocol.SplitGroups(h.Key, h.Version, body, func(g string) bool { _, ok := theirs[g]; return ok })
	if err != nil {
		return err
	}
	answer, err := c.askFrame(broker, h, part)
	if err != nil {
		return err
	}
	if answer, err = c.passedOn(h, part, groups...)(c, h, answer); err != nil {
		return err
	}
	return m.add(answer)
}

// describeCall is StreamsGroupDescribe for the one group of req.
func describeCall(h protocol.Header, req *protocol.StreamsDescribe) (any, func(*shard.Call) []byte, error) {
	if len(req.Groups) != 1 {
		return nil, nil, errGroupRequest
	}
	return &shard.DescribeRequest{GroupID: req.Groups[0]}, func(call *shard.Call) []byte {
		d := protocol.StreamsDescription{Description: call.Response.(*streams.Description), Operations: protocol.NoOperations}
		return protocol.AppendStreamsDescribe(nil, h, req, []protocol.StreamsDescription{d})
	}, nil
}

// deleteCall is DeleteGroups for the one group of the body.
func deleteCall(h protocol.Header, body []byte) (any, func(*shard.Call) []byte, error) {
	ids, err := protocol.Groups(h.Key, h.Version, body)
	if err != nil {
		return nil, nil, err
	}
	if len(ids) != 1 {
		return nil, nil, errGroupRequest
	}
	return &shard.DeleteGroupRequest{GroupID: ids[0]}, func(call *shard.Call) []byte {
		result := protocol.GroupResult{ID: ids[0], Err: call.Response.(*shard.DeleteGroupResponse).Err}
		answer, _ := protocol.AppendDeleteGroups(nil, h, []protocol.GroupResult{result}, nil) // no upstream part, no error
		return answer
	}, nil
}

// fillTopicIDs gives the topics of an OffsetFetch answer that names topics by id their ids; topics that have none (any
// more) cannot be told.
func (g *Gateway) fillTopicIDs(version int16, resp *offsets.FetchResponse) {
	if version < 10 {
		return
	}
	image := g.cluster.Image()
	resp.Topics = slices.DeleteFunc(resp.Topics, func(t offsets.FetchTopicResult) bool {
		if t.ID != [16]byte{} {
			return false
		}
		if image != nil {
			_, known := image.TopicID(t.Name)
			return !known
		}
		return true
	})
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.ID == [16]byte{} {
			t.ID, _ = image.TopicID(t.Name)
		}
	}
}
