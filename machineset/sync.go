package machineset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// syncStep copies values that change in place from the set's template to its Machines, and labels and annotations to the objects that they
// reference. On a Machine in deletion only fields of the spec change, because its limits may be what delays it.
func syncStep(ctx context.Context, s *Scope) (Result, error) {
	given, err := s.newMachine(s.seed(scale.Entry{})) // what a new Machine gets is what the others get
	if err == nil {
		err = s.machines.Sync(children.Digest(given), func(m member) error { return s.syncMachine(ctx, m) })
	}
	return Result{}, s.DeferError(err)
}

func (s *Scope) syncMachine(ctx context.Context, m member) error {
	before := children.ReadGiven(m.Metadata)
	var u contract.MachineUpdate
	if m.Deleting.IsZero() {
		u.MetadataUpdate = before.Changes(m.Metadata, machineLabels(&s.State), s.State.Template.Annotations)
		if len(u.Labels)+len(u.Annotations) > 0 {
			for _, ref := range []contract.Ref{m.State.Bootstrap, m.State.Infrastructure} {
				if err := s.syncPart(ctx, ref, before); err != nil {
					return err
				}
			}
		}
	}
	// The Maker handles the fields, the adapter the rest: both go into one patch.
	kind := children.Also(s.env.kinds.Machine, func(obj contract.Object, u *contract.MachineUpdate) error {
		fields, err := s.env.kinds.Maker.SyncMachine(s.Object, obj, before.Fields)
		if err != nil {
			return err
		}
		record := giving(&s.State, fields)
		if !m.Deleting.IsZero() {
			record.Labels, record.Annotations = before.Labels, before.Annotations // they are not changed
		}
		record.Record(m.Metadata, &u.MetadataUpdate)
		return nil
	})
	_, err := engine.Write(ctx, s.env.frame.Writer, kind, m.Object, u)
	return err
}

// selectorOf returns the selector of a set's Machines, all of its cluster. A set without a selector selects the Machines with its name
// label.
func selectorOf(set *contract.MachineSetState) (labels.Selector, error) {
	return children.Selector(set.Selector, contract.CommonOf(set), contract.SetNameLabel)
}

// machineLabels returns the labels that the Machines of a set get. Rule: Cluster API's machineLabelsFromMachineSet.
func machineLabels(set *contract.MachineSetState) map[string]string {
	all := map[string]string{}
	maps.Copy(all, set.Template.Labels)
	all[contract.SetNameLabel] = contract.LabelValue(set.Key.Name)
	if name, found := set.Labels[contract.DeploymentNameLabel]; found {
		all[contract.DeploymentNameLabel] = name
	}
	if set.ClusterName != "" {
		all[contract.ClusterNameLabel] = set.ClusterName
	}
	return all
}

// syncPart copies the labels and annotations of the template to an object that a Machine references, but not to a Shared one.
func (s *Scope) syncPart(ctx context.Context, ref contract.Ref, before children.Given) error {
	if shared := s.env.frame.Shared; shared != nil && shared(ref) {
		return nil
	}
	found, err := s.env.frame.Tracker.Get(ctx, s.State.Key, ref)
	s.Requeue(found.RetryAfter)
	switch {
	case err != nil:
		return err
	case found.Presence == external.Unread && found.Problem.Message != "" && found.Problem.Reason != external.ReasonCacheNotSynced:
		return fmt.Errorf("read %s %s, which is to get labels and annotations: %s", ref.Kind, s.key(ref.Name), found.Problem.Message)
	case found.Presence == external.Unread || found.Presence == external.Present && s.env.frame.Writer.Behind(found.Object):
		return fmt.Errorf("%w: %s %s could not be read yet", engine.ErrStale, ref.Kind, s.key(ref.Name))
	case found.Presence != external.Present || found.Deleting():
		return nil
	}
	var have contract.Metadata
	have.From(found.Object)
	u := contract.MachineUpdate{MetadataUpdate: before.Changes(&have, machineLabels(&s.State), s.State.Template.Annotations)}
	metadata := contract.Unstructured(found.GVK, contract.LayoutsOf(contract.V1Beta2).Machine) // any layout: nothing else is written
	if _, err := engine.Write(ctx, s.env.frame.Writer, metadata, found.Object, u); !external.IsGone(err) {
		return err
	}
	return nil
}

// giving returns the record of the values that a set gives its Machines, with its lists sorted.
func giving(set *contract.MachineSetState, fields []string) children.Given {
	return children.Given{
		Labels: machineLabels(set), Annotations: slices.Sorted(maps.Keys(set.Template.Annotations)), Fields: slices.Sorted(slices.Values(fields)),
	}
}
