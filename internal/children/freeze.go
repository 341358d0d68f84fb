package children

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// Prefixes of the reasons of events on sets and deployments; the kind follows. FrozeMachineSet and UnfrozeMachineSet are Gardener's.
const (
	EventFroze   = "Froze"   // the set or deployment was frozen; the message gives the numbers
	EventUnfroze = "Unfroze" // the set or deployment may create again
	actionFreeze = "FreezeCreation"
)

// Freeze puts a verdict about a set or a deployment into its pass: the label, its annotation, the condition Frozen and an event. was is how
// it is frozen, and asked: the request to unfreeze has to go. The condition and the annotation follow the label, also where a crash or a
// person has left them without it. The event is recorded when the label is written. u is the Update of the pass.
func Freeze[S, U, CS, CU any](
	s *engine.Scope[S, U], c *Scope[CS, CU], u *contract.ReplicatedUpdate, gvk schema.GroupVersionKind, was safety.Freezing,
	v safety.Verdict, asked bool,
) {
	have := s.Common()
	tell := func(kind, reason, did string) {
		c.told = append(c.told, engine.Event{
			Kind: kind, Reason: reason + gvk.Kind, Action: actionFreeze, Note: fmt.Sprintf("%s %s: %s", did, gvk.Kind, v.Message),
		})
	}
	frozen := was != safety.NotFrozen
	reason, left := have.Annotations[safety.FrozenByAnnotation]
	switch {
	case v.Action == safety.Freeze:
		frozen, reason = true, v.Reason
		s.ChangeMetadata(safety.Labels(gvk.Group, reason))
		tell(corev1.EventTypeWarning, EventFroze, "Froze")
	case v.Action == safety.Thaw || asked:
		s.ChangeMetadata(safety.Labels(gvk.Group, ""))
		if v.Action == safety.Thaw {
			frozen = false
			tell(corev1.EventTypeNormal, EventUnfroze, "Unfroze")
		}
	case !frozen && left: // a person has removed the label alone: a later freeze of a person would count as one of a number
		s.ChangeAnnotation(safety.FrozenByAnnotation, contract.Cleared[string]())
	}
	_, found := engine.Find(s.Stored, safety.ConditionFrozen)
	switch {
	case frozen && v.Action != safety.Freeze && (found || reason == ""): // it is there already, or a person's label is enough
	case frozen:
		s.Assert(engine.Condition(safety.ConditionFrozen, metav1.ConditionTrue, reason, v.Message))
	case found:
		u.RemoveConditions = append(u.RemoveConditions, safety.ConditionFrozen)
	}
}
