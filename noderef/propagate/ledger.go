package propagate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// memory is the content of a Node's ledger: keys, and "key:effect" of taints. Lists of other systems may be unsorted or have duplicates.
type memory struct {
	labels, annotations, taints []string
	// initialized means that the owner has written to the Node before.
	initialized bool
}

func (l *Ledger) read(node *corev1.Node) (m memory) {
	entries := func(name string) []string {
		text, found := node.Annotations[name]
		m.initialized = m.initialized || found && name != ""
		return strings.Split(text, ",")
	}
	m.labels, m.annotations, m.taints = entries(l.Labels), entries(l.Annotations), entries(l.Taints)
	return m
}

// appendLedger adds the changes of the ledger. due means that a patch is sent anyway. A missing list and an empty list are equivalent;
// Cluster API writes the empty one, so neither needs a write.
func (d *differ) appendLedger(to []change, due bool) []change {
	ledger := &d.policy.Ledger
	to = d.remember(to, ledger.Labels, slices.Sorted(maps.Keys(d.labels.want)), false)
	to = d.remember(to, ledger.Annotations, slices.Sorted(maps.Keys(d.annotations.want)), false)
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
