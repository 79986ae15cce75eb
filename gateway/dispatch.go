package gateway

import (
	"bytes"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/streams"
	"github.com/coordd/coordd/protocol"
)

// API keys that the gateway treats in a way of their own and the protocol package does not name.
const (
	keyCreateTopics        int16 = 19
	keyDeleteTopics        int16 = 20
	keyDescribeLogDirs     int16 = 35
	keyCreatePartitions    int16 = 37
	keyElectLeaders        int16 = 43
	keyAlterReassignments  int16 = 45
	keyListReassignments   int16 = 46
	keyUpdateFeatures      int16 = 57
	keyUnregisterBroker    int16 = 64
	keyListTransactions    int16 = 66
	keyListConfigResources int16 = 74
)

// dispatch has one request answered or sent on. frame is the whole request with its length prefix; it aliases the read
// buffer. An error ends the connection.
func (c *conn) dispatch(frame []byte) error {
	c.letGo()
	h, body, err := protocol.ParseHeader(frame[4:])
	if err != nil {
		c.refuse("malformed", h, err)
		return err
	}
	if h.Key == protocol.KeyStreamsGroupHeartbeat && (h.Version == 0 || h.Version == 1) {
		return c.heartbeat(h, body, frame)
	}
	if !protocol.Supported(h.Key, h.Version) {
		if h.Key == protocol.KeyApiVersions {
			s := c.open(h, nil)
			s.out, s.code = protocol.AppendUnsupportedApiVersions(s.out[:0], h.Correlation), coordinator.UnsupportedVersion
			s.answer()
			return nil
		}
		c.refuse("unsupported", h, errRefused)
		return errRefused
	}
	c.know(&h)
	api, _ := protocol.Lookup(h.Key)
	switch api.Action {
	case protocol.Local:
		err = c.local(h, body, frame)
	case protocol.RouteByGroup:
		err = c.byGroup(h, body, frame)
	case protocol.FanOut:
		err = c.listGroups(h, body, frame)
	default:
		err = c.pass(h, body, frame)
	}
	if err == protocol.ErrMalformed {
		c.refuse("malformed", h, err)
	}
	return err
}

// refuse notes why a connection is closed.
func (c *conn) refuse(cause string, h protocol.Header, err error) {
	c.g.metrics.refused.Inc()
	c.g.log.note(cause, "closing a connection for a request that is not served", "client", c.client.Host, "api", h.Key, "version", h.Version, "error", err)
}

func (c *conn) local(h protocol.Header, body, frame []byte) error {
	if h.Key == protocol.KeyApiVersions {
		return c.apiVersions(h, body)
	}
	return c.batch(h, body, frame) // StreamsGroupDescribe
}

// pass sends a request on to the upstream, except for what a coordd node answers for itself.
func (c *conn) pass(h protocol.Header, body, frame []byte) error {
	if h.Key == protocol.KeyMetadata || h.Key == protocol.KeyDescribeCluster {
		if err := c.awaitView(); err != nil {
			return err
		}
	}
	switch {
	case h.Key == protocol.KeyProduce:
		return c.produce(h, body, frame)
	case h.Key == keyDescribeLogDirs && c.port.broker == noBroker:
		c.reply(h, kmsg.NewPtrDescribeLogDirsResponse())
		return nil
	case h.Key == keyListTransactions && c.port.broker == noBroker:
		c.reply(h, kmsg.NewPtrListTransactionsResponse())
		return nil
	case h.Key == keyCreateTopics && c.g.cfg.Quirks.NullTopicConfigs:
		return c.forward(c.brokerFor(h.Key), h, frame, repairCreateTopics)
	}
	return c.forward(c.brokerFor(h.Key), h, frame, rewriterFor(h.Key, h.Version))
}

// produce sends records on; without acknowledgements there is no answer to wait for.
func (c *conn) produce(h protocol.Header, body, frame []byte) error {
	acks, ok := produceAcks(h.Version, body)
	if !ok {
		return protocol.ErrMalformed
	}
	broker := c.brokerFor(h.Key)
	if acks != 0 {
		return c.forward(broker, h, frame, rewriterFor(h.Key, h.Version))
	}
	u, err := c.to(broker)
	if err != nil {
		return err
	}
	_, err = u.nc.Write(frame)
	return err
}

// brokerFor is the upstream broker for a request: on the node's own port the controller for what only a controller can
// do where there is no KRaft.
func (c *conn) brokerFor(key int16) int32 {
	if c.port.broker != noBroker {
		return c.port.broker
	}
	switch key {
	case keyCreateTopics, keyDeleteTopics, keyCreatePartitions, keyElectLeaders, keyAlterReassignments,
		keyListReassignments, keyUpdateFeatures, keyUnregisterBroker:
		return c.g.anyBroker() // the controller where it lives
	}
	return c.homeBroker()
}

// repairCreateTopics gives each topic an empty list of configs.
func repairCreateTopics(_ *conn, h protocol.Header, answer []byte) ([]byte, error) {
	if h.Version < 5 {
		return answer, nil
	}
	_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
	if err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = h.Version
	if err := resp.ReadFrom(body); err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		resp.Topics[i].Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	}
	return protocol.AppendResponse(nil, h, resp), nil
}

// maxHeartbeat is the longest StreamsGroupHeartbeat in bytes. What a record can hold of a topology and a member's tasks is a
// quarter of it; without a limit the decoded form of a request of socket.request.max.bytes would take gigabytes.
const maxHeartbeat = 2 << 20

// heartbeat gives a StreamsGroupHeartbeat to the shard's leader, wherever it came to. Nothing is allocated on the way to
// a shard of this node and back.
func (c *conn) heartbeat(h protocol.Header, body, frame []byte) error {
	c.know(&h)
	s := c.open(h, frame)
	if len(body) > maxHeartbeat {
		s.fail(coordinator.Errorf(coordinator.InvalidRequest, "The heartbeat is %d bytes long, allowed are %d.", len(body), maxHeartbeat))
		return nil
	}
	if err := protocol.DecodeHeartbeat(h.Version, body, &s.beat); err != nil {
		c.refuse("malformed", h, err)
		return err
	}
	if s.beat.MemberEpoch == streams.JoinEpoch {
		c.g.foreign.forget(s.beat.GroupID)
		delete(c.others, s.beat.GroupID)
		delete(c.vacated, s.beat.GroupID)
	}
	s.call.Client = c.client
	if c.waited {
		s.call.AgeMs = ageMs(c.g.now() - c.began)
	}
	if counts(&s.beat) && c.hungUp() {
		s.fail(notAvailable) // nobody reads it: the client may have said something else elsewhere
		return nil
	}
	number := c.g.coords.Shard(s.beat.GroupID)
	leader, ok := c.g.coords.Leader(number)
	here := ok && leader == c.g.coords.Self()
	if ok && c.astray(here, &s.beat) {
		s.fail(notCoordinator)
		return nil
	}
	if here {
		c.begin(&s.call, number)
		c.g.coords.Submit(number, &s.call)
		return nil
	}
	if ok && s.beat.MemberEpoch > streams.JoinEpoch {
		return c.beatFar(s, number, leader)
	}
	began := c.began
	c.g.run(func() { c.g.rebeat(s, began, false) })
	return nil
}

// counts says that a heartbeat tells what its member owns.
func counts(req *streams.HeartbeatRequest) bool {
	return req.MemberEpoch == streams.JoinEpoch || req.MemberEpoch > streams.JoinEpoch && req.Active != nil
}

// maxNudged is how many groups a connection remembers as sent to their coordinators; it sends no more there then.
const maxNudged = 1000

// astray says that a member stays at a port other than its coordinator's: at most once for a connection and group, for
// whoever comes again is to be served. A join is served wherever it comes to: before it there may be no group, so that
// FindCoordinator would name the same port. So is a report, which others may wait for.
func (c *conn) astray(here bool, req *streams.HeartbeatRequest) bool {
	if here && c.port.broker == noBroker || req.MemberEpoch <= streams.JoinEpoch || req.Active != nil {
		return false
	}
	if _, told := c.nudged[req.GroupID]; told || len(c.nudged) >= maxNudged {
		return false
	}
	if c.nudged == nil {
		c.nudged = map[string]struct{}{}
	}
	c.nudged[strings.Clone(req.GroupID)] = struct{}{}
	return true
}

// rebeat has a heartbeat, read when it began, answered by the leader of its shard where that is not this node, or was not
// when it was tried: then it may have done something already.
func (g *Gateway) rebeat(s *slot, began time.Duration, maybe bool) {
	// The frame is copied: an attempt that is given up may look at it when the slot is long answered.
	frame := bytes.Clone(s.frame)
	out, err := g.requestAtLeader(&errand{group: s.beat.GroupID, c: s.c, began: began, maybe: maybe}, s.call.Client, frame)
	switch {
	case err != nil:
		s.fail(notAvailable)
	case out.err != nil:
		s.fail(out.err)
	default:
		s.out, s.code = append(s.out[:0], out.answer...), codeIn(s.h, out.answer)
		s.answer()
	}
}
