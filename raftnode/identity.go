package raftnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// identity is what a data folder was formed with.
type identity struct {
	Format int     `json:"format"`
	Node   int32   `json:"node.id"`
	Peers  []int32 `json:"peers"`
	Groups int     `json:"groups"`
}

const (
	identityFile   = "node.json"
	identityFormat = 2 // 1 had the entries in each group's bolt file
)

// checkIdentity compares the data folder's identity with the configuration, and gives an empty folder one. A folder of
// another node, or of a cluster with other members, must not be used: votes would be counted twice.
func checkIdentity(c *Config) error {
	want := identity{Format: identityFormat, Node: c.NodeID, Groups: c.Groups}
	for _, p := range c.Peers {
		want.Peers = append(want.Peers, p.ID)
	}
	path := filepath.Join(c.Dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return writeIdentity(path, want)
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	var have identity
	if err := json.Unmarshal(b, &have); err != nil {
		return fmt.Errorf("%w: %s is damaged (%w); restore it or use an empty folder", ErrDataDirMismatch, path, err)
	}
	mismatch := func(name string, have, want any) error {
		return fmt.Errorf("%w: %s was formed with %s %v, the configuration says %v; "+
			"set it back, or give this node an empty folder", ErrDataDirMismatch, c.Dir, name, have, want)
	}
	switch {
	case have.Format != want.Format:
		return mismatch("format", have.Format, want.Format)
	case have.Node != want.Node:
		return mismatch("node.id", have.Node, want.Node)
	case !slices.Equal(have.Peers, want.Peers):
		return mismatch("peers (ids)", have.Peers, want.Peers)
	case have.Groups != want.Groups:
		return mismatch("groups (shards and the system group)", have.Groups, want.Groups)
	}
	return nil
}

func writeIdentity(path string, id identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := replaceFile(path, append(b, '\n')); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// replaceFile makes a file durable with its whole content, or leaves what there was; what was written of it is then removed,
// since a full disk may be the reason.
func replaceFile(path string, content []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(filepath.Clean(tmp), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
