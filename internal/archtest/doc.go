// Package archtest owns the import rules of the project, as tests with their reasons.
package archtest
