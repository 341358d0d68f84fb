package propagate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Concerns reports whether a change of a Node can make it differ from what its owner wants, if it did not differ
// before. It filters events (noderef.Significant): what kubelets, network and storage plug-ins write to a Node does
// not concern the policy.
//
// With a ledger, only these count: keys and taints that the ledger remembers, the ledger itself, the marks and the startup
// taints. Without a ledger every change counts. Other taints count too, because [Desired.WithoutTaints] may contain any taint, except
// those of Kubernetes' own controllers, such as node.kubernetes.io/not-ready, unless the ledger remembers them. Neither Node may be nil.
// It allocates nothing.
func (p *Policy) Concerns(old, updated *corev1.Node) bool {
	annotations, labels := side{policy: p}, side{}
	if mapConcerns(&annotations, updated, old.Annotations, updated.Annotations, p.Ledger.Annotations) {
		return true // from here on both Nodes have the same ledger
	}
	if mapConcerns(&labels, updated, old.Labels, updated.Labels, p.Ledger.Labels) {
		return true
	}
	return p.taintConcerns(updated, old.Spec.Taints, updated.Spec.Taints) ||
		p.taintConcerns(updated, updated.Spec.Taints, old.Spec.Taints)
}

func mapConcerns(s *side, node *corev1.Node, old, updated map[string]string, ledger string) bool {
	for key, before := range old {
		if after, ok := updated[key]; (!ok || after != before) && keyConcerns(s, node, key, ledger) {
			return true
		}
	}
	for key := range updated {
		if _, ok := old[key]; !ok && keyConcerns(s, node, key, ledger) {
			return true
		}
	}
	return false
}

func keyConcerns(s *side, node *corev1.Node, key, ledger string) bool {
	return s.own(key) || ledger == "" || list(node.Annotations[ledger]).has(key)
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
	case !ofKubernetes(t.Key), findTaint(p.StartupTaints, t.Key, t.Effect) >= 0:
		return true
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
