package gateway

import (
	"errors"
	"time"
)

const (
	// viewPatience is how long an answer with addresses waits until there are any.
	viewPatience = 3 * time.Second
	// wholePatience is how long it waits for the ports of upstream brokers that are not numbered yet.
	wholePatience = 500 * time.Millisecond
)

var errNoView = errors.New("the nodes and the upstream's brokers are not known yet")

// awaitView waits until the addresses are known that an answer needs: after a start the nodes and the numbers of the
// upstream's brokers come with the system shard, and the brokers with the image. A client that is told of no brokers, or
// of part of them, looks for leaders and coordinators in vain. Brokers that stay without a number are left out of
// answers; without any address the client's connection ends, as if the node were away.
func (c *conn) awaitView() error {
	usable, whole := c.g.view()
	if whole || usable && c.g.stillPartial() {
		return nil
	}
	var err error
	c.blocking(func() { err = c.g.awaitView(c.done) })
	if err == errNoView {
		c.g.log.note("view", "closing a connection: nodes or upstream brokers are not known", "client", c.client.Host)
	}
	return err
}

func (g *Gateway) awaitView(gone <-chan struct{}) error {
	start := time.Now()
	g.cluster.RefreshImage()
	for {
		changed := g.cluster.Changed()
		usable, whole := g.view()
		if whole {
			return nil
		}
		patience := g.cfg.viewPatience
		if usable {
			patience = min(patience, wholePatience)
		}
		left := patience - time.Since(start)
		if left <= 0 {
			if !usable {
				return errNoView
			}
			g.partial.Store(&changed)
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-gone:
			timer.Stop()
			return errClosed
		case <-g.ctx.Done():
			timer.Stop()
			return errClosed
		}
		timer.Stop()
	}
}

// view says whether there are nodes and brokers to tell clients of, and whether those are all brokers.
func (g *Gateway) view() (usable, whole bool) {
	image := g.cluster.Image()
	if image == nil || len(g.live()) == 0 {
		return false, false
	}
	slots := g.cluster.Slots()
	numbered := 0
	for _, b := range image.Brokers() {
		for _, s := range slots {
			if s.Broker == b.ID {
				numbered++
				break
			}
		}
	}
	return numbered > 0, numbered > 0 && numbered == len(image.Brokers())
}

// stillPartial says that brokers without a number were waited for in vain and nothing has changed since.
func (g *Gateway) stillPartial() bool {
	p := g.partial.Load()
	if p == nil {
		return false
	}
	select {
	case <-*p:
		return false
	default:
		return true
	}
}
