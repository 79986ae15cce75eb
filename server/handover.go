package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coordd/coordd/coordinator/shard"
	"github.com/coordd/coordd/raftnode"
)

// The hand-over protocol between nodes (kind 'T' of the raft port): before a planned transfer the leader of a shard sends
// what only it knows of its groups. A connection carries one hand-over:
//
//	shard   uint32, big-endian
//	term    uint64, in which the sender leads
//	length  uint32, at most shard.MaxHandover
//	content as shard.Machine.HandOver makes it
//
// and is answered with one byte when the content was taken.
const kindHandover byte = 'T'

const (
	handoverHeader = 16
	handoverTaken  = 1
	// handoverPatience bounds the reading of a hand-over, and handoverAge for how long one counts.
	handoverPatience = 2 * time.Second
	handoverAge      = 10 * time.Second
	servingPoll      = 2 * time.Millisecond
)

var _ raftnode.Mover = (*runner)(nil)

// handover is what another node handed over, and when it came.
type handover struct {
	term    uint64
	at      int64
	content []byte
}

// Pause implements raftnode.Mover.
func (r *runner) Pause() { r.post(input{kind: inputPause}) }

// Resume implements raftnode.Mover.
func (r *runner) Resume() { r.post(input{kind: inputResume}) }

// HandOver implements raftnode.Mover. A leader that was elected a moment ago may not have begun to serve: what it was
// handed over itself goes on to the next one only through its machine.
func (r *runner) HandOver(ctx context.Context, to int32, term uint64) {
	if !r.awaitServing(ctx, term) {
		return
	}
	made := make(chan []byte, 1)
	r.post(input{kind: inputPause})
	r.post(input{kind: inputHandOver, any: made})
	select {
	case content := <-made:
		if err := r.send(ctx, to, term, content); err != nil {
			r.node.log.Info("soft state not handed over; the next leader starts anew", "shard", r.number, "to", to, "error", err)
		}
	case <-ctx.Done():
	}
}

// awaitServing waits until the machine leads in the term.
func (r *runner) awaitServing(ctx context.Context, term uint64) bool {
	tick := time.NewTicker(servingPoll)
	defer tick.Stop()
	for r.serving.Load() != term {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func (r *runner) send(ctx context.Context, to int32, term uint64, content []byte) error {
	conn, err := r.node.raft.DialPeer(ctx, to, kindHandover)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	b := make([]byte, 0, handoverHeader+len(content))
	b = binary.BigEndian.AppendUint32(b, r.number)
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint32(b, uint32(len(content)))
	if _, err := conn.Write(append(b, content...)); err != nil {
		return err
	}
	var taken [1]byte
	if _, err := io.ReadFull(conn, taken[:]); err != nil {
		return err
	}
	if taken[0] != handoverTaken {
		return fmt.Errorf("answered %d", taken[0])
	}
	return nil
}

// acceptHandovers serves other nodes until the listener is closed.
func (n *Node) acceptHandovers(ctx context.Context, ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		n.run(func() {
			defer func() { _ = conn.Close() }()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			n.takeHandover(conn)
		})
	}
}

// takeHandover reads one hand-over and keeps it for the election that is to follow; the last one of a shard counts. Memory
// is taken only as content arrives.
func (n *Node) takeHandover(conn net.Conn) {
	if conn.SetDeadline(time.Now().Add(handoverPatience)) != nil {
		return
	}
	var header [handoverHeader]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return
	}
	number, size := binary.BigEndian.Uint32(header[:]), binary.BigEndian.Uint32(header[12:])
	if int64(number) >= int64(len(n.shards)) || size > shard.MaxHandover {
		n.log.Warn("refused a hand-over of soft state", "shard", number, "bytes", size, "remote", conn.RemoteAddr())
		return
	}
	content, err := io.ReadAll(io.LimitReader(conn, int64(size)))
	if err != nil || len(content) != int(size) {
		return
	}
	n.shards[number].handed.Store(&handover{term: binary.BigEndian.Uint64(header[4:]), at: n.clock.now(), content: content})
	_, _ = conn.Write([]byte{handoverTaken}) // a sender that is gone needs no answer
}

// inherit gives the machine what the leader before handed over, if it was the one that asked this node to lead.
func (r *runner) inherit(c raftnode.Elected) {
	h := r.handed.Swap(nil)
	if h == nil || !c.Planned || h.term+1 != c.Term || r.node.clock.now()-h.at > handoverAge.Milliseconds() {
		return
	}
	r.post(input{kind: inputInherit, at: h.at, any: h.content})
}

// inherited is the machine's part of inherit.
func (r *runner) inherited(at int64, content []byte) {
	if err := r.machine.Inherit(at, content); err != nil {
		r.node.log.Warn("the soft state that was handed over cannot be read; starting anew", "shard", r.number, "error", err)
	}
}
