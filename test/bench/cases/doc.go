// Package cases owns the inputs of the assignor benchmark (test/bench/assignor/cases), what Kafka's own assignors were measured
// to make of them (test/bench/results), and the measures of an assignment: the same for the test that holds coordd's
// assignors to Kafka's and for the bench that times both.
package cases
