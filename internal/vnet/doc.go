// Package vnet is a network in memory for tests, above all for those in virtual time (testing/synctest): named hosts,
// buffered stream connections with deadlines, latency, and the faults of real networks. A cut link is a black hole:
// what is written is held back and arrives when the link heals, as TCP would repeat it; nobody is told. A refused link
// resets connections and refuses new ones. A closed host resets all it had.
//
// It must not know what runs on it. It uses no real time but what the time package gives.
package vnet
