package raftnode

import "syscall"

func mountSmall(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}

func resize(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
