package gateway

import (
	"encoding/binary"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/protocol"
)

// Beginnings of a slot that say more than a time: somebody else answers it, who counts it himself; or its answer is held
// back, here or at another node, so that its time says nothing of ours.
const (
	notOurs  time.Duration = -1
	heldBack time.Duration = -2
)

// now is the time since the gateway was made.
func (g *Gateway) now() time.Duration { return time.Since(g.made) }

// count counts an answer. c.mu is held. Heartbeats that are answered while the reader works on what it read are counted
// together, so that the clock is looked at twice for all of them: see settle.
func (c *conn) count(s *slot) {
	switch {
	case s.began == notOurs:
	case s.began == heldBack:
		c.g.metrics.answers.untimed(s.h.Key, s.code)
	case s.code != coordinator.None:
		c.g.metrics.answers.failed(s.h.Key, s.code, c.g.now()-s.began)
	case c.reading && s.began == c.began && s.h.Key == protocol.KeyStreamsGroupHeartbeat:
		c.beats++
	default:
		c.g.metrics.answers.done(s.h.Key, c.g.now()-s.began, 1)
	}
}

// settle counts the heartbeats that were answered since the reader began. c.mu is held.
func (c *conn) settle() {
	if c.beats > 0 {
		c.g.metrics.answers.done(protocol.KeyStreamsGroupHeartbeat, c.g.now()-c.began, c.beats)
		c.beats = 0
	}
}

// codeIn is the first error code in an answer frame.
func codeIn(h protocol.Header, answer []byte) coordinator.Code {
	if h.Key == protocol.KeyStreamsGroupHeartbeat {
		if len(answer) < heartbeatCodeAt+2 {
			return coordinator.None
		}
		return coordinator.Code(binary.BigEndian.Uint16(answer[heartbeatCodeAt:]))
	}
	_, body, err := protocol.ResponseBody(h.Key, h.Version, answer[4:])
	if err != nil {
		return coordinator.None
	}
	resp := kmsg.ResponseForKey(h.Key)
	resp.SetVersion(h.Version)
	if resp.ReadFrom(body) != nil {
		return coordinator.None
	}
	return codeOf(resp)
}

// codeOf is the first error code in a response, from the top down.
func codeOf(resp kmsg.Response) coordinator.Code {
	return coordinator.Code(firstCode(reflect.ValueOf(resp).Elem()))
}

func firstCode(v reflect.Value) int16 {
	if code := v.FieldByName("ErrorCode"); code.IsValid() && code.Kind() == reflect.Int16 && code.Int() != 0 {
		return int16(code.Int())
	}
	for i := range v.NumField() {
		list := v.Field(i)
		if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for j := range list.Len() {
			if code := firstCode(list.Index(j)); code != 0 {
				return code
			}
		}
	}
	return 0
}
