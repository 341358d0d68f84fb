package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef identifies one Pod: a Pod that is created again under the same name has another UID.
type PodRef struct {
	Namespace string
	Name      string
	UID       types.UID
}

// RefOf returns the reference of a Pod.
func RefOf(pod *corev1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// String returns "namespace/name".
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// NodePods are the Pods of one draining Node. They are shared and must not be changed.
type NodePods struct {
	Node string
	Pods []*corev1.Pod
	// Rules replaces the rules of the planner for this Node when it is not nil.
	Rules []Rule
}

// Hold says that a request for a Pod is in flight, or that it was refused and the Pod rests. A held Pod waits instead of being evicted,
// with the reason and the message of the hold, and does not count against its budget.
type Hold struct {
	Reason  Reason
	Message string
	// Only is the action that is held; other actions are not affected. Undecided holds all actions.
	Only Action
}

// Facts is what a plan knows besides the Pods. The zero value is valid: no budgets, and no requests in flight.
type Facts struct {
	// Now is the time of the snapshot. The planner does not read a clock.
	Now time.Time
	// Budgets are the PodDisruptionBudgets of at least all Namespaces that have Pods on the Nodes. They are shared and not changed.
	Budgets []*policyv1.PodDisruptionBudget
	// Spent counts, per budget, requested evictions that the status of the budget does not show yet.
	Spent map[types.NamespacedName]int32
	// Held is keyed by Pod UID.
	Held map[types.UID]Hold
	// Turns, by Node, let Pods with volumes leave one after the other; see [SerialVolumes]. On Nodes without an entry, Pods with volumes
	// leave like other Pods.
	Turns map[string]*VolumeTurns
}
