package gateway

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// Operations on a group's configs (AclOperation.DESCRIBE_CONFIGS and ALTER_CONFIGS), which an upstream may not know.
const configOperations int32 = 1<<10 | 1<<11

// describeGroupsTells is the last version of DescribeGroups that tells the rights on a group that does not exist upstream.
const describeGroupsTells = 5

// addOperations adds what the client may do on each of the groups: the upstream knows, since it is there that the client
// is who it is. Where the upstream does not answer the operations stay untold.
func (c *conn) addOperations(resp *kmsg.StreamsGroupDescribeResponse) {
	for i := range resp.Groups {
		if g := &resp.Groups[i]; g.ErrorCode == 0 {
			g.AuthorizedOperations = c.operations(g.Group)
		}
	}
}

func (c *conn) operations(group string) int32 {
	h := protocol.Header{Key: protocol.KeyDescribeGroups, Version: describeGroupsTells}
	broker, refusal, err := c.reachCoordinator(group, h)
	if err != nil || refusal != nil {
		return protocol.NoOperations
	}
	req := kmsg.NewDescribeGroupsRequest()
	req.Version, req.Groups, req.IncludeAuthorizedOperations = describeGroupsTells, []string{group}, true
	answer, err := c.ask(broker, &req)
	if err != nil {
		return protocol.NoOperations
	}
	described := answer.(*kmsg.DescribeGroupsResponse).Groups
	switch {
	case len(described) != 1 || described[0].ErrorCode != 0:
		if len(described) == 1 && coordinator.Code(described[0].ErrorCode) == coordinator.NotCoordinator {
			c.g.where.forget(group)
		}
		return protocol.NoOperations
	case described[0].AuthorizedOperations != protocol.NoOperations && c.g.cfg.Quirks.NoGroupConfigRights:
		return described[0].AuthorizedOperations | configOperations
	}
	return described[0].AuthorizedOperations
}
