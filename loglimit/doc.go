// Package loglimit lets one log line a second through for each cause, so that what others send, or what goes wrong again and
// again, does not fill the log.
//
// It must not know what is logged, or by whom.
package loglimit
