package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef names one incarnation of a pod: a pod re-created under the same name has another UID.
type PodRef struct {
	Namespace string
	Name      string
	UID       types.UID
}

// RefOf returns the reference of a pod.
func RefOf(pod *corev1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// String returns "namespace/name".
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// NodePods are the pods of one draining Node. They are shared and never changed.
type NodePods struct {
	Node string
	Pods []*corev1.Pod
	// Rules replaces the planner's rules for this Node when it is not nil.
	Rules []Rule
}

// Hold says that something is under way for a pod, or that it was refused and has to rest. A held pod that would be
// evicted waits instead, with the hold's reason and message, and takes no token of its budget.
type Hold struct {
	Reason  Reason
	Message string
	// Only is the action that is held; a verdict with another one goes through. Undecided holds them all.
	Only Action
}

// Facts is what a plan may know besides the pods. The zero value is valid and means no budgets and nothing under way.
type Facts struct {
	// Now is the moment of the snapshot. The planner reads no clock.
	Now time.Time
	// Budgets are the PodDisruptionBudgets of at least all namespaces that have pods on the Nodes. They are shared and
	// never changed.
	Budgets []*policyv1.PodDisruptionBudget
	// Spent counts evictions per budget that were asked for and do not show in the budget's status yet.
	Spent map[types.NamespacedName]int32
	// Held is keyed by pod UID.
	Held map[types.UID]Hold
	// Turns, by Node, make pods with volumes leave one after the other; see [SerialVolumes]. Nodes without an entry drain as
	// if there were no volumes.
	Turns map[string]*VolumeTurns
}
