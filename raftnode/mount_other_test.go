//go:build !linux

package raftnode

import "errors"

func mountSmall(string, string) error { return errors.ErrUnsupported }

func resize(string, string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
