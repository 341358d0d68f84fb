package children

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Freeze adds a verdict about a set or a deployment to its pass: the label, the condition Frozen and an event. was is the present state;
// asked: remove the request to unfreeze. The condition follows the label, even if a crash or a person has left one without the other. The
// event is recorded when the label is written. u is the Update of the pass.
func (s *Scope[S, U, CS, CU]) Freeze(u *contract.ReplicatedUpdate, was scale.Freezing, v scale.FreezeVerdict, asked bool) {
	owner, gvk := s.owner, s.frame.owner.Kind.GVK
	record := func(kind, did string) { // FrozeMachineSet and UnfrozeMachineSet are Gardener's
		s.events = append(s.events, engine.Event{
			Kind: kind, Reason: did + gvk.Kind, Action: "FreezeCreation", Note: fmt.Sprintf("%s %s: %s", did, gvk.Kind, v.Message),
		})
	}
	switch {
	case v.Action == scale.Freeze:
		owner.ChangeMetadata(scale.FreezeLabels(gvk.Group, v.Reason))
		record(corev1.EventTypeWarning, "Froze")
	case v.Action == scale.Thaw:
		owner.ChangeMetadata(scale.FreezeLabels(gvk.Group, ""))
		record(corev1.EventTypeNormal, "Unfroze")
	case asked:
		owner.ChangeMetadata(scale.FreezeLabels(gvk.Group, ""))
	}
	_, found := engine.Find(owner.Stored, scale.ConditionFrozen)
	switch kept := v.Action == scale.Keep && was == scale.FrozenByGuard; {
	case v.Action == scale.Freeze:
		owner.Assert(engine.Condition(scale.ConditionFrozen, metav1.ConditionTrue, v.Reason, v.Message))
	case kept && !found:
		owner.Assert(engine.Condition(scale.ConditionFrozen, metav1.ConditionTrue, owner.Common().Labels[scale.FreezeLabel], ""))
	case !kept && found:
		u.RemoveConditions = append(u.RemoveConditions, scale.ConditionFrozen)
	}
}
