package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/coordd/coordd/protocol"
)

// versionFile is the path of the file that keeps what the upstream's brokers served when they were last asked; empty for
// none.
type versionFile string

const (
	versionFileName   = "upstream-versions.json"
	versionFileFormat = 1
	maxVersionFile    = 16 << 20 // bytes; a broker takes about 3 KiB
)

var errVersionFile = errors.New("malformed file of upstream versions")

func versionFileIn(dir string) versionFile { return versionFile(filepath.Join(dir, versionFileName)) }

type savedVersions struct {
	Format  int           `json:"format"`
	Brokers []savedBroker `json:"brokers"`
}

type savedBroker struct {
	ID       int32              `json:"id"`
	Cluster  string             `json:"cluster"`
	Ranges   [][3]int16         `json:"ranges"` // key, lowest and highest version
	Features *protocol.Features `json:"features,omitempty"`
}

// read returns what was kept; nothing when there is no file.
func (f versionFile) read() (map[int32]brokerVersions, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, maxVersionFile))
	if err != nil {
		return nil, err
	}
	return decodeVersions(b)
}

// write replaces the file as a whole.
func (f versionFile) write(kept map[int32]brokerVersions) error {
	temporary, err := os.CreateTemp(filepath.Dir(string(f)), versionFileName+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(encodeVersions(kept))
	if err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), string(f))
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

func encodeVersions(kept map[int32]brokerVersions) []byte {
	saved := savedVersions{Format: versionFileFormat, Brokers: []savedBroker{}}
	for id, b := range kept {
		s := savedBroker{ID: id, Cluster: b.cluster, Features: b.known.Features}
		for _, r := range b.known.Ranges {
			s.Ranges = append(s.Ranges, [3]int16{r.Key, r.Min, r.Max})
		}
		saved.Brokers = append(saved.Brokers, s)
	}
	slices.SortFunc(saved.Brokers, func(a, b savedBroker) int { return int(a.ID) - int(b.ID) })
	b, _ := json.MarshalIndent(saved, "", " ") // numbers and strings always have a form in JSON
	return append(b, '\n')
}

// decodeVersions reads a file's content; it is taken whole or not at all.
func decodeVersions(b []byte) (map[int32]brokerVersions, error) {
	var saved savedVersions
	if err := json.Unmarshal(b, &saved); err != nil {
		return nil, fmt.Errorf("%w: %v", errVersionFile, err)
	}
	if saved.Format != versionFileFormat {
		return nil, fmt.Errorf("%w: format %d", errVersionFile, saved.Format)
	}
	kept := make(map[int32]brokerVersions, len(saved.Brokers))
	for _, s := range saved.Brokers {
		known := &Versions{Features: s.Features}
		for _, r := range s.Ranges {
			if r[0] < 0 || r[1] < 0 || r[2] < r[1] {
				return nil, fmt.Errorf("%w: range %v", errVersionFile, r)
			}
			known.Ranges = append(known.Ranges, protocol.VersionRange{Key: r[0], Min: r[1], Max: r[2]})
		}
		if len(known.Ranges) == 0 {
			return nil, fmt.Errorf("%w: broker %d serves nothing", errVersionFile, s.ID)
		}
		kept[s.ID] = brokerVersions{known: known, cluster: s.Cluster}
	}
	return kept, nil
}
