package propagate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// differ compares a Node with what its owner wants.
type differ struct {
	policy              *Policy
	node                *corev1.Node
	desired             Desired
	memory              memory
	labels, annotations side
	taints              []Taint // of the desired ones, those that the Node may get
}

// Diff returns the patch that brings a Node into the desired state, and true; or false when nothing has to change. The one patch sets
// labels, annotations and taints, removes recorded ones that are no longer wanted, updates the ledger, and removes the startup taints.
//
// The owner's value overrides an existing one and is recorded from then on. The Node is not changed.
func (p *Policy) Diff(node *corev1.Node, desired Desired) (Patch, bool) {
	memory := p.Ledger.read(node)
	d := differ{
		policy: p, node: node, desired: desired, memory: memory,
		labels:      newSide(node.Labels, desired.Labels, desired.AddLabels, p.Labels, nil, memory.labels),
		annotations: newSide(node.Annotations, desired.Annotations, desired.AddAnnotations, p.Annotations, p, memory.annotations),
	}
	d.selectTaints()
	patch := Patch{
		labels:      d.labels.changes(),
		annotations: appendMarks(d.annotations.changes(), node.Annotations, p.AnnotationMarks, desired.Owner),
		taints:      d.taintChanges(),
	}
	due := len(patch.labels) > 0 || len(patch.annotations) > 0 || len(patch.taints) > 0
	patch.annotations = d.appendLedger(patch.annotations, due)
	if !due && len(patch.annotations) == 0 {
		return Patch{}, false
	}
	patch.uid = node.UID
	patch.noLabels = len(node.Labels) == 0
	patch.noAnnotations = len(node.Annotations) == 0
	patch.noTaints = len(node.Spec.Taints) == 0
	slices.SortFunc(patch.labels, byKey)
	slices.SortFunc(patch.annotations, byKey)
	return patch, true
}
