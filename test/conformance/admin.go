package conformance

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listGroups asks every broker and keeps this scenario's groups.
func listGroups(r *runner, arg any) any {
	o := fields(asObj(arg))
	m, err := r.c.metadata(r.c.bootstrap, []string{})
	check(err)
	addrs := map[string]bool{}
	for _, b := range m.Brokers {
		addrs[net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))] = true
	}
	out := obj{}
	code := "NONE"
	for a := range addrs {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version = int16(o.num("version", 5))
		req.StatesFilter = strs(o["states"])
		req.TypesFilter = strs(o["types"])
		kr, err := r.c.do(a, req)
		check(err)
		resp := kr.(*kmsg.ListGroupsResponse)
		if resp.ErrorCode != 0 {
			code = errName(resp.ErrorCode)
		}
		for _, g := range resp.Groups {
			if r.s.owns(g.Group) {
				out[g.Group] = obj{"protocol_type": g.ProtocolType, "state": g.GroupState, "type": g.GroupType}
			}
		}
	}
	return obj{"error": code, "groups": out}
}

func deleteGroup(r *runner, arg any) any {
	out := obj{}
	groups := strs(arg)
	if len(groups) == 0 {
		groups = []string{r.s.id}
	}
	for _, g := range groups {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version = 2
		req.Groups = []string{g}
		kr, err := r.c.group(g, req, func(x kmsg.Response) int16 { return x.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode })
		check(err)
		out[g] = obj{"error": errName(kr.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)}
	}
	return out
}

func findCoordinator(r *runner, arg any) any {
	group := r.s.id
	if s, ok := arg.(string); ok {
		group = s
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version = 4
	req.CoordinatorKeys = []string{group}
	kr, err := r.c.do(r.c.bootstrap, req)
	check(err)
	co := kr.(*kmsg.FindCoordinatorResponse).Coordinators
	if len(co) != 1 {
		return obj{"coordinators": len(co)}
	}
	return obj{"error": errName(co[0].ErrorCode), "found": co[0].Host != "" && co[0].Port > 0}
}

// apiVersions reports the version range of the named API keys.
func apiVersions(r *runner, arg any) any {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "oracle", "1"
	addr, err := r.c.findCoordinator(r.s.id)
	check(err)
	kr, err := r.c.do(addr, req)
	check(err)
	out := obj{}
	for _, k := range list(arg) {
		name := kmsg.NameForKey(int16(num(k)))
		out[name] = nil
		for _, a := range kr.(*kmsg.ApiVersionsResponse).ApiKeys {
			if int64(a.ApiKey) == num(k) {
				out[name] = fmt.Sprintf("%d-%d", a.MinVersion, a.MaxVersion)
			}
		}
	}
	return out
}
