package protocol

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// API keys that code outside of the table names.
const (
	KeyProduce                 int16 = 0
	KeyFetch                   int16 = 1
	KeyMetadata                int16 = 3
	KeyControlledShutdown      int16 = 7
	KeyOffsetCommit            int16 = 8
	KeyOffsetFetch             int16 = 9
	KeyFindCoordinator         int16 = 10
	KeyJoinGroup               int16 = 11
	KeyHeartbeat               int16 = 12
	KeyLeaveGroup              int16 = 13
	KeySyncGroup               int16 = 14
	KeyDescribeGroups          int16 = 15
	KeyListGroups              int16 = 16
	KeySaslHandshake           int16 = 17
	KeyApiVersions             int16 = 18
	KeyTxnOffsetCommit         int16 = 28
	KeyDescribeConfigs         int16 = 32
	KeyAlterConfigs            int16 = 33
	KeySaslAuthenticate        int16 = 36
	KeyDeleteGroups            int16 = 42
	KeyIncrementalAlterConfigs int16 = 44
	KeyOffsetDelete            int16 = 47
	KeyDescribeCluster         int16 = 60
	KeyConsumerGroupHeartbeat  int16 = 68
	KeyConsumerGroupDescribe   int16 = 69
	KeyShareGroupHeartbeat     int16 = 76
	KeyShareGroupDescribe      int16 = 77
	KeyShareFetch              int16 = 78
	KeyShareAcknowledge        int16 = 79
	KeyStreamsGroupHeartbeat   int16 = 88
	KeyStreamsGroupDescribe    int16 = 89

	keyListConfigResources       int16 = 74
	keyDescribeShareGroupOffsets int16 = 90
	keyAlterShareGroupOffsets    int16 = 91
	keyDeleteShareGroupOffsets   int16 = 92
)

// MaxRequestSize is the largest request frame that a broker takes by default (socket.request.max.bytes), in bytes.
const MaxRequestSize = 100 << 20

// Header is a request header (RequestHeader.json v1 and v2). ClientID aliases the frame; null and empty are the same.
type Header struct {
	Key         int16
	Version     int16
	Correlation int32
	ClientID    string
}

// firstFlexible holds for each key the first version with tagged fields, as kmsg has them.
var firstFlexible = probeFlexible()

func probeFlexible() []int16 {
	first := make([]int16, kmsg.MaxKey+1)
	for key := range first {
		first[key] = 1<<15 - 1
		req := kmsg.RequestForKey(int16(key))
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			if req.SetVersion(v); req.IsFlexible() {
				first[key] = v
				break
			}
		}
	}
	return first
}

// Flexible says whether requests of this key and version have tagged fields (KIP-482). Unknown keys have none.
func Flexible(key, version int16) bool {
	return key >= 0 && int(key) < len(firstFlexible) && version >= firstFlexible[key]
}

// ParseHeader splits a frame, without its length prefix, into header and body. An unknown key or version is no error
// (see [Supported]); the body of such a request is meaningless.
func ParseHeader(frame []byte) (Header, []byte, error) {
	r := reader{src: frame}
	h := Header{Key: r.int16(), Version: r.int16(), Correlation: r.int32()}
	if h.Key == KeyControlledShutdown && h.Version == 0 {
		return h, r.src, r.err() // the one request with a v0 header, which ends here
	}
	if n := r.int16(); n >= 0 {
		h.ClientID = alias(r.span(int(n)))
	}
	if Flexible(h.Key, h.Version) {
		r.tags()
	}
	return h, r.src, r.err()
}

// BeginFrame appends room for a length prefix. [EndFrame] takes the position that it returns.
func BeginFrame(dst []byte) ([]byte, int) {
	return append(dst, 0, 0, 0, 0), len(dst)
}

// EndFrame writes the length of the frame begun at start.
func EndFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// AppendResponseHeader appends the header of the answer to a request of this key and version: v1 where the request is
// flexible, except for ApiVersions, whose answer must be readable before the client knows what the broker speaks.
func AppendResponseHeader(dst []byte, key, version int16, correlation int32) []byte {
	dst = appendInt32(dst, correlation)
	if Flexible(key, version) && key != KeyApiVersions {
		dst = append(dst, 0)
	}
	return dst
}

// AppendResponse appends the whole frame of an answer, length prefix included; resp is encoded in the version of the
// request.
func AppendResponse(dst []byte, h Header, resp kmsg.Response) []byte {
	dst, start := BeginFrame(dst)
	dst = AppendResponseHeader(dst, h.Key, h.Version, h.Correlation)
	resp.SetVersion(h.Version)
	return EndFrame(resp.AppendTo(dst), start)
}

// ResponseBody returns what follows the header of an answer frame (without length prefix) to a request of this key and
// version.
func ResponseBody(key, version int16, frame []byte) (correlation int32, body []byte, err error) {
	r := reader{src: frame}
	correlation = r.int32()
	if Flexible(key, version) && key != KeyApiVersions {
		r.tags()
	}
	return correlation, r.src, r.err()
}
