// Package differential plays random scripts of requests of Kafka Streams groups (KIP-1071) on two servers, Apache Kafka and
// coordd, one step at a time, and compares every answer.
//
// It owns the generator of scripts (each from a seed), the rules that say where coordd answers something else on purpose and
// what it promises there (docs/differences.md), and the minimiser that makes a failing script short. Scripts are scenarios of
// test/conformance, whose client plays them and whose comparison compares; it starts no process and knows nothing of coordd's
// inside.
package differential
