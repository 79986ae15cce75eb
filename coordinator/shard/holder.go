package shard

import "sync/atomic"

// Holder is a client connection over which answers to heartbeats may be held: what its gateway and the machines of
// shards tell each other about it without locks. Heartbeats of a connection are numbered, ascending from 1; at most the
// last one may be held, since answers keep their order.
type Holder struct {
	// ID names the connection among all of this node.
	ID uint64

	released atomic.Uint64 // all heartbeats up to this number are to be answered
	held     atomic.Uint64 // the heartbeat that is held; 0: none
	gone     atomic.Bool   // its client has ended the connection
	ended    atomic.Bool   // the connection has ended, by whomever
}

// NewHolder makes a Holder; id is not used for another connection of the node.
func NewHolder(id uint64) *Holder { return &Holder{ID: id} }

// Release says that heartbeats up to the number must be answered. true means that one is held and that its machine is to
// be told by [Machine.LetGo]; the heartbeat itself must have been submitted before.
func (h *Holder) Release(number uint64) bool {
	h.released.Store(number)
	held := h.held.Load()
	return held != 0 && held <= number
}

// Begin marks a heartbeat as held, unless it is released already: whoever of the two comes second sees the other. Where
// another shard holds a later one, this one is released, and must not take the later one's place.
func (h *Holder) Begin(number uint64) bool {
	for held := h.held.Load(); held <= number; held = h.held.Load() {
		if h.held.CompareAndSwap(held, number) {
			return h.unlessReleased(number)
		}
	}
	return false
}

func (h *Holder) unlessReleased(number uint64) bool {
	if h.released.Load() < number {
		return true
	}
	h.End(number)
	return false
}

// End says that a heartbeat is not held any more.
func (h *Holder) End(number uint64) { h.held.CompareAndSwap(number, 0) }
