// Package e2e runs real Kafka Streams applications against real coordd processes, over franz-go's kfake and over real
// Kafka, and disturbs them. `make e2e` runs it; it needs a JDK 17 and Maven. The tests stand behind the build tag e2e.
//
// The rig (test/rig) starts and stops processes; test/e2e/content holds the input and the check of the output; here is
// what must hold: exact output, threads that stay RUNNING, epochs and tasks that stay where they are.
package e2e
