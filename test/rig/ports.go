package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are handed out below the range that Linux and macOS take for outgoing connections, so that nobody gets one
// between the moment it is found free and the moment it is bound.
const (
	firstPort = 12000
	lastPort  = 32000
)

var ports struct {
	sync.Mutex
	taken map[int]bool
}

// FreePorts returns the first of n consecutive ports that are free on 127.0.0.1 and were not handed out before.
func FreePorts(n int) (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.taken == nil {
		ports.taken = map[int]bool{}
	}
	for range 500 {
		base := firstPort + rand.IntN(lastPort-firstPort-n)
		if !allFree(base, n) {
			continue
		}
		for i := range n {
			ports.taken[base+i] = true
		}
		return base, nil
	}
	return 0, fmt.Errorf("no %d consecutive free ports between %d and %d", n, firstPort, lastPort)
}

// DevPorts returns the admin port and the client port of the first of three nodes in one process, over an upstream of at most
// three brokers. The admin ports lie below all others: from the client ports on, many stand for upstream brokers.
func DevPorts() (admin, client int, err error) {
	const nodes, brokers = 3, 3
	admin, err = FreePorts(2*nodes + nodes*brokers)
	return admin, admin + nodes, err
}

func allFree(base, n int) bool {
	for i := range n {
		if ports.taken[base+i] {
			return false
		}
		l, err := net.Listen("tcp", Local(base+i))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// Local is the address of a port on this machine.
func Local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
