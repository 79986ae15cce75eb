package conformance

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// obj is a YAML map, and what a step is answered with.
type obj = map[string]any

// fields is a YAML map with access by type.
type fields map[string]any

func list(v any) []any {
	switch x := v.(type) {
	case nil:
		return nil
	case []any:
		return x
	}
	return []any{v}
}

func strs(v any) []string {
	out := []string{}
	for _, x := range list(v) {
		out = append(out, fmt.Sprint(x))
	}
	return out
}

func asObj(v any) obj {
	switch x := v.(type) {
	case obj:
		return x
	case map[any]any:
		o := obj{}
		for k, v := range x {
			o[fmt.Sprint(k)] = v
		}
		return o
	}
	return nil
}

func num(v any) int64 {
	switch x := v.(type) {
	case int:
		return int64(x)
	case int64:
		return x
	case uint64:
		return int64(x)
	case float64:
		return int64(x)
	}
	panic(fmt.Sprintf("not a number: %v", v))
}

func (o fields) num(k string, def int64) int64 {
	if v, ok := o[k]; ok && v != nil {
		return num(v)
	}
	return def
}

func (o fields) str(k, def string) string {
	if v, ok := o[k]; ok && v != nil {
		return fmt.Sprint(v)
	}
	return def
}

// strp gives nil for an explicit null or an absent key.
func (o fields) strp(k string) *string {
	if v, ok := o[k]; ok && v != nil {
		s := fmt.Sprint(v)
		return &s
	}
	return nil
}

func (o fields) bool(k string) bool { b, _ := o[k].(bool); return b }
func (o fields) has(k string) bool  { _, ok := o[k]; return ok }

// Marshal writes YAML with everything that fits on a line in flow style.
func Marshal(in any) ([]byte, error) {
	var v yaml.Node
	if err := v.Encode(in); err != nil {
		return nil, err
	}
	flow(&v)
	var sb strings.Builder
	enc := yaml.NewEncoder(&sb)
	enc.SetIndent(2)
	err := enc.Encode(&v)
	return []byte(sb.String()), err
}

// flow sets flow style where it fits and returns about how long the node would be.
func flow(n *yaml.Node) int {
	if n.Kind == yaml.ScalarNode {
		return len(n.Value) + 2
	}
	size := 2
	for _, c := range n.Content {
		size += flow(c) + 2
	}
	if size < 150 {
		n.Style = yaml.FlowStyle
	}
	return size
}
