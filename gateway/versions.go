package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// Versions are what an upstream broker serves.
type Versions struct {
	Ranges []protocol.VersionRange
	// Features are the feature levels; nil where the broker has none.
	Features *protocol.Features
}

const (
	// holdVersions is how long an answer to ApiVersions waits while nothing at all is known of the upstream.
	holdVersions = 3 * time.Second
	// staleAfter is how long a broker may take before what is known of old is told.
	staleAfter = time.Second
	// askAgain is the pause after a question that failed.
	askAgain = 100 * time.Millisecond
	// freshVersions is how long an answer is believed while the broker does not end the connection: finalized features
	// change without a restart.
	freshVersions = 30 * time.Second
)

var errVersions = errors.New("upstream broker does not answer ApiVersions")

// versionCache knows what each upstream broker serves. A client takes a key that is not listed for one that will never
// be (UnsupportedVersionException ends an application), so that a list is told only when some broker of the upstream
// gave it once: the broker in question, now or earlier, or else another one. A broker is asked over a connection of the
// gateway's own, without the ids that a client expects (KIP-1242).
type versionCache struct {
	g     *Gateway
	fixed *Versions
	file  versionFile
	hold  time.Duration
	fresh time.Duration
	born  time.Time

	mu      sync.Mutex
	brokers map[int32]*brokerVersions
	news    chan struct{} // closed when a question is answered or has failed
	saving  bool
	unsaved bool
}

// brokerVersions is what is known of one broker.
type brokerVersions struct {
	known   *Versions // nil before the first answer; immutable
	cluster string    // the cluster that it was a broker of; empty when that was not known
	addr    string    // where it was asked
	at      time.Time
	nc      net.Conn // over which it was asked; nil when that has ended
	asking  bool
	since   time.Time // when the question that runs was asked
	failed  time.Time // when the last question failed
}

func (v *versionCache) init(g *Gateway) {
	v.g, v.fixed = g, g.cfg.Versions
	v.brokers, v.news = map[int32]*brokerVersions{}, make(chan struct{})
	v.hold, v.fresh, v.born = holdVersions, freshVersions, time.Now()
	if g.cfg.holdVersions > 0 {
		v.hold = g.cfg.holdVersions
	}
	if g.cfg.freshVersions > 0 {
		v.fresh = g.cfg.freshVersions
	}
	if g.cfg.StateDir == "" || v.fixed != nil {
		return
	}
	v.file = versionFileIn(g.cfg.StateDir)
	kept, err := v.file.read()
	if err != nil {
		g.log.note("versions file", "cannot read what the upstream served before", "error", err)
	}
	for id, k := range kept {
		v.brokers[id] = &k
	}
}

// get returns what a broker serves: what it says now, else what it said before, else what another broker of the upstream
// said. It waits for the first answer of any of them, and gives up when there is none, or when gone is closed.
func (v *versionCache) get(broker int32, gone <-chan struct{}) (*Versions, error) {
	start := time.Now()
	for {
		changed := v.g.cluster.Changed()
		best, wait, news := v.look(broker, start)
		if wait <= 0 {
			if best == nil {
				return nil, errVersions
			}
			return best, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-news:
		case <-changed:
		case <-timer.C:
		case <-gone:
			timer.Stop()
			return nil, errClosed
		case <-v.g.ctx.Done():
			timer.Stop()
			return nil, errClosed
		}
		timer.Stop()
	}
}

// latest returns the best that is known of a broker without waiting; nil for nothing.
func (v *versionCache) latest(broker int32) *Versions {
	best, _, _ := v.look(broker, time.Now())
	return best
}

// look has asked whoever is to be asked, and returns the best that is known and how long to wait for better, at most;
// news is closed before when there is something new.
func (v *versionCache) look(broker int32, start time.Time) (best *Versions, wait time.Duration, news <-chan struct{}) {
	if v.fixed != nil {
		return v.fixed, 0, nil
	}
	image := v.g.cluster.Image()
	v.mu.Lock()
	defer v.mu.Unlock()
	news = v.news
	now := time.Now()
	own := v.brokers[broker]
	if v.isFresh(broker, own, now, start) {
		return own.known, 0, news
	}
	v.ask(broker, now)
	best = v.best(broker, image)
	own = v.brokers[broker]
	switch {
	case best == nil:
		if image != nil {
			for _, b := range image.Brokers() {
				v.ask(b.ID, now)
			}
		}
		return nil, min(v.hold-now.Sub(start), askAgain), news
	case own != nil && own.asking:
		return best, staleAfter - now.Sub(own.since), news
	case image == nil:
		return best, staleAfter - now.Sub(v.born), news // the upstream may have changed while this node was away
	}
	return best, 0, news
}

// isFresh says whether a broker need not be asked: it has answered since start, or lately and the connection stands. v.mu
// is held.
func (v *versionCache) isFresh(broker int32, b *brokerVersions, now, start time.Time) bool {
	if b == nil || b.known == nil {
		return false
	}
	if addr, ok := v.g.brokerAddress(broker); !ok || addr != b.addr {
		return false
	}
	return b.at.After(start) || b.nc != nil && now.Sub(b.at) < v.fresh
}

// best is the last that is known of a broker, else of the other one that served most, of the cluster that the upstream
// is now. v.mu is held.
func (v *versionCache) best(broker int32, image Image) *Versions {
	usable := func(b *brokerVersions) bool {
		if b == nil || b.known == nil {
			return false
		}
		return image == nil || b.cluster == "" || image.ClusterID() == "" || b.cluster == image.ClusterID()
	}
	if b := v.brokers[broker]; usable(b) {
		return b.known
	}
	var best *Versions
	var from int32
	for id, b := range v.brokers {
		if !usable(b) {
			continue
		}
		if best == nil || len(b.known.Ranges) > len(best.Ranges) || len(b.known.Ranges) == len(best.Ranges) && id < from {
			best, from = b.known, id
		}
	}
	return best
}

// prefetch asks all brokers of the image that have not been asked lately, so that the answers are there before clients
// need them.
func (v *versionCache) prefetch() {
	image := v.g.cluster.Image()
	if image == nil || v.fixed != nil {
		return
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range image.Brokers() {
		if !v.isFresh(b.ID, v.brokers[b.ID], now, now) {
			v.ask(b.ID, now)
		}
	}
}

// ask starts a question to a broker unless one runs, has just failed, or the broker is not there. v.mu is held.
func (v *versionCache) ask(broker int32, now time.Time) {
	addr, ok := v.g.brokerAddress(broker)
	if !ok {
		v.g.cluster.RefreshImage()
		return
	}
	b := v.brokers[broker]
	if b == nil {
		b = &brokerVersions{}
		v.brokers[broker] = b
	}
	if b.asking || now.Sub(b.failed) < askAgain {
		return
	}
	b.asking, b.since = true, now
	cluster := v.g.cluster.Image().ClusterID()
	v.g.run(func() { v.question(broker, b, addr, cluster) })
}

func (v *versionCache) question(broker int32, b *brokerVersions, addr, cluster string) {
	nc, err := v.g.dialBroker(broker)
	var got *Versions
	if err == nil {
		got, err = askVersions(v.g.ctx, nc)
	}
	v.mu.Lock()
	b.asking = false
	var old net.Conn
	if err == nil {
		old = b.nc
		b.known, b.cluster, b.addr, b.at, b.nc = got, cluster, addr, time.Now(), nc
	} else {
		b.failed = time.Now()
	}
	close(v.news)
	v.news = make(chan struct{})
	v.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	if err != nil {
		if nc != nil {
			_ = nc.Close()
		}
		return
	}
	v.save()
	v.watch(nc, b)
}

// watch waits for the end of the connection over which a broker was asked: after it the broker may be another version.
func (v *versionCache) watch(nc net.Conn, b *brokerVersions) {
	stop := closeWith(v.g.ctx, nc)
	var one [1]byte
	_, _ = nc.Read(one[:])
	stop()
	_ = nc.Close()
	v.mu.Lock()
	if b.nc == nc {
		b.nc = nil
	}
	v.mu.Unlock()
}

// save writes down what is known, for a start while the upstream is away. One goroutine writes at a time.
func (v *versionCache) save() {
	if v.file == "" {
		return
	}
	v.mu.Lock()
	v.unsaved = true
	if v.saving {
		v.mu.Unlock()
		return
	}
	v.saving = true
	for v.unsaved {
		v.unsaved = false
		kept := v.worthKeeping()
		v.mu.Unlock()
		if err := v.file.write(kept); err != nil {
			v.g.log.note("versions file", "cannot write down what the upstream serves", "error", err)
		}
		v.mu.Lock()
	}
	v.saving = false
	v.mu.Unlock()
}

// worthKeeping are the brokers that have a slot or are in the image. v.mu is held.
func (v *versionCache) worthKeeping() map[int32]brokerVersions {
	kept := map[int32]brokerVersions{}
	keep := func(id int32) {
		if b := v.brokers[id]; b != nil && b.known != nil {
			kept[id] = brokerVersions{known: b.known, cluster: b.cluster}
		}
	}
	for _, s := range v.g.cluster.Slots() {
		keep(s.Broker)
	}
	if image := v.g.cluster.Image(); image != nil {
		for _, b := range image.Brokers() {
			keep(b.ID)
		}
	}
	return kept
}

// askVersions asks a broker what it serves, in the version that both know: a broker that does not know ours says which
// it does.
func askVersions(ctx context.Context, nc net.Conn) (*Versions, error) {
	defer closeWith(ctx, nc)()
	_ = nc.SetDeadline(deadlineIn(dialTimeout))
	const newest = 4 // v5 would carry the ids that the broker checks
	got, code, err := exchangeVersions(nc, newest)
	if err == nil && code == coordinator.UnsupportedVersion {
		version := int16(0)
		for _, r := range got.Ranges {
			if r.Key == protocol.KeyApiVersions {
				version = min(r.Max, newest)
			}
		}
		got, code, err = exchangeVersions(nc, version)
	}
	if err == nil && (code != coordinator.None || len(got.Ranges) == 0) {
		err = errVersions
	}
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(noDeadline)
	return got, nil
}

func exchangeVersions(nc net.Conn, version int16) (*Versions, coordinator.Code, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = version
	req.ClientSoftwareName, req.ClientSoftwareVersion = "coordd", "1"
	h := protocol.Header{Key: protocol.KeyApiVersions, Version: version, ClientID: "coordd"}
	if _, err := nc.Write(appendFrame(nil, h, req.AppendTo(nil))); err != nil {
		return nil, 0, err
	}
	var prefix [4]byte
	answer, err := readGrowing(nc, prefix[:0], 4)
	if err != nil {
		return nil, 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(answer)))
	if size < 4 || size > 1<<20 {
		return nil, 0, errVersions
	}
	if answer, err = readGrowing(nc, nil, size); err != nil {
		return nil, 0, err
	}
	if size >= 6 && binary.BigEndian.Uint16(answer[4:]) == uint16(coordinator.UnsupportedVersion) {
		version = 0
	}
	_, body, err := protocol.ResponseBody(protocol.KeyApiVersions, version, answer)
	if err != nil {
		return nil, 0, err
	}
	code, ranges, features, err := protocol.ReadApiVersionsResponse(version, body)
	return &Versions{Ranges: ranges, Features: features}, code, err
}
