// Command mutate removes, one at a time, lines that keep the invariants of docs/architecture.md, and says whether the test
// named for each fails then. It works on a copy of the module; `make mutate` runs it. The table of docs/testing.md lists
// the lines.
package main
