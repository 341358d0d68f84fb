package noderef

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Significant reports whether a change of a Node can change a decision about its Machine. It filters Node events: a kubelet's heartbeat is
// not significant and causes no reconciliation.
//
// Significant changes are: the creation, deletion or replacement of a Node and the start of its deletion; its provider ID, labels, taints
// (but not TimeAdded), unschedulable, addresses and node info (but not swap); the status of any condition, because health checks may use
// any type; the addition or removal of an annotation, and the values of those of Cluster API and this module. Not significant are the
// values of other annotations, in which agents of networks and devices write their heartbeats, and capacity, images, volumes, reasons,
// messages and times. Either Node may be nil. It allocates nothing.
//
// statusOnly ignores changes of labels, annotations and taints, for a reader that watches many Nodes at once and does not use them.
func Significant(old, updated *corev1.Node, statusOnly bool) bool {
	if old == nil || updated == nil {
		return old != updated
	}
	if old == updated {
		return false
	}
	return old.UID != updated.UID ||
		old.DeletionTimestamp.IsZero() != updated.DeletionTimestamp.IsZero() ||
		old.Spec.ProviderID != updated.Spec.ProviderID ||
		old.Spec.Unschedulable != updated.Spec.Unschedulable ||
		!sameStatus(&old.Status, &updated.Status) ||
		!statusOnly && !sameMetadata(old, updated)
}

func sameMetadata(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && sameAnnotations(a.Annotations, b.Annotations) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, sameTaint)
}

func sameAnnotations(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		other, found := b[key]
		if !found || other != value && (strings.Contains(key, "cluster.x-k8s.io/") || strings.HasPrefix(key, "machinist.dev")) {
			return false
		}
	}
	return true
}

func sameStatus(a, b *corev1.NodeStatus) bool {
	return slices.Equal(a.Addresses, b.Addresses) &&
		sameConditions(a.Conditions, b.Conditions) &&
		sameInfo(&a.NodeInfo, &b.NodeInfo)
}

func conditionStatus(conditions []corev1.NodeCondition, t corev1.NodeConditionType) corev1.ConditionStatus {
	for i := range conditions {
		if conditions[i].Type == t {
			return conditions[i].Status
		}
	}
	return ""
}

// sameConditions compares by type, because the order of a Node's conditions has no meaning.
func sameConditions(a, b []corev1.NodeCondition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if conditionStatus(b, a[i].Type) != a[i].Status {
			return false
		}
	}
	return true
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// sameInfo ignores the swap, which is a pointer: every decoded Node has its own, so every heartbeat would be a change.
func sameInfo(a, b *corev1.NodeSystemInfo) bool {
	x, y := *a, *b
	x.Swap, y.Swap = nil, nil
	return x == y
}

// Ready reports whether the Node's Ready condition is True. It is false for a nil Node.
func Ready(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	return conditionStatus(node.Status.Conditions, corev1.NodeReady) == corev1.ConditionTrue
}
