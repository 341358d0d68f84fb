package propagate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Concerns says whether a change of a Node can make it differ from what its owner wants, for a Node that did not differ
// before. It is a filter of events (noderef.SignificantTo): what kubelets, network and storage plug-ins write to a Node all the
// time does not concern the policy.
//
// With a ledger only what is remembered counts, the ledger itself, the marks, the startup taints, and keys that are selected
// with OnlyMissing; without one everything does. Other taints count too, since [Desired.WithoutTaints] may name any; but not
// those of Kubernetes' own controllers, such as node.kubernetes.io/not-ready, unless they are remembered. Neither Node may be
// nil. It allocates nothing.
func (p *Policy) Concerns(old, updated *corev1.Node) bool {
	annotations := side{pick: &p.Annotations, marks: p.AnnotationMarks, ledger: &p.Ledger}
	labels := side{pick: &p.Labels, marks: p.LabelMarks}
	if p.mapConcerns(&annotations, updated, old.Annotations, updated.Annotations, p.Ledger.Annotations) {
		return true // the ledger is the same from here on
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
		return strings.Contains(node.Annotations[p.Ledger.Applied], key) // decoding it costs more than a wake-up too many
	case ledger != "":
		return list(node.Annotations[ledger]).has(key)
	default:
		return true
	}
}

// taintConcerns looks at the taints that one list has and the other has not, or has with another value.
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

// ofKubernetes says whether a taint is one that Kubernetes' node lifecycle and cloud controllers set and remove.
func ofKubernetes(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "node.kubernetes.io" || domain == "node.cloudprovider.kubernetes.io"
}
