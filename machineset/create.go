package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// templatesStep reads the templates that new Machines need. A template that does not exist, or was not read, only prevents the set from
// creating. A set that is being deleted needs no templates.
func templatesStep(ctx context.Context, s *Scope) (Result, error) {
	if !s.State.Deleting.IsZero() {
		return Result{}, nil
	}
	var errs [2]error
	for i, ref := range []contract.Ref{s.State.Template.Bootstrap, s.State.Template.Infrastructure} {
		var problem external.Problem
		if s.templates[i], problem, errs[i] = s.ReadTemplate(ctx, ref); problem != (external.Problem{}) {
			s.Hold(problem.Reason, problem.Message)
		}
	}
	return Result{}, errors.Join(errs[:]...)
}

// createMachine creates the objects that the Machine of a slot references, and returns the Machine to create. own is false when an object
// of another owner has the name. Objects of a slot that is abandoned later remain until the set, which owns them, is deleted: without a
// Machine their provider ignores them.
func (s *Scope) createMachine(ctx context.Context, e scale.Entry) (machine client.Object, own bool, err error) {
	seed := s.seed(e)
	if seed.Bootstrap, seed.BootstrapVersion, own, err = s.createPart(ctx, s.templates[0], e, seed); err != nil || !own {
		return nil, own, err
	}
	if seed.Infrastructure, seed.InfrastructureVersion, own, err = s.createPart(ctx, s.templates[1], e, seed); err != nil || !own {
		return nil, own, err
	}
	machine, err = s.newMachine(seed)
	return machine, true, err
}

// seed returns what the set decides about the Machine of a slot.
func (s *Scope) seed(e scale.Entry) contract.MachineSeed {
	annotations := map[string]string{}
	maps.Copy(annotations, s.State.Template.Annotations)
	maps.Copy(annotations, scale.Stamp{Set: s.State.UID, Slot: e.Slot}.Annotations())
	return contract.MachineSeed{Seed: contract.Seed{
		Key: s.key(e.Name), Labels: machineLabels(&s.State), Annotations: annotations,
		Finalizers: engine.Finalizers(s.env.kinds.Machine, contract.MachineFinalizer), Owners: []metav1.OwnerReference{s.OwnerReference()},
	}}
}

// newMachine returns the Machine to create, with the record of the values that the set gave it.
func (s *Scope) newMachine(seed contract.MachineSeed) (client.Object, error) {
	made, err := s.env.kinds.Maker.NewMachine(s.Object, seed)
	if err != nil {
		return nil, err
	}
	fields, err := s.env.kinds.Maker.SyncMachine(s.Object, made, nil)
	if err != nil {
		return nil, err
	}
	return giving(&s.State, fields).Of(made), nil
}

// createPart clones an object that a Machine references from a template. own is false when an object of another owner has the name, or an
// object that was created from an earlier template and has no Machine: parts of different templates are never combined.
func (s *Scope) createPart(ctx context.Context, template external.Object, e scale.Entry, seed contract.MachineSeed,
) (ref contract.Ref, version string, own bool, err error) {
	if template.Presence == external.NotReferenced {
		return contract.Ref{}, "", true, nil
	}
	from := s.fingerprint()
	annotations := maps.Clone(seed.Annotations)
	maps.Copy(annotations, scale.Stamp{Set: s.State.UID, Slot: e.Slot, From: from}.Annotations())
	owner := s.env.frame.OwnerReference(&s.State.Metadata, false) // the Machine becomes the controller
	part, err := contract.FromTemplate(template.Object, contract.Clone{
		Name: e.Name, Namespace: s.State.Key.Namespace, ClusterName: s.State.ClusterName,
		Labels: seed.Labels, Annotations: annotations, Owner: &owner,
	})
	if err != nil {
		return contract.Ref{}, "", true, err
	}
	gvk := part.GroupVersionKind()
	ref = contract.Ref{Group: gvk.Group, Kind: gvk.Kind, Name: e.Name}
	err = s.env.frame.Ports.Client.Create(ctx, part)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			err = fmt.Errorf("create %s %s: %w", gvk.Kind, s.key(e.Name), err)
		}
		return ref, gvk.Version, true, err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(gvk)
	if err := s.env.machines.Existing(ctx, have, gvk.Kind, s.key(e.Name)); err != nil {
		return ref, gvk.Version, true, err
	}
	if !scale.IsPartOf(have, s.State.UID, e.Slot) {
		return ref, gvk.Version, false, nil
	}
	if was := scale.ReadStamp(have.GetAnnotations()).From; was == "" || was == from {
		return ref, gvk.Version, true, nil
	}
	// The object is from an attempt before the template was changed, and the slot is abandoned. If the Machine was created nevertheless, it is
	// complete and missing in the cache, and its own creation decides.
	gone, err := external.ConfirmAbsent(ctx, s.env.frame.Ports.APIReader, s.env.kinds.Machine.GVK, s.key(e.Name))
	return ref, gvk.Version, !gone, err
}

// fingerprint returns a digest of the sources of new Machines: the Machine as the set's template renders it, and the templates of its
// objects. It is empty when the Machine cannot be rendered, which its creation reports.
func (s *Scope) fingerprint() string {
	machine, err := s.env.kinds.Maker.NewMachine(s.Object, contract.MachineSeed{Seed: contract.Seed{Key: s.State.Key}})
	if err != nil {
		return ""
	}
	parts := []any{machine}
	for _, t := range s.templates {
		if t.Object != nil {
			parts = append(parts, t.GVK.String(), t.Object.Object["spec"])
		}
	}
	return children.Digest(parts...)
}
