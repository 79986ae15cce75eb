package server

import "sync"

// owner lets one goroutine at a time step a shard. There is no goroutine that waits for inputs: whoever posts an input
// while nobody owns the shard becomes its owner and steps until the inbox is empty, so that a steady heartbeat is
// answered without a switch of goroutines; others leave their input and go on.
type owner struct {
	step  func(input)
	flush func()

	mu     sync.Mutex
	inbox  []input
	spare  []input
	owned  bool
	closed bool
}

// handOver is how many inputs a goroutine steps before it hands the shard to a fresh one and returns to its own work.
const handOver = 512

// post leaves an input. It never blocks; the input may be stepped before it returns.
func (o *owner) post(in input) {
	o.mu.Lock()
	if o.closed && in.kind != inputLost {
		o.mu.Unlock()
		in.drop()
		return
	}
	o.inbox = append(o.inbox, in)
	if o.owned {
		o.mu.Unlock()
		return
	}
	o.owned = true
	o.mu.Unlock()
	o.run()
}

// run steps until the inbox is empty. The caller owns the shard.
func (o *owner) run() {
	for done := 0; ; {
		o.mu.Lock()
		if len(o.inbox) == 0 {
			o.owned = false
			o.mu.Unlock()
			return
		}
		if done >= handOver {
			o.mu.Unlock()
			go o.run()
			return
		}
		inputs := o.inbox
		o.inbox, o.spare = o.spare[:0], nil
		o.mu.Unlock()
		for i := range inputs {
			o.step(inputs[i])
			inputs[i] = input{}
		}
		o.flush()
		done += len(inputs)
		o.mu.Lock()
		if cap(inputs) <= 1024 {
			o.spare = inputs[:0]
		}
		o.mu.Unlock()
	}
}

// close refuses all later inputs.
func (o *owner) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
}
