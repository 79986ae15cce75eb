package main

import (
	"syscall"
	"time"
	"unsafe"
)

// cpuTime is what this process has used so far, to the nanosecond.
func cpuTime() time.Duration {
	const processCPUTime = 2
	var t syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, processCPUTime, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}
