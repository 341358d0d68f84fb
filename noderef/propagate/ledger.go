package propagate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// list is a comma-separated text of keys, or of "key:effect". Lists that other systems wrote may be unsorted or have
// duplicates.
type list string

func (l list) has(key string) bool {
	for rest := string(l); rest != ""; {
		var entry string
		if entry, rest, _ = strings.Cut(rest, ","); entry == key {
			return true
		}
	}
	return false
}

func (l list) hasTaint(key string, effect corev1.TaintEffect) bool {
	for rest := string(l); rest != ""; {
		var entry string
		entry, rest, _ = strings.Cut(rest, ",")
		if k, e, ok := strings.Cut(entry, ":"); ok && k == key && e == string(effect) {
			return true
		}
	}
	return false
}

// entries ranges over the list.
func (l list) entries(yield func(string) bool) {
	for rest := string(l); rest != ""; {
		var entry string
		entry, rest, _ = strings.Cut(rest, ",")
		if !yield(entry) {
			return
		}
	}
}

// memory is the content of a Node's ledger.
type memory struct {
	labels, annotations, taints list
	// initialized means that the owner has written to the Node before.
	initialized bool
	// applied is set for a ledger that remembers values.
	applied *applied
}

func (l *Ledger) read(node *corev1.Node) memory {
	if l.Applied != "" {
		return l.readApplied(node)
	}
	have := node.Annotations
	m := memory{
		labels:      list(have[l.Labels]),
		annotations: list(have[l.Annotations]),
		taints:      list(have[l.Taints]),
	}
	for _, name := range [...]string{l.Labels, l.Annotations, l.Taints} {
		if _, found := have[name]; found && name != "" {
			m.initialized = true
		}
	}
	return m
}

// applied is the document of [Ledger.Applied].
type applied struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations,omitempty"`
		Labels      map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints []corev1.Taint `json:"taints,omitempty"`
	} `json:"spec"`
}

// readApplied treats a document that cannot be parsed as empty: then nothing is removed, and it is written again.
func (l *Ledger) readApplied(node *corev1.Node) memory {
	text, found := node.Annotations[l.Applied]
	m := memory{initialized: found, applied: &applied{}}
	if !found || json.Unmarshal([]byte(text), m.applied) != nil {
		m.applied = &applied{}
		return m
	}
	m.labels = join(slices.Sorted(maps.Keys(m.applied.Metadata.Labels)))
	m.annotations = join(slices.Sorted(maps.Keys(m.applied.Metadata.Annotations)))
	m.taints = taintList(m.applied.Spec.Taints)
	return m
}

func join(keys []string) list { return list(strings.Join(keys, ",")) }

func taintList(taints []corev1.Taint) list {
	entries := make([]string, 0, len(taints))
	for i := range taints {
		entries = append(entries, taints[i].Key+":"+string(taints[i].Effect))
	}
	slices.Sort(entries)
	return join(slices.Compact(entries))
}

// lists reports whether the list equals the sorted list to remember, without building that list.
func (s *side) lists() bool {
	open := 0
	for key, w := range s.wanted {
		if s.ours(key, w) {
			open++
		}
	}
	last := ""
	for key := range s.listed.entries {
		if _, wanted := s.want(key); !wanted || key <= last {
			return false
		}
		last = key
		open--
	}
	return open == 0
}

// appendLedger adds the changes of the ledger. due means that a patch is sent anyway. A missing list and an empty list
// both mean that nothing is remembered; Cluster API writes the empty one, so neither needs a write.
func (d *differ) appendLedger(to []change, due bool) []change {
	ledger := &d.policy.Ledger
	if ledger.Applied != "" {
		return d.appendApplied(to)
	}
	if ledger.Labels != "" && !d.labels.lists() {
		to = d.remember(to, ledger.Labels, join(d.labels.keys()))
	}
	if ledger.Annotations != "" && !d.annotations.lists() {
		to = d.remember(to, ledger.Annotations, join(d.annotations.keys()))
	}
	// An empty list of taints has a meaning: taints for new Nodes are not given again.
	if ledger.Taints != "" && (!d.listsTaints() || (!d.memory.initialized && (due || len(to) > 0 || d.initializes()))) {
		to = d.remember(to, ledger.Taints, taintList(d.lasting()))
	}
	return to
}

func (d *differ) appendApplied(to []change) []change {
	was := d.memory.applied
	if d.labels.lists() && d.annotations.lists() && d.listsTaints() &&
		d.labels.holds(was.Metadata.Labels) && d.annotations.holds(was.Metadata.Annotations) && d.holdsTaints(was.Spec.Taints) {
		return to
	}
	var now applied
	now.Metadata.Labels, now.Metadata.Annotations = d.labels.values(), d.annotations.values()
	now.Spec.Taints = d.lasting()
	return d.remember(to, d.policy.Ledger.Applied, list(encode(now)))
}

// remember writes an annotation of the ledger. The decision depends on the old value, so the patch tests it.
func (d *differ) remember(to []change, name string, content list) []change {
	before := len(to)
	to = appendChange(to, d.node.Annotations, name, value{string(content), true})
	if len(to) > before {
		to[before].tested = true
	}
	return to
}

func (s *side) values() map[string]string {
	values := map[string]string{}
	for key, w := range s.wanted {
		if s.ours(key, w) {
			values[key] = w.text
		}
	}
	return values
}

// holds reports whether the remembered values equal the wanted ones. The keys are already known to be equal.
func (s *side) holds(values map[string]string) bool {
	for key, value := range values {
		if want, _ := s.want(key); want != value {
			return false
		}
	}
	return true
}
