// Package app holds the Kafka Streams application of the end-to-end tests: its Java sources, the list of jars it is
// compiled against (which are also the jars of a real Kafka broker), and the log settings of both.
package app

import "embed"

// Files are pom.xml, log4j2.properties and the Java sources below src/main/java.
//
//go:embed pom.xml log4j2.properties src
var Files embed.FS

// Main is the class with the main method.
const Main = "io.coordd.e2e.App"
