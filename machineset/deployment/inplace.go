package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// inPlaceOf returns the state of a Machine's update in place, and the set to whose template it is updated.
func (m *set) inPlaceOf(one *contract.MachineState) (state rollout.InPlaceState, to string) {
	is := contract.ReadInPlace(one.Annotations)
	if is.State == contract.InPlaceMoved && slices.Contains(scale.ReceivedBy(m.Metadata), one.Key.Name) {
		return rollout.Received, is.Set
	}
	return rollout.InPlaceState(is.State), is.Set
}

// inPlace reports whether the strategy updates Machines in place.
func (s *Scope) inPlace() bool {
	return s.facts.Strategy.Type == rollout.InPlaceAuto || s.facts.Strategy.Type == rollout.InPlaceManual
}

// lacks reports whether the set must not create missing Machines because they have moved away. It may after its replicas are lowered.
func (m *set) lacks() bool {
	return m.Annotations[scale.DisableCreateAnnotation] == "true" && int(m.State.Replicas.Or(0)) > len(m.machines)
}

// receive returns the annotation by which the set counts the Machines that were moved to it, or none.
func (m *set) receive() map[string]contract.Change[string] {
	var to scale.Received
	for _, one := range m.machines {
		if contract.ReadInPlace(one.State.Annotations).State == contract.InPlaceMoved {
			to = append(to, one.State.Key.Name)
		}
	}
	if len(to) == 0 {
		return nil
	}
	slices.Sort(to)
	return map[string]contract.Change[string]{scale.ReceivedAnnotation: contract.SetTo(to.String())}
}

// updateInPlace writes the next state of Machines that are updated in place.
func (s *Scope) updateInPlace(ctx context.Context) error {
	return s.eachMachine(func(m machine) error {
		to, found := s.plan.InPlace[m.State.UID]
		if !found {
			return nil
		}
		text := contract.SetTo(contract.InPlace{State: string(to), Set: s.plan.Current.Name}.String())
		if to == rollout.NotInPlace {
			text = contract.Cleared[string]()
		}
		var u contract.MachineUpdate
		u.Annotations = map[string]contract.Change[string]{contract.InPlaceAnnotation: text}
		if to == rollout.Moved {
			if err := s.move(ctx, m, &u); err != nil {
				return err
			}
		}
		return send(ctx, s, s.env.kinds.Machine, m.Object, u)
	})
}

// move makes the current set the controller of a Machine and sets its labels, in one write, after confirmed.
func (s *Scope) move(ctx context.Context, m machine, u *contract.MachineUpdate) error {
	to := s.setBy(s.plan.Current.UID)
	if slices.Contains(scale.ReceivedBy(to.Metadata), m.State.Key.Name) { // from an earlier move, which replicas no longer include
		var forget contract.MachineSetUpdate
		forget.Annotations = map[string]contract.Change[string]{scale.ReceivedAnnotation: contract.Cleared[string]()}
		err := send(ctx, s, s.env.kinds.Set, to.Object, forget)
		return errors.Join(err, fmt.Errorf("%w: %s %s forgets an earlier move", engine.ErrStale, s.env.kinds.Set.GVK.Kind, to.Key))
	}
	u.OwnerReferences = contract.SetTo(children.Owned(m.State.OwnerReferences, *metav1.NewControllerRef(to.Object, s.env.kinds.Set.GVK)))
	u.Labels = map[string]contract.Change[string]{contract.SetNameLabel: contract.SetTo(contract.LabelValue(to.Key.Name))}
	for key, value := range to.State.Template.Labels {
		u.Labels[key] = contract.SetTo(value)
	}
	return nil
}
