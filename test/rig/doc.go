// Package rig starts the real processes that end-to-end tests and benchmarks are made of: coordd nodes, Kafka brokers, an
// in-process Kafka run as a process of its own, and instances of the Streams application of test/e2e/app.
//
// It owns ports, folders, logs, the fetching of jars, and stopping what it started (by process id, never by name). It knows
// coordd by its command line, its settings file and its admin port only, and nothing of what a test asserts.
package rig
