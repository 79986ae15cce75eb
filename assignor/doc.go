// Package assignor owns the assignment of tasks to members: pure functions from a specification to an assignment; the
// same input gives the same output on any node.
//
// It must not know sockets, disks, clocks, random numbers, loggers, or how a group is stored.
//
// Start at sticky.go, whose solveSticky is the list of its steps; DESIGN.md has the reasons. The files:
//
//   - assignor.go, offsets.go: input and output; stale.go: the assignment in which everybody keeps what it has
//   - problem.go, scratch.go: the input in dense integers; solution.go, pool.go, turns.go: a placement that grows, and who is least loaded
//   - sticky.go, stickyactive.go, stickymatch.go, stickyexchange.go, flow.go: active tasks, by a flow to the state that exists
//   - stickystandby.go, stickyshare.go, stickymoved.go, stickypartner.go, stickylevel.go: standbys, how many each process gets, which, and what is left
//   - racktags.go, rackstandby.go, rackbalance.go, rackheap.go: copies apart by tags; rackleaders.go: active tasks near leaders
//   - highlyavailable.go, refine.go, refineclaim.go, refinestate.go, refineresult.go, warmups.go: the sticky assignment, refined by warm-ups
//   - auto.go: the choice between the two
package assignor
