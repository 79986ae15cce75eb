package protocol

import "slices"

// singleGroup are the keys whose requests are about one group, named by the first field of the body.
var singleGroup = []int16{
	KeyOffsetCommit, KeyOffsetFetch, KeyJoinGroup, KeyHeartbeat, KeyLeaveGroup, KeySyncGroup, KeyOffsetDelete,
	KeyConsumerGroupHeartbeat, KeyShareGroupHeartbeat, KeyStreamsGroupHeartbeat,
	keyAlterShareGroupOffsets, keyDeleteShareGroupOffsets,
}

// GroupID reads the group id of a request that is about one group, without decoding the rest; it aliases the body. ok is
// false for other requests (those that carry a list of groups among them: OffsetFetch from v8) and for bytes that do
// not reach to the id.
func GroupID(key, version int16, body []byte) (id string, ok bool) {
	r := reader{src: body}
	switch {
	case key == KeyOffsetFetch && version >= 8:
		return "", false
	case key == KeyTxnOffsetCommit:
		r.string(Flexible(key, version)) // the transactional id
	case !slices.Contains(singleGroup, key):
		return "", false
	}
	id = r.string(Flexible(key, version))
	return id, !r.bad
}

// string reads a string that aliases the body, in either encoding.
func (r *reader) string(flexible bool) string {
	if flexible {
		return r.compactString()
	}
	return alias(r.span(int(r.int16())))
}
