package propagate

import (
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
}

func (l *Ledger) read(node *corev1.Node) memory {
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
	for range s.wanted {
		open++
	}
	last := ""
	for key := range s.listed.entries {
		if !s.wants(key) || key <= last {
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

// remember writes an annotation of the ledger. The decision depends on the old value, so the patch tests it.
func (d *differ) remember(to []change, name string, content list) []change {
	before := len(to)
	to = appendChange(to, d.node.Annotations, name, value{string(content), true})
	if len(to) > before {
		to[before].tested = true
	}
	return to
}
