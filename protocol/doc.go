// Package protocol owns Kafka's wire format on the client side: frames and headers, the table of API keys with what the
// gateway does for each, ApiVersions, and one file for each API that is answered here. It translates between bytes and
// the requests and responses of the coordinator packages; kmsg does the layouts, except for the heartbeat, which is
// decoded and encoded by hand because it is nearly all of the traffic.
//
// Decoders take foreign bytes: they never panic and allocate at most in proportion to the size of the body. What they
// return may alias the frame, see each decoder.
//
// It must not know sockets, routing, groups' state, or where a request is going to be answered.
package protocol
