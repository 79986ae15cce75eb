package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// Scenario is one behaviour: steps that one or more clients take, one after another.
type Scenario struct {
	Name       string         `yaml:"-"`
	About      string         `yaml:"about"`
	Slow       bool           `yaml:"slow"` // takes a minute or more
	Tags       []string       `yaml:"tags"` // what it is about; other-types is added by itself
	Members    map[string]obj `yaml:"members"`
	Topologies map[string]obj `yaml:"topologies"`
	Topology   obj            `yaml:"topology"` // short for topologies: {t: ...}
	RawSteps   []obj          `yaml:"steps"`

	id     string
	raw    []byte
	groups []string
	steps  []step
}

type step struct {
	op      string
	arg     any
	compare string
	ignore  []string
}

func (s step) title(id string) string {
	b, _ := yaml.Marshal(s.arg)
	t := strings.Join(strings.Fields(strings.NewReplacer("\n", ", ").Replace(strings.TrimSpace(string(b)))), " ")
	if t = strings.ReplaceAll(t, id, "$s"); len(t) > 110 {
		t = t[:110] + "..."
	}
	return s.op + " " + t
}

// LoadScenarios reads all scenarios of a folder, sorted by name. The suffix becomes a part of all group and topic names, so
// that a scenario can run again on a server that has seen it.
func LoadScenarios(dir, suffix string) ([]*Scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var out []*Scenario
	for _, f := range files {
		s, err := loadScenario(f, suffix)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no *.yaml in %s", dir)
	}
	return out, nil
}

func loadScenario(file, suffix string) (*Scenario, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	return NewScenario(name, "o-"+name+suffix+"-s", raw) // no scenario's id plus "-" begins another's
}

// NewScenario reads a scenario from YAML. The id is what $s stands for: its group, and what its topics begin with.
func NewScenario(name, id string, raw []byte) (*Scenario, error) {
	s := &Scenario{Name: name, id: id, raw: raw}
	dec := yaml.NewDecoder(strings.NewReader(strings.ReplaceAll(string(raw), "$s", s.id)))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil {
		return nil, err
	}
	if s.Topologies == nil {
		s.Topologies = map[string]obj{}
	}
	if s.Topology != nil {
		s.Topologies["t"] = s.Topology
	}
	s.groups = []string{s.id}
	for i, r := range s.RawSteps {
		st, err := parseStep(r)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		if strings.HasPrefix(st.op, "classic_") || strings.HasPrefix(st.op, "consumer_") {
			s.tag("other-types")
		}
		if group := fields(asObj(st.arg)).str("group", ""); s.owns(group) && !slices.Contains(s.groups, group) {
			s.groups = append(s.groups, group)
		}
		s.steps = append(s.steps, st)
	}
	if len(s.steps) == 0 {
		return nil, errors.New("no steps")
	}
	return s, nil
}

var compareModes = []string{"exact", "shape", "balance", "totals", "error"}

func parseStep(raw obj) (step, error) {
	st := step{compare: "exact"}
	for k, v := range raw {
		switch k {
		case "compare":
			if st.compare = fmt.Sprint(v); !slices.Contains(compareModes, st.compare) {
				return st, fmt.Errorf("unknown compare mode %q, want one of %v", st.compare, compareModes)
			}
		case "ignore":
			st.ignore = append(st.ignore, strs(v)...)
		case "note":
		default:
			if _, ok := ops[k]; !ok {
				return st, fmt.Errorf("unknown step %q", k)
			}
			if st.op != "" {
				return st, fmt.Errorf("two operations, %s and %s", st.op, k)
			}
			st.op, st.arg = k, v
		}
	}
	if st.op == "" {
		return st, errors.New("no operation")
	}
	return st, nil
}

// Groups are the ids of the groups that the scenario is about, its own first.
func (s *Scenario) Groups() []string { return s.groups }

// NumSteps is the number of steps.
func (s *Scenario) NumSteps() int { return len(s.steps) }

// Sleeps says that a step (counted from 1) only lets time pass.
func (s *Scenario) Sleeps(nr int) bool { return s.steps[nr-1].op == "sleep" }

// HasTag says whether the scenario has any of the tags.
func (s *Scenario) HasTag(tags ...string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(s.Tags, t) })
}

// owns tells whether a group or topic name belongs to the scenario.
func (s *Scenario) owns(name string) bool { return name == s.id || strings.HasPrefix(name, s.id+"-") }

func (s *Scenario) tag(t string) {
	if !slices.Contains(s.Tags, t) {
		s.Tags = append(s.Tags, t)
	}
}
