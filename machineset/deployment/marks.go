package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ownMark begins the delete marks of deployments: it tells them from those of other clients, such as cluster-autoscaler.
const ownMark = "MachineDeployment/"

// mine says whether nothing but a deployment has marked a Machine. That may be one that no longer exists: the set was adopted since.
func mine(m *contract.MachineState, marks []string) bool {
	for _, key := range append([]string{scale.MarkedAtAnnotation}, marks...) {
		if _, marked := m.Annotations[key]; marked && key != scale.DeleteAnnotation {
			return false
		}
	}
	return strings.HasPrefix(m.Annotations[scale.DeleteAnnotation], ownMark)
}

// markVictims marks the Machines that a set is to delete. A set whose Machines are all alike, or all go, needs no marks: whichever it
// chooses is right. In a paused rollout a mark may also say which set shrinks.
func (s *Scope) markVictims(ctx context.Context, of *set, change rollout.Change) error {
	if change.To >= change.From || change.To == 0 {
		return nil
	}
	machines := of.facts(s.env.marks).Machines
	differs := func(m rollout.Machine) bool { return !m.Deleting && (!m.Available || !m.Ready || m.Marked || m.Paused) }
	if !s.State.RolloutPaused && !slices.ContainsFunc(machines, differs) {
		return nil
	}
	if err := s.seesMarks(ctx); err != nil {
		return err
	}
	victims := map[types.UID]bool{}
	for _, v := range change.Victims {
		victims[v.UID] = true
	}
	for _, m := range machines {
		if m.Marked {
			delete(victims, m.UID)
		}
	}
	return s.mark(ctx, victims, contract.SetTo(ownMark+string(s.State.UID)))
}

// seesMarks confirms, once in a pass, whose own marks follow, that the Machines that go were chosen by the marks that Machines have now.
// cluster-autoscaler marks a Machine and then lowers the replicas: the cache of deployments may show its second write before the cache of
// Machines shows the first, and another Machine would be marked in its place.
func (s *Scope) seesMarks(ctx context.Context) error {
	if s.marksSeen {
		return nil
	}
	now := map[types.UID]map[string]string{}
	see := func(m *metav1.PartialObjectMetadata) { now[m.UID] = m.Annotations }
	if err := s.env.machines.EachLive(ctx, s.State.Key.Namespace, see); err != nil {
		return err
	}
	s.marksSeen = true
	return s.eachMachine(func(m machine) error { return s.env.machines.SameMarks(&m.State.Metadata, now[m.State.UID]) })
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

// mark gives some Machines the mark of the deployment, or takes it from them.
func (s *Scope) mark(ctx context.Context, which map[types.UID]bool, to contract.Change[string]) error {
	var u contract.MachineUpdate
	u.Annotations = map[string]contract.Change[string]{scale.DeleteAnnotation: to}
	return s.eachMachine(func(m machine) error {
		if !which[m.State.UID] {
			return nil
		}
		if err := send(ctx, s, s.env.kinds.Machine, m.Object, u); err != nil {
			return fmt.Errorf("mark %s %s for deletion: %w", s.env.kinds.Machine.GVK.Kind, m.State.Key, err)
		}
		return nil
	})
}
