package streams

import (
	"fmt"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/fsm/record"
	"github.com/coordd/coordd/topology"
)

// simClient is a client that follows the protocol as the Java client does: it reports its tasks when they changed and
// after trouble, applies an assignment before it acknowledges it, and joins anew with the same id when it is fenced.
type simClient struct {
	id, process, instance string
	endpoint              *record.Endpoint
	version               int16
	alive                 bool
	removed               bool // its session or its time to revoke is over
	epoch                 int32
	endpointEpoch         int32
	goal                  topology.Assignment // what it was told last
	running               topology.Assignment // what it runs
	report                bool                // the next heartbeat carries the tasks
	incarnation           int
	copies                *copyModel // nil: it reports no offsets
}

// zones are where processes are; others do not tell.
var zones = map[string]string{"p0": "a", "p1": "b", "p2": "a"}

func (c *simClient) request() *HeartbeatRequest {
	req := &HeartbeatRequest{
		Version: c.version, GroupID: testGroup, MemberID: c.id, MemberEpoch: c.epoch, EndpointEpoch: c.endpointEpoch,
		RebalanceTimeoutMs: -1, InstanceID: optional(c.instance),
	}
	if c.epoch == JoinEpoch {
		req.RebalanceTimeoutMs = 60000
		req.ProcessID, req.UserEndpoint = &c.process, c.endpoint
		req.ClientTags = []record.KeyValue{}
		if zone := zones[c.process]; zone != "" {
			req.ClientTags, req.RackID = []record.KeyValue{{Key: "zone", Value: zone}}, &zone
		}
		req.Active, req.Standby, req.Warmup = topology.Tasks{}, topology.Tasks{}, topology.Tasks{}
	} else if c.report {
		// A report is final: what it lacks is not started before it is told again (see reconciler.step).
		c.goal = c.running
		req.Active, req.Standby, req.Warmup = c.running.Active.NonNil(), c.running.Standby.NonNil(), c.running.Warmup.NonNil()
	}
	c.copies.report(c, req)
	return req
}

// told takes a response. New tasks are only run after apply. A client that follows the protocol is told that it is unknown
// only after it was removed for its silence, and is never fenced.
func (c *simClient) told(r *HeartbeatResponse) error {
	if r.Err != nil {
		if r.Err.Code == coordinator.UnknownMemberID && c.removed {
			c.epoch, c.goal, c.running = JoinEpoch, topology.Assignment{}, topology.Assignment{}
			c.report, c.removed = false, false
			return nil
		}
		return fmt.Errorf("client %s would die or lose its tasks: %v", c.id, r.Err)
	}
	if r.MemberEpoch < 1 {
		return fmt.Errorf("client %s was told epoch %d", c.id, r.MemberEpoch)
	}
	if (r.Active == nil) != (r.Standby == nil) || (r.Active == nil) != (r.Warmup == nil) || r.Status == nil {
		return fmt.Errorf("client %s got a mixed response %+v", c.id, r)
	}
	for _, s := range r.Status {
		if c.version < 1 && s.Code == StatusMissingClientTags {
			return fmt.Errorf("client %s of version 0 is told a status that it does not know", c.id)
		}
	}
	c.epoch, c.endpointEpoch, c.report = r.MemberEpoch, r.EndpointEpoch, false
	if r.Active != nil {
		// Told again before it could apply: it answers even if there is nothing left to do.
		c.report = !c.running.SameTasks(c.goal)
		c.goal = topology.Assignment{Active: r.Active, Standby: r.Standby, Warmup: r.Warmup}
	}
	return nil
}

// apply makes the client run what it was told, and report it.
func (c *simClient) apply() {
	if !c.running.SameTasks(c.goal) {
		c.running, c.report = c.goal, true
	}
}
