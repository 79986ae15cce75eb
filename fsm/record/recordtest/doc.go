// Package recordtest owns the samples and generators of records with which codecs and state are tested, also against
// Apache Kafka's own classes (test/e2e/records). Only tests and test tools may import it.
package recordtest
