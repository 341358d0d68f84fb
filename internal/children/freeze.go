package children

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Freeze puts a verdict about a set or a deployment into its pass: the label, its annotation, the condition Frozen and an event. was is how
// it is frozen, and asked: the request to unfreeze has to go. The condition and the annotation follow the label, also where a crash or a
// person has left them without it. The event is recorded when the label is written. u is the Update of the pass.
func (s *Scope[S, U, CS, CU]) Freeze(u *contract.ReplicatedUpdate, was scale.Freezing, v scale.FreezeVerdict, asked bool) {
	owner, gvk := s.owner, s.frame.owner.Kind.GVK
	have := owner.Common()
	tell := func(kind, did string) { // FrozeMachineSet and UnfrozeMachineSet are Gardener's
		s.told = append(s.told, engine.Event{
			Kind: kind, Reason: did + gvk.Kind, Action: "FreezeCreation", Note: fmt.Sprintf("%s %s: %s", did, gvk.Kind, v.Message),
		})
	}
	frozen := was != scale.NotFrozen
	reason, left := have.Annotations[scale.FrozenByAnnotation]
	switch {
	case v.Action == scale.Freeze:
		frozen, reason = true, v.Reason
		owner.ChangeMetadata(scale.FreezeLabels(gvk.Group, reason))
		tell(corev1.EventTypeWarning, "Froze")
	case v.Action == scale.Thaw || asked:
		owner.ChangeMetadata(scale.FreezeLabels(gvk.Group, ""))
		if v.Action == scale.Thaw {
			frozen = false
			tell(corev1.EventTypeNormal, "Unfroze")
		}
	case !frozen && left: // a person has removed the label alone: a later freeze of a person would count as one of a number
		owner.ChangeAnnotation(scale.FrozenByAnnotation, contract.Cleared[string]())
	}
	_, found := engine.Find(owner.Stored, scale.ConditionFrozen)
	switch {
	case frozen && v.Action != scale.Freeze && (found || reason == ""): // it is there already, or a person's label is enough
	case frozen:
		owner.Assert(engine.Condition(scale.ConditionFrozen, metav1.ConditionTrue, reason, v.Message))
	case found:
		u.RemoveConditions = append(u.RemoveConditions, scale.ConditionFrozen)
	}
}
