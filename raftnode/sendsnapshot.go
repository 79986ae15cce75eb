package raftnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// errDamaged tells that a snapshot is not what was written.
var errDamaged = errors.New("the snapshot is damaged")

// descriptionFile is the library's name for what describes a snapshot.
const descriptionFile = "meta.json"

// InstallSnapshot sends a snapshot. A receiver computes a checksum of its own over whatever it gets and lets the snapshot take the
// place of older ones, so that the end of it is sent only when all of it is what was written: a receiver drops one that is cut off.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	r, ok := data.(readerWithIndex)
	if !ok {
		return fmt.Errorf("send a snapshot from %T", data)
	}
	checked, err := r.checked(args.Size)
	if err == nil {
		err = t.NetworkTransport.InstallSnapshot(id, target, args, resp, checked)
	}
	if errors.Is(err, errDamaged) && t.damaged != nil {
		t.damaged(err)
	}
	return err
}

// checked reads the snapshot, of which it gives the last bytes only when the checksum is right; else the error is errDamaged.
func (r readerWithIndex) checked(size int64) (io.Reader, error) {
	b, err := os.ReadFile(filepath.Clean(filepath.Join(r.dir, descriptionFile)))
	if err != nil {
		return nil, fmt.Errorf("checksum of a snapshot: %w", err)
	}
	var described struct{ CRC []byte }
	if err := json.Unmarshal(b, &described); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errDamaged, filepath.Join(r.dir, descriptionFile), err)
	}
	return &checkedReader{r, crc64.New(crc64.MakeTable(crc64.ECMA)), size, described.CRC}, nil
}

type checkedReader struct {
	readerWithIndex
	sum  hash.Hash64
	left int64
	want []byte
}

// Read reads on. It never gives the last bytes of a damaged snapshot.
func (r *checkedReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n, err := r.readerWithIndex.Read(b[:min(int64(len(b)), r.left)])
	_, _ = r.sum.Write(b[:n])
	r.left -= int64(n)
	switch {
	case r.left == 0 && !bytes.Equal(r.sum.Sum(nil), r.want):
		return 0, fmt.Errorf("%w: the checksum of %s is not that of when it was written", errDamaged, filepath.Join(r.dir, stateFile))
	case r.left > 0 && errors.Is(err, io.EOF):
		return n, fmt.Errorf("%w: %s is too short", errDamaged, filepath.Join(r.dir, stateFile))
	}
	return n, err
}

// replaceSnapshot takes a snapshot in the place of one that turned out to be damaged while it was sent.
func (g *Group) replaceSnapshot(cause error) {
	g.log.Error("a snapshot cannot be sent; taking another one", "error", cause)
	select {
	case g.node.snapshotting <- struct{}{}:
	default:
		return // the library sends again
	}
	go func() {
		defer func() { <-g.node.snapshotting }()
		if in := g.inst.Load(); in != nil {
			_ = in.raft.Snapshot().Error() // the library logs what goes wrong
		}
	}()
}
