package conformance

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
)

// reduce drops what a step does not compare.
func reduce(v any, st step, messages bool) any {
	drop := map[string]bool{}
	if !messages {
		drop["message"], drop["detail"] = true, true
	}
	for _, f := range st.ignore {
		drop[f] = true
	}
	switch st.compare {
	case "error":
		return onlyErrors(v)
	case "shape":
		v = shape(v)
	case "balance":
		v = balance(shape(v))
	case "totals":
		for k := range roles {
			drop[k] = true
		}
		drop["assignment"], drop["target"] = true, true
	}
	return dropKeys(v, drop)
}

func dropKeys(v any, drop map[string]bool) any {
	switch x := v.(type) {
	case obj:
		o := obj{}
		for k, e := range x {
			if !drop[k] {
				o[k] = dropKeys(e, drop)
			}
		}
		return o
	case []any:
		l := make([]any, len(x))
		for i, e := range x {
			l[i] = dropKeys(e, drop)
		}
		return l
	}
	return v
}

func onlyErrors(v any) any {
	x, ok := v.(obj)
	if !ok {
		return nil
	}
	o := obj{}
	for k, e := range x {
		if k == "error" {
			o[k] = e
		} else if s := onlyErrors(e); s != nil && len(s.(obj)) > 0 {
			o[k] = s
		}
	}
	return o
}

var roles = map[string]bool{"active": true, "standby": true, "warmup": true}

// shape turns every task list into task counts per subtopology.
func shape(v any) any {
	switch x := v.(type) {
	case obj:
		o := obj{}
		for k, e := range x {
			if l, ok := e.([]any); ok && roles[k] {
				c := obj{}
				for _, t := range l {
					sub, parts, _ := strings.Cut(fmt.Sprint(t), ":")
					c[sub] = len(strings.Split(parts, ","))
				}
				o[k] = c
			} else {
				o[k] = shape(e)
			}
		}
		return o
	case []any:
		l := make([]any, len(x))
		for i, e := range x {
			l[i] = shape(e)
		}
		return l
	}
	return v
}

// balance additionally forgets which member holds how many tasks: the counts of all members become one sorted list.
func balance(v any) any {
	x, ok := v.(obj)
	if !ok {
		return v
	}
	o := obj{}
	for k, e := range x {
		o[k] = balance(e)
	}
	if ms, ok := x["members"].(obj); ok {
		var counts []string
		rest := obj{}
		for name, m := range ms {
			mo, ok := m.(obj)
			if !ok {
				return o
			}
			c, r := obj{}, obj{}
			for k, e := range mo {
				if roles[k] || k == "assignment" || k == "target" {
					c[k] = e
				} else {
					r[k] = e
				}
			}
			counts = append(counts, show(c))
			rest[name] = r
		}
		sort.Strings(counts)
		o["members"], o["task_counts"] = rest, counts
	}
	return o
}

func show(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case obj:
		ks := make([]string, 0, len(x))
		for k := range x {
			ks = append(ks, k)
		}
		sort.Strings(ks)
		for i, k := range ks {
			ks[i] = k + ": " + show(x[k])
		}
		return "{" + strings.Join(ks, ", ") + "}"
	case []any:
		l := make([]string, len(x))
		for i, e := range x {
			l[i] = show(e)
		}
		return "[" + strings.Join(l, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// FirstDifference tells where two answers differ, compared as a step with that mode and those fields left out is (see README.md);
// "" when they do not. A message of have may go on where that of want ends.
func FirstDifference(want, have any, mode string, ignore ...string) string {
	st := step{compare: mode, ignore: ignore}
	return firstDiff("", reduce(want, st, true), reduce(have, st, true))
}

func firstDiff(path string, w, h any) string {
	if reflect.DeepEqual(w, h) || saysMore(path, w, h) {
		return ""
	}
	wo, ok1 := w.(obj)
	ho, ok2 := h.(obj)
	if ok1 && ok2 {
		if e, ok := ho[failed]; ok && wo[failed] == nil {
			return fmt.Sprintf("no answer to compare: %v", e)
		}
		ks := map[string]bool{}
		for k := range wo {
			ks[k] = true
		}
		for k := range ho {
			ks[k] = true
		}
		sorted := make([]string, 0, len(ks))
		for k := range ks {
			sorted = append(sorted, k)
		}
		sort.Slice(sorted, func(i, j int) bool { // errors first: they explain the rest
			a, b := sorted[i], sorted[j]
			if (a == "error") != (b == "error") {
				return a == "error"
			}
			return a < b
		})
		for _, k := range sorted {
			wv, in1 := wo[k]
			hv, in2 := ho[k]
			p := strings.TrimPrefix(path+"."+k, ".")
			switch {
			case !in1:
				return fmt.Sprintf("%s: not expected, got %s", p, show(hv))
			case !in2:
				return fmt.Sprintf("%s: want %s, got nothing", p, show(wv))
			}
			if d := firstDiff(p, wv, hv); d != "" {
				return d
			}
		}
		return ""
	}
	wl, ok1 := w.([]any)
	hl, ok2 := h.([]any)
	if ok1 && ok2 && len(wl) == len(hl) {
		for i := range wl {
			if d := firstDiff(fmt.Sprintf("%s[%d]", path, i), wl[i], hl[i]); d != "" {
				return d
			}
		}
		return ""
	}
	return fmt.Sprintf("%s: want %s, got %s", path, show(w), show(h))
}

// saysMore reports whether a message begins as the expected one does and goes on: it may tell which value was wrong.
func saysMore(path string, w, h any) bool {
	want, ok1 := w.(string)
	have, ok2 := h.(string)
	return ok1 && ok2 && want != "" && (strings.HasSuffix(path, "message") || strings.HasSuffix(path, "detail")) && strings.HasPrefix(have, strings.TrimSuffix(want, "."))
}
