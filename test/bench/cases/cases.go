package cases

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/topology"
)

const suffix = ".in.json.gz"

// Names are the cases with an input in a folder, from few tasks to many.
func Names(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no %s in %s", suffix, dir)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(filepath.Base(f), suffix)
	}
	members := func(name string) (n int) {
		_, _ = fmt.Sscanf(name, "%dx", &n)
		return n
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(members(a), members(b)), strings.Compare(a, b))
	})
	return names, nil
}

// Load reads a case. No member has reported any offset.
func Load(dir, name string) (assignor.Spec, error) {
	var in struct {
		Standbys      int `json:"numStandbyReplicas"`
		Subtopologies []struct {
			ID         string `json:"id"`
			Partitions int32  `json:"partitions"`
			Stateful   bool   `json:"stateful"`
		} `json:"subtopologies"`
		Members []struct {
			ID      string  `json:"memberId"`
			Process string  `json:"processId"`
			Active  taskMap `json:"activeTasks"`
			Standby taskMap `json:"standbyTasks"`
		} `json:"members"`
	}
	if err := read(filepath.Join(dir, name+suffix), &in); err != nil {
		return assignor.Spec{}, err
	}
	spec := assignor.Spec{NumStandbyReplicas: in.Standbys}
	for _, s := range in.Subtopologies {
		spec.Subtopologies = append(spec.Subtopologies, assignor.Subtopology{ID: s.ID, Tasks: s.Partitions, Stateful: s.Stateful})
	}
	slices.SortFunc(spec.Subtopologies, func(a, b assignor.Subtopology) int { return strings.Compare(a.ID, b.ID) })
	for _, m := range in.Members {
		spec.Members = append(spec.Members, assignor.Member{ID: m.ID, ProcessID: m.Process,
			Current: topology.Assignment{Active: m.Active.tasks(), Standby: m.Standby.tasks()}})
	}
	slices.SortFunc(spec.Members, func(a, b assignor.Member) int { return strings.Compare(a.ID, b.ID) })
	return spec, nil
}

// LoadOutput reads what an assignor of Kafka made of a case: "sticky" by members, "ha" by processes, of which the first member
// gets everything.
func LoadOutput(dir, name, assignorName string, spec assignor.Spec) (assignor.Assignment, error) {
	type owner struct {
		Active  taskMap `json:"activeTasks"`
		Standby taskMap `json:"standbyTasks"`
	}
	var in struct {
		Members   map[string]owner `json:"members"`
		Processes map[string]owner `json:"processes"`
	}
	if err := read(filepath.Join(dir, name+"."+assignorName+".out.json.gz"), &in); err != nil {
		return nil, err
	}
	out := assignor.Assignment{}
	for id, o := range in.Members {
		out[id] = topology.Assignment{Active: o.Active.tasks(), Standby: o.Standby.tasks()}
	}
	for i := range spec.Members {
		m := &spec.Members[i]
		if o, ok := in.Processes[m.ProcessID]; ok {
			out[m.ID] = topology.Assignment{Active: o.Active.tasks(), Standby: o.Standby.tasks()}
			delete(in.Processes, m.ProcessID)
		}
	}
	return out, nil
}

func read(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(r).Decode(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// taskMap is partitions by subtopology.
type taskMap map[string][]int32

func (t taskMap) tasks() topology.Tasks {
	var out topology.Tasks
	for id, partitions := range t {
		slices.Sort(partitions)
		out = append(out, topology.SubtopologyTasks{Subtopology: id, Partitions: partitions})
	}
	slices.SortFunc(out, func(a, b topology.SubtopologyTasks) int { return strings.Compare(a.Subtopology, b.Subtopology) })
	return out
}

// Lags of the classic client's benchmark: an active and a standby task are caught up, and nobody else has any state.
const (
	endOffset = 1_000_000
	// Warmups and RecoveryLag are the limits that the highly available assignors are run with.
	Warmups     = 2
	RecoveryLag = 10_000
)

// WithOffsets has the members of a case report what the benchmark tells Kafka's highly available assignor: every copy of a task is
// caught up. It sets the limits of warm-ups, too.
func WithOffsets(spec assignor.Spec) assignor.Spec {
	spec.NumWarmupReplicas, spec.AcceptableRecoveryLag = Warmups, RecoveryLag
	spec.Members = slices.Clone(spec.Members)
	for i := range spec.Members {
		m := &spec.Members[i]
		m.Offsets, m.EndOffsets = nil, nil
		if m.Current.IsEmpty() {
			continue
		}
		for t := range m.Current.Active.Union(m.Current.Standby).Union(m.Current.Warmup).All() {
			m.Offsets = append(m.Offsets, assignor.TaskOffset{Task: t, Offset: endOffset})
		}
		m.EndOffsets = m.Offsets
	}
	return spec
}
