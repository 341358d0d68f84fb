package machineset

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// ReasonClusterDoesNotExist is the reason of the condition Paused of a set whose Cluster does not exist.
const ReasonClusterDoesNotExist = "ClusterDoesNotExist"

// observeCluster looks up the set's Cluster, and decides whether the set is paused.
func (p *pass) observeCluster(ctx context.Context) error {
	var err error
	if p.env.ports.ClusterOf != nil && p.state.ClusterName != "" {
		p.cluster, err = p.env.ports.ClusterOf(ctx, p.key(p.state.ClusterName))
		p.requeue(p.cluster.RetryAfter)
	}
	if err != nil {
		p.paused = true
		return fmt.Errorf("read Cluster %s: %w", p.key(p.state.ClusterName), err)
	}
	said, known, paused := decidePause(&p.state, p.env.kinds.Set.GVK.Kind, &p.cluster)
	if known {
		p.pausedCondition = &said
	}
	p.paused = paused
	return nil
}

// decidePause: a set is paused while it or its Cluster asks for that, also while it is being deleted. A Cluster that was not read may be
// paused. A set whose Cluster does not exist is not reconciled, but can be deleted.
func decidePause(set *contract.MachineSetState, kind string, cluster *external.ClusterView) (said metav1.Condition, known, paused bool) {
	var causes []string
	if cluster.State.SpecPaused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if set.Paused() {
		causes = append(causes, kind+" has the "+contract.PausedAnnotation+" annotation")
	}
	unread := cluster.Presence == external.Unread || cluster.Presence == external.KindMissing
	switch {
	case len(causes) > 0:
		return condition(ConditionPaused, metav1.ConditionTrue, ReasonPaused, strings.Join(causes, ", ")), true, true
	case unread && cluster.Problem != (external.Problem{}):
		return condition(ConditionPaused, metav1.ConditionUnknown, cluster.Problem.Reason, cluster.Problem.Message), true, true
	case unread:
		return metav1.Condition{}, false, true
	case cluster.Presence == external.Absent && set.Deleting.IsZero():
		return condition(ConditionPaused, metav1.ConditionUnknown, ReasonClusterDoesNotExist, fmt.Sprintf(
			"Cluster %s/%s does not exist: create it, or delete the %s", set.Key.Namespace, set.ClusterName, kind)), true, true
	}
	return condition(ConditionPaused, metav1.ConditionFalse, ReasonNotPaused, ""), true, false
}
