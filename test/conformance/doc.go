// Package conformance checks that a server answers Kafka Streams group requests (KIP-1071) as Apache Kafka 4.4.0 does.
//
// It owns the scenarios (scenarios/*.yaml), what a real broker answered to them (golden/kafka-4.4.0), the client that plays
// them, the comparison, and the list of the steps at which coordd answers something else on purpose (differences.yaml).
// It speaks nothing but the Kafka protocol and knows nothing of coordd's inside; README.md tells how to use it.
//
// Operations of a scenario panic when they cannot go on; [Run] turns that into the answer of the step.
package conformance
