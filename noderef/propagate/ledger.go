package propagate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// list is a comma-separated text of keys, or of "key:effect". Lists of other systems may be unsorted or have duplicates.
type list string

func (l list) hasTaint(key string, effect corev1.TaintEffect) bool {
	for entry := range strings.SplitSeq(string(l), ",") {
		if entry == key+":"+string(effect) {
			return true
		}
	}
	return false
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

// appendLedger adds the changes of the ledger. due means that a patch is sent anyway. A missing list and an empty list are equivalent;
// Cluster API writes the empty one, so neither needs a write.
func (d *differ) appendLedger(to []change, due bool) []change {
	ledger := &d.policy.Ledger
	to = d.remember(to, ledger.Labels, d.labels.keys(), false)
	to = d.remember(to, ledger.Annotations, d.annotations.keys(), false)
	// An existing list of taints, even if empty, marks the Node as initialized: taints for new Nodes are not added again.
	return d.remember(to, ledger.Taints, d.lasting(), !d.memory.initialized && (due || len(to) > 0 || d.initializes()))
}

// remember writes an annotation of the ledger if its content differs, or if it must exist. The decision depends on the old value, so the
// patch tests it.
func (d *differ) remember(to []change, name string, entries []string, exists bool) []change {
	content := strings.Join(entries, ",")
	if name == "" || !exists && content == d.node.Annotations[name] {
		return to
	}
	before := len(to)
	to = appendChange(to, d.node.Annotations, name, value{content, true})
	if len(to) > before {
		to[before].tested = true
	}
	return to
}
