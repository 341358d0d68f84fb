package propagate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

type taintChange struct {
	action taintAction
	// index is the position of the taint in the Node's list as it was read; unused for addTaint.
	index int
	taint corev1.Taint
}

type taintAction uint8

const (
	// The constants are in the order of the operations: an index is valid until a taint is removed.
	setTaintValue taintAction = iota
	removeTaint
	addTaint
)

func (d *differ) taintChanges() []taintChange {
	var changes []taintChange
	have := d.node.Spec.Taints
	for i := range d.taints {
		t := &d.taints[i]
		at := findTaint(have, t.Key, t.Effect)
		switch mode := t.mode(); {
		case at < 0 && d.adds(mode):
			changes = append(changes, taintChange{action: addTaint, taint: plain(t)})
		case at >= 0 && have[at].Value != t.Value && mode != WhenMissing && d.adds(mode):
			changes = append(changes, taintChange{action: setTaintValue, index: at, taint: plain(t)})
		}
	}
	for i := range slices.Backward(have) {
		if d.banned(&have[i]) || (slices.Contains(d.memory.taints, entryOf(&have[i])) && !d.mentions(&have[i])) {
			changes = append(changes, taintChange{action: removeTaint, index: i, taint: have[i]})
		}
	}
	slices.SortStableFunc(changes, func(a, b taintChange) int { return int(a.action) - int(b.action) })
	return changes
}

func plain(t *Taint) corev1.Taint {
	return corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}
}

func (t *Taint) mode() Propagation { return cmp.Or(t.Propagation, Always) }

// adds reports whether a taint is added to this Node now.
func (d *differ) adds(mode Propagation) bool {
	switch mode {
	case Always, WhenMissing:
		return true
	case OnInitialization:
		return d.isNew()
	default:
		return false
	}
}

// isNew reports whether the Node has not yet received the taints for new Nodes.
func (d *differ) isNew() bool {
	if d.policy.Ledger.Taints == "" {
		return slices.ContainsFunc(d.node.Spec.Taints, func(t corev1.Taint) bool {
			return findTaint(d.policy.StartupTaints, t.Key, t.Effect) >= 0
		})
	}
	return !d.memory.initialized
}

// selectTaints selects the first desired taint of each key and effect, unless it is banned.
func (d *differ) selectTaints() {
	for i := range d.desired.Taints {
		t := &d.desired.Taints[i]
		known := slices.ContainsFunc(d.taints, func(other Taint) bool { return other.MatchTaint(&t.Taint) })
		if !known && !d.banned(&t.Taint) {
			d.taints = append(d.taints, *t)
		}
	}
}

// entryOf returns the entry of a taint in the ledger.
func entryOf(t *corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// banned reports whether a Node must not have a taint.
func (d *differ) banned(t *corev1.Taint) bool {
	return findTaint(d.policy.StartupTaints, t.Key, t.Effect) >= 0 || findTaint(d.desired.WithoutTaints, t.Key, t.Effect) >= 0
}

// mentions reports whether the owner has a taint with any Propagation. Such a taint is not removed: one that changes from Always to
// OnInitialization stays.
func (d *differ) mentions(t *corev1.Taint) bool {
	return slices.ContainsFunc(d.desired.Taints, func(wanted Taint) bool { return wanted.MatchTaint(t) })
}

// lasting returns the entries of the ledger: taints that are removed when they are no longer wanted.
func (d *differ) lasting() []string {
	var entries []string
	for i := range d.taints {
		if t := &d.taints[i]; t.mode() == Always {
			entries = append(entries, entryOf(&t.Taint))
		}
	}
	slices.Sort(entries)
	return entries
}

// initializes reports whether there is a taint for new Nodes.
func (d *differ) initializes() bool {
	return slices.ContainsFunc(d.desired.Taints, func(t Taint) bool { return t.mode() == OnInitialization })
}

// findTaint returns the index of a taint, or -1. A valid list has one taint per key and effect.
func findTaint(taints []corev1.Taint, key string, effect corev1.TaintEffect) int {
	return slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}
