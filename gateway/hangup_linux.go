package gateway

import (
	"encoding/binary"
	"syscall"
)

// peerEnded says whether the other side of a TCP socket has ended the connection, whatever of it has not been read yet.
func peerEnded(fd int) bool {
	info, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
	if err != nil {
		return false
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(info))
	const established = 1 // the first byte of struct tcp_info is the state (tcp(7))
	return b[0] != established
}
