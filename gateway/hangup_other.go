//go:build !linux

package gateway

import "syscall"

// peerEnded says whether the other side of a TCP socket has ended the connection. What came before the end and has not
// been read yet hides it.
func peerEnded(fd int) bool {
	var one [1]byte
	n, _, err := syscall.Recvfrom(fd, one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch err {
	case nil:
		return n == 0
	case syscall.EAGAIN, syscall.EINTR:
		return false
	}
	return true
}
