package pass

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// PauseFacts are the inputs of DecidePause.
type PauseFacts struct {
	Cluster    external.ClusterView
	ClusterKey types.NamespacedName
	// Failed: the Cluster could not be looked up, and the error is retried.
	Failed bool
	// Kind is that of the object, and Annotated is true when it has contract.PausedAnnotation.
	Kind                string
	Annotated, Deleting bool
}

// DecidePause returns the condition Paused, absent while it is unknown only for a short time, and whether the pass ends. An object is
// paused while it or its Cluster asks for that, also while it is being deleted. A Cluster that was not read may be paused. An object whose
// Cluster does not exist is not reconciled, but can be deleted: no Cluster is left that could pause it. Rule: contract page "Paused".
func DecidePause(f PauseFacts) (said contract.Opt[metav1.Condition], ends bool) {
	say := func(status metav1.ConditionStatus, reason, message string) contract.Opt[metav1.Condition] {
		return contract.Some(Condition(contract.ConditionPaused, status, reason, message))
	}
	var causes []string
	if f.Cluster.State.SpecPaused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if f.Annotated {
		causes = append(causes, f.Kind+" has the "+contract.PausedAnnotation+" annotation")
	}
	unread := f.Failed || f.Cluster.Presence == external.Unread || f.Cluster.Presence == external.KindMissing
	switch {
	case len(causes) > 0:
		return say(metav1.ConditionTrue, contract.ReasonPaused, strings.Join(causes, ", ")), true
	case unread && !f.Failed && f.Cluster.Problem != (external.Problem{}):
		return say(metav1.ConditionUnknown, f.Cluster.Problem.Reason, f.Cluster.Problem.Message), true
	case unread:
		return contract.Opt[metav1.Condition]{}, true
	case f.Cluster.Presence == external.Absent && !f.Deleting:
		return say(metav1.ConditionUnknown, contract.ReasonClusterDoesNotExist, fmt.Sprintf(
			"Cluster %s does not exist: create it, or delete the %s", f.ClusterKey, f.Kind)), true
	}
	return say(metav1.ConditionFalse, contract.ReasonNotPaused, ""), false
}
