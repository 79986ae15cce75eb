// Package gateway makes a node of coordd look like a Kafka cluster: it owns the client connections, the routing of every
// request (here, to another node, to the upstream), the splicing of payloads and the rewriting of broker addresses. A
// [Gateway] serves one node: its own port, one port for each upstream broker, and the inner hop from the other nodes.
//
// It must not know Raft, how groups are kept or decided, settings files, or how the topic image is obtained: the server
// gives it [Coordinators] and [Cluster].
package gateway
