package main

import (
	"fmt"
	"net"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster finds coordinators and keeps one general connection per address.
type Cluster struct {
	boot    []string
	admin   string // where topics are created, "" = here
	id      string
	timeout time.Duration

	mu    sync.Mutex
	conns map[string]*Conn
	nodes map[string]int32 // address -> node id, as advertised
	coord map[string]string
	rr    int
}

func newCluster(bootstrap string) *Cluster {
	return &Cluster{boot: strings.Split(bootstrap, ","), id: "cbench", timeout: 10 * time.Second,
		conns: map[string]*Conn{}, nodes: map[string]int32{}, coord: map[string]string{}}
}

func (cl *Cluster) conn(addr string) (*Conn, error) {
	cl.mu.Lock()
	c := cl.conns[addr]
	cl.mu.Unlock()
	if c != nil && !c.dead() {
		return c, nil
	}
	c, err := dial(addr, cl.id, 2*time.Second)
	if err != nil {
		return nil, err
	}
	cl.mu.Lock()
	if o := cl.conns[addr]; o != nil && !o.dead() {
		cl.mu.Unlock()
		c.Close()
		return o, nil
	}
	cl.conns[addr] = c
	cl.mu.Unlock()
	return c, nil
}

// any returns a live connection to some node: known nodes and bootstrap addresses, round robin.
func (cl *Cluster) any() (*Conn, error) {
	cl.mu.Lock()
	addrs := append([]string{}, cl.boot...)
	for a := range cl.nodes {
		addrs = append(addrs, a)
	}
	cl.rr++
	off := cl.rr
	cl.mu.Unlock()
	var last error
	for i := range addrs {
		c, err := cl.conn(addrs[(i+off)%len(addrs)])
		if err == nil {
			return c, nil
		}
		last = err
	}
	return nil, last
}

// tryAny runs a request on any live node.
func (cl *Cluster) tryAny(req kmsg.Request) (kmsg.Response, error) {
	var last error
	for i := 0; i < 6; i++ {
		c, err := cl.any()
		if err == nil {
			var r kmsg.Response
			if r, err = c.Do(req, cl.timeout); err == nil {
				return r, nil
			}
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
	return nil, last
}

// find asks any node for the coordinators of groups; it fills the cache and returns those still unknown.
func (cl *Cluster) find(groups []string) (map[string]int16, error) {
	left := map[string]int16{}
	c, err := cl.any()
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	if err := c.pick(req); err != nil {
		return nil, err
	}
	set := func(g, host string, port, node int32, code int16) {
		if code != 0 {
			left[g] = code
			return
		}
		a := net.JoinHostPort(host, fmt.Sprint(port))
		cl.mu.Lock()
		cl.coord[g] = a
		cl.nodes[a] = node
		cl.mu.Unlock()
	}
	if req.Version >= 4 {
		req.CoordinatorKeys = groups
		r, err := c.Do(req, cl.timeout)
		if err != nil {
			return nil, err
		}
		for _, k := range r.(*kmsg.FindCoordinatorResponse).Coordinators {
			set(k.Key, k.Host, k.Port, k.NodeID, k.ErrorCode)
		}
		return left, nil
	}
	for _, g := range groups {
		req.CoordinatorKey = g
		r, err := c.Do(req, cl.timeout)
		if err != nil {
			return nil, err
		}
		k := r.(*kmsg.FindCoordinatorResponse)
		set(g, k.Host, k.Port, k.NodeID, k.ErrorCode)
	}
	return left, nil
}

// findAll resolves the coordinators of all groups, waiting until they exist.
func (cl *Cluster) findAll(groups []string, wait time.Duration) error {
	end := time.Now().Add(wait)
	for len(groups) > 0 {
		n := min(len(groups), 500)
		left, err := cl.find(groups[:n])
		if err == nil {
			rest := groups[n:]
			for g := range left {
				rest = append(rest, g)
			}
			groups = rest
			if len(left) == 0 {
				continue
			}
			err = fmt.Errorf("coordinator errors %v", left)
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

func (cl *Cluster) coordAddr(group string) (string, error) {
	cl.mu.Lock()
	a := cl.coord[group]
	cl.mu.Unlock()
	if a != "" {
		return a, nil
	}
	left, err := cl.find([]string{group})
	if err != nil {
		return "", err
	}
	if code, bad := left[group]; bad {
		return "", fmt.Errorf("FindCoordinator(%s): error %d", group, code)
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.coord[group], nil
}

func (cl *Cluster) forget(group string) {
	cl.mu.Lock()
	delete(cl.coord, group)
	cl.mu.Unlock()
}

// forgetAddr drops the cached coordinator of group only while it still is addr.
func (cl *Cluster) forgetAddr(group, addr string) {
	cl.mu.Lock()
	if cl.coord[group] == addr {
		delete(cl.coord, group)
	}
	cl.mu.Unlock()
}

// onceGroup sends one request to the group's coordinator. code extracts the error code of the answer.
func (cl *Cluster) onceGroup(group string, req kmsg.Request, code func(kmsg.Response) int16) (kmsg.Response, string, error) {
	a, err := cl.coordAddr(group)
	if err != nil {
		return nil, "", err
	}
	c, err := cl.conn(a)
	if err != nil {
		cl.forgetAddr(group, a)
		return nil, a, err
	}
	r, err := c.Do(req, cl.timeout)
	if err != nil {
		cl.forgetAddr(group, a)
		return nil, a, err
	}
	if k := code(r); retriableCoord(k) {
		if k != errCoordLoading {
			cl.forgetAddr(group, a)
		}
		return r, a, fmt.Errorf("coordinator error %d", k)
	}
	return r, a, nil
}

// doGroup retries onceGroup over coordinator moves until the deadline.
func (cl *Cluster) doGroup(group string, req kmsg.Request, code func(kmsg.Response) int16, wait time.Duration) (kmsg.Response, error) {
	end := time.Now().Add(wait)
	for {
		r, _, err := cl.onceGroup(group, req, code)
		if err == nil {
			return r, nil
		}
		if time.Now().After(end) {
			return nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (cl *Cluster) metadata(topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	r, err := cl.tryAny(req)
	if err != nil {
		return nil, err
	}
	return r.(*kmsg.MetadataResponse), nil
}

// createTopic makes a topic where it is missing and waits until every partition has a leader.
func (cl *Cluster) createTopic(name string, parts int, rf int16) error {
	if cl.admin != "" {
		return newCluster(cl.admin).createTopic(name, parts, rf)
	}
	if md, err := cl.metadata(name); err == nil && len(md.Topics) == 1 && md.Topics[0].ErrorCode == 0 && len(md.Topics[0].Partitions) == parts {
		return nil
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(parts), rf
	req.Topics = append(req.Topics, t)
	old := cl.timeout
	cl.timeout = 90 * time.Second
	r, err := cl.tryAny(req)
	cl.timeout = old
	if err != nil {
		return err
	}
	tr := r.(*kmsg.CreateTopicsResponse).Topics[0]
	if tr.ErrorCode != 0 && tr.ErrorCode != errTopicExists {
		m := ""
		if tr.ErrorMessage != nil {
			m = *tr.ErrorMessage
		}
		return fmt.Errorf("create %s: %d %s", name, tr.ErrorCode, m)
	}
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		md, err := cl.metadata(name)
		if err != nil || len(md.Topics) != 1 || md.Topics[0].ErrorCode != 0 || len(md.Topics[0].Partitions) != parts {
			continue
		}
		ok := true
		for _, p := range md.Topics[0].Partitions {
			ok = ok && p.ErrorCode == 0 && p.Leader >= 0
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("topic %s has no leaders after 90s", name)
}

// quorumLeader is the metadata quorum's leader node, or -1 where the server does not tell.
func (cl *Cluster) quorumLeader() int32 {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	r, err := cl.tryAny(req)
	if err != nil {
		return -1
	}
	q := r.(*kmsg.DescribeQuorumResponse)
	if q.ErrorCode != 0 || len(q.Topics) == 0 || len(q.Topics[0].Partitions) == 0 {
		return -1
	}
	return q.Topics[0].Partitions[0].LeaderID
}

// describe returns the streams groups, asked at their coordinators.
func (cl *Cluster) describe(groups []string) (map[string]kmsg.StreamsGroupDescribeResponseGroup, error) {
	by := map[string][]string{}
	for _, g := range groups {
		a, err := cl.coordAddr(g)
		if err != nil {
			return nil, err
		}
		by[a] = append(by[a], g)
	}
	out := map[string]kmsg.StreamsGroupDescribeResponseGroup{}
	for a, gs := range by {
		c, err := cl.conn(a)
		if err != nil {
			return nil, err
		}
		for len(gs) > 0 {
			n := min(len(gs), 100)
			req := kmsg.NewPtrStreamsGroupDescribeRequest()
			req.Groups = gs[:n]
			gs = gs[n:]
			r, err := c.Do(req, 30*time.Second)
			if err != nil {
				return nil, err
			}
			for _, g := range r.(*kmsg.StreamsGroupDescribeResponse).Groups {
				if retriableCoord(g.ErrorCode) {
					cl.forgetAddr(g.Group, a)
				}
				out[g.Group] = g
			}
		}
	}
	return out, nil
}

func (cl *Cluster) spread(groups []string) map[int32]int {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	m := map[int32]int{}
	for _, g := range groups {
		m[cl.nodes[cl.coord[g]]]++
	}
	return m
}

func (cl *Cluster) nodeOf(group string) int32 {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.nodes[cl.coord[group]]
}

func sortedKeys[V any](m map[string]V) []string {
	k := make([]string, 0, len(m))
	for s := range m {
		k = append(k, s)
	}
	sort.Strings(k)
	return k
}
