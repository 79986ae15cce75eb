//go:build !linux

package main

import "time"

var started = time.Now()

// cpuTime is the time that has gone by, where nothing better is known.
func cpuTime() time.Duration { return time.Since(started) }
