package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// ReasonClusterDoesNotExist is the reason of the condition Paused of a Machine whose Cluster does not exist, so that it is unknown whether
// the Machine is paused. The API server has confirmed that it does not exist.
const ReasonClusterDoesNotExist = "ClusterDoesNotExist"

// pauseFacts are the inputs of decidePause.
type pauseFacts struct {
	Cluster    external.ClusterView
	ClusterKey types.NamespacedName
	// Failed: the Cluster could not be looked up, and the error is retried.
	Failed bool
	// Kind is that of the Machine, and Annotated is true when it has the annotation.
	Kind                string
	Annotated, Deleting bool
}

// pauseDecision says whether the pass ends, and the condition Paused: none while it is unknown only for a short time.
type pauseDecision struct {
	LeaveAlone bool
	Condition  contract.Opt[metav1.Condition]
}

// decidePause: a Machine is paused while it or its Cluster asks for that, also while it is being deleted. A Cluster that was not read may
// be paused. A Machine whose Cluster does not exist is not reconciled, but can be deleted: no Cluster is left that could pause it.
func decidePause(f pauseFacts) pauseDecision {
	say := func(status metav1.ConditionStatus, reason, message string) contract.Opt[metav1.Condition] {
		return contract.Some(condition(ConditionPaused, status, reason, message))
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
		return pauseDecision{LeaveAlone: true, Condition: say(metav1.ConditionTrue, ReasonPaused, strings.Join(causes, ", "))}
	case unread && !f.Failed && f.Cluster.Problem != (external.Problem{}):
		return pauseDecision{LeaveAlone: true, Condition: say(metav1.ConditionUnknown, f.Cluster.Problem.Reason, f.Cluster.Problem.Message)}
	case unread:
		return pauseDecision{LeaveAlone: true}
	case f.Cluster.Presence == external.Absent && !f.Deleting:
		return pauseDecision{LeaveAlone: true, Condition: say(metav1.ConditionUnknown, ReasonClusterDoesNotExist, fmt.Sprintf(
			"Cluster %s does not exist: create it, or delete the %s", f.ClusterKey, f.Kind))}
	}
	return pauseDecision{Condition: say(metav1.ConditionFalse, ReasonNotPaused, "")}
}

// pauseStep ends the pass of a paused Machine. When the Machine or its Cluster asks for the pause, queued evictions of its drain are
// cancelled. A Cluster that is unread for a short time does not restart the drain.
func pauseStep(_ context.Context, s *Scope) (Result, error) {
	d := decidePause(pauseFacts{
		Cluster: s.Cluster, Failed: s.ClusterErr != nil, Kind: s.env.kind.GVK.Kind, Annotated: s.State.Paused(),
		ClusterKey: types.NamespacedName{Namespace: s.State.Key.Namespace, Name: s.State.ClusterName},
		Deleting:   !s.State.Deleting.IsZero(),
	})
	said, found := d.Condition.Get()
	result := Result{}
	switch {
	case d.LeaveAlone:
		result = s.Pause(said.Status, said.Reason, said.Message)
	case found:
		s.Assert(said)
	}
	result.RequeueAfter = soonest(s.Cluster.RetryAfter, s.Cluster.ControlPlane.RetryAfter)
	return result, s.ClusterErr
}

// finalizerStep keeps the Machine until all its objects are gone. The finalizer must be stored before any other object is changed: a
// Machine without it could be deleted and leave an instance behind.
func finalizerStep(_ context.Context, s *Scope) (Result, error) {
	if slices.Contains(s.State.Finalizers, s.env.options.Finalizer) {
		return Result{}, nil
	}
	s.SetFinalizers(append(slices.Clone(s.State.Finalizers), s.env.options.Finalizer))
	if err := s.checkStored(); err != nil {
		return Result{Stop: true}, err
	}
	return Result{Checkpoint: true}, nil
}

// ownersStep labels the Machine with its cluster, and adds the Cluster as an owner if the Machine has no controller.
func ownersStep(ctx context.Context, s *Scope) (Result, error) {
	if s.State.ClusterName != "" {
		s.SetLabel(contract.ClusterNameLabel, s.State.ClusterName)
	}
	return Result{}, s.ownedByCluster(ctx)
}

// ownedByCluster adds the Cluster as an owner. A Cluster that is being deleted may have removed itself from a Machine that was reconciled
// before: then the API server is asked whether the Cluster stays.
func (s *Scope) ownedByCluster(ctx context.Context) error {
	if s.Cluster.Presence != external.Present || s.Cluster.GVK.Empty() || s.Cluster.State.UID == "" || !s.Cluster.State.Deleting.IsZero() {
		return nil
	}
	version, kind := s.Cluster.GVK.ToAPIVersionAndKind()
	owners, changed := adopted(&s.State.Metadata, metav1.OwnerReference{
		APIVersion: version, Kind: kind, Name: s.Cluster.State.Key.Name, UID: s.Cluster.State.UID,
	})
	if !changed {
		return nil
	}
	if s.update.Finalizers.Keeps() {
		if stays, err := s.Cluster.Stays(ctx, s.env.ports.APIReader); err != nil || !stays {
			return err
		}
	}
	s.SetOwnerReferences(owners)
	return nil
}
