package deployment

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ownMark is the prefix of deployments' delete marks, which distinguishes them from those of other clients, such as cluster-autoscaler.
const ownMark = "MachineDeployment/"

// mine reports whether only a deployment has marked a Machine. It may no longer exist, if the set was adopted since.
func mine(m *contract.MachineState, marks []string) bool {
	for _, key := range append([]string{scale.MarkedAtAnnotation}, marks...) {
		if _, marked := m.Annotations[key]; marked && key != scale.DeleteAnnotation {
			return false
		}
	}
	return strings.HasPrefix(m.Annotations[scale.DeleteAnnotation], ownMark)
}

// markVictims marks the Machines that a set is to delete, unless all are deleted. A mark of others is not changed.
func (s *Scope) markVictims(ctx context.Context, change rollout.Change) error {
	return s.mark(ctx, func(m machine) bool {
		goes := change.To > 0 && slices.Contains(change.Victims, scale.Victim{Name: m.Key.Name, UID: m.UID})
		return goes && !scale.Of(m.State, "", s.env.marks...).Marked
	}, contract.SetTo(ownMark+string(s.State.UID)))
}

func (s *Scope) eachMachine(do func(machine) error) error {
	var errs []error
	for _, one := range s.observed {
		for _, m := range one.machines {
			errs = append(errs, do(m))
		}
	}
	return errors.Join(errs...)
}

// mark sets or removes the deployment's mark on some Machines.
func (s *Scope) mark(ctx context.Context, which func(machine) bool, to contract.Change[string]) error {
	var u contract.MachineUpdate
	u.Annotations = map[string]contract.Change[string]{scale.DeleteAnnotation: to}
	return s.eachMachine(func(m machine) error {
		if !which(m) {
			return nil
		}
		return send(ctx, s, s.env.kinds.Machine, m.Object, u)
	})
}
