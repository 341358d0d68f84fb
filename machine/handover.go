package machine

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// Conditions by which Cluster API up to v1.13 records how far a deletion is. They are read, and never written. The one of the hooks comes
// with the first look at them, whatever it says.
const (
	clusterAPIDrained      = "DrainingSucceeded"
	clusterAPIDetached     = "VolumeDetachSucceeded"
	clusterAPIPreTerminate = "PreTerminateDeleteHookSucceeded"
)

// finishedByClusterAPI is when Cluster API found a stage of a deletion to be over, or looked at pre-terminate hooks, which come after it
// however it ended; zero if it did neither. What a typed object says of it is not known.
func finishedByClusterAPI(obj contract.Object, stage string) time.Time {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return time.Time{}
	}
	conditions := contract.ConditionsShaped(contract.ShapeV1Beta1, "status", "deprecated", "v1beta1", "conditions").
		Else(contract.ConditionsShaped(contract.ShapeV1Beta1, "status", "conditions")) // of a Machine of v1beta1
	if c, found, err := conditions.Find(u.Object, stage); err == nil && found && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	if c, found, err := conditions.Find(u.Object, clusterAPIPreTerminate); err == nil && found {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// youngNode is how old a Node is at least when its drain counts: the clocks of two clusters differ. One that was younger is drained
// again, which takes no time if it was drained.
const youngNode = time.Minute

// overFor reports whether a stage that Cluster API finished then is over for this deletion and this Node, nil while it is unread. A Machine
// from a backup may tell of another deletion. A Node that registered afterwards was not drained: Cluster API takes a Node that it does not
// find for drained, and in v1beta2 it keeps no UID.
func overFor(finished, deleting time.Time, node *corev1.Node) bool {
	if finished.IsZero() || deleting.IsZero() || finished.Before(deleting) {
		return false
	}
	return node == nil || !finished.Before(node.CreationTimestamp.Add(youngNode))
}
