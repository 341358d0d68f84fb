package propagate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Concerns reports whether a change of a Node can make it differ from what its owner wants, if it did not differ
// before. It filters events (noderef.SignificantTo): what kubelets, network and storage plug-ins write to a Node does
// not concern the policy.
//
// With a ledger, only these count: keys and taints that the ledger remembers, the ledger itself, the marks, the startup
// taints, and keys that are selected with OnlyMissing. Without a ledger every change counts. Other taints count too,
// because [Desired.WithoutTaints] may contain any taint, except those of Kubernetes' own controllers, such as
// node.kubernetes.io/not-ready, unless the ledger remembers them. Neither Node may be nil. It allocates nothing.
func (p *Policy) Concerns(old, updated *corev1.Node) bool {
	annotations := side{pick: &p.Annotations, marks: p.AnnotationMarks, ledger: &p.Ledger}
	labels := side{pick: &p.Labels, marks: p.LabelMarks}
	if p.mapConcerns(&annotations, updated, old.Annotations, updated.Annotations, p.Ledger.Annotations) {
		return true // from here on both Nodes have the same ledger
	}
	if p.mapConcerns(&labels, updated, old.Labels, updated.Labels, p.Ledger.Labels) {
		return true
	}
	return p.taintConcerns(updated, old.Spec.Taints, updated.Spec.Taints) ||
		p.taintConcerns(updated, updated.Spec.Taints, old.Spec.Taints)
}

func (p *Policy) mapConcerns(s *side, node *corev1.Node, old, updated map[string]string, ledger string) bool {
	for key, before := range old {
		if after, ok := updated[key]; (!ok || after != before) && p.keyConcerns(s, node, key, ledger) {
			return true
		}
	}
	for key := range updated {
		if _, ok := old[key]; !ok && p.keyConcerns(s, node, key, ledger) {
			return true
		}
	}
	return false
}

func (p *Policy) keyConcerns(s *side, node *corev1.Node, key, ledger string) bool {
	switch {
	case s.own(key), s.pick.OnlyMissing && s.pick.Contains(key):
		return true
	case p.Ledger.Applied != "":
		return strings.Contains(node.Annotations[p.Ledger.Applied], key) // decoding it costs more than a needless event
	case ledger != "":
		return list(node.Annotations[ledger]).has(key)
	default:
		return true
	}
}

// taintConcerns checks the taints that only the first list has, or that have another value in the second.
func (p *Policy) taintConcerns(node *corev1.Node, these, those []corev1.Taint) bool {
	for i := range these {
		t := &these[i]
		at := findTaint(those, t.Key, t.Effect)
		if (at < 0 || those[at].Value != t.Value) && p.oneTaintConcerns(node, t) {
			return true
		}
	}
	return false
}

func (p *Policy) oneTaintConcerns(node *corev1.Node, t *corev1.Taint) bool {
	switch {
	case !ofKubernetes(t.Key), p.Taints == WhenMissing, findTaint(p.StartupTaints, t.Key, t.Effect) >= 0:
		return true
	case p.Ledger.Applied != "":
		return strings.Contains(node.Annotations[p.Ledger.Applied], t.Key)
	case p.Ledger.Taints != "":
		return list(node.Annotations[p.Ledger.Taints]).hasTaint(t.Key, t.Effect)
	default:
		return true
	}
}

// ofKubernetes reports whether a taint belongs to Kubernetes' node lifecycle or cloud controllers.
func ofKubernetes(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "node.kubernetes.io" || domain == "node.cloudprovider.kubernetes.io"
}
