package rig

import "syscall"

// childAttr ties the life of a child to ours: a test that is killed leaves no process behind.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
