package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/machineset/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// creation is what came of the creation of one slot.
type creation struct {
	entry scale.Entry
	// resourceVersion is that of the set's Machine; burnt: another object has the name, or the Machine is being deleted. Neither: err says
	// why, and the slot is still reserved.
	resourceVersion string
	uid             types.UID
	burnt           bool
	err             error
	// parts are the kinds of what the Machine was to refer to that are there, or may be: an answer can get lost.
	parts []schema.GroupVersionKind
}

// create creates the Machines of the reserved slots: one, and after each success twice as many at a time. What fails is
// resumed by a later pass, under the same names.
func (s *Scope) create(ctx context.Context, ledger scale.Ledger) error {
	ctx, cancel := context.WithTimeout(ctx, s.env.options.PassLimit)
	defer cancel()
	batches := scale.Batches{Ceiling: s.env.options.Parallel}
	mem := s.mem
	done, left := ledger, failedLast(ledger.Pending, func(e scale.Entry) bool { return mem.failedSlots[e.Slot] })
	var names []string
	var failed []error
	for len(left) > 0 && len(failed) == 0 && ctx.Err() == nil {
		n := batches.Next(len(left))
		for _, c := range s.createBatch(ctx, left[:n]) {
			mem.remember(c)
			switch {
			case c.err != nil:
				failed = append(failed, c.err)
			case c.burnt:
				done = done.Burn(c.entry.Slot)
				if c.resourceVersion != "" {
					done, _ = done.Created(c.entry.Slot, c.resourceVersion) // it counts until it is gone
				}
				s.mem.swept = false // parts of it may be left
			default:
				done, _ = done.Created(c.entry.Slot, c.resourceVersion) // all of one API server
				names = append(names, c.entry.Name)
			}
		}
		left = left[n:]
	}
	s.mem.tried(len(names) > 0, len(failed) > 0, s.State.Generation, s.env.frame.Options.Clock.Now())
	if len(names) > 0 {
		s.Eventf(corev1.EventTypeNormal, eventCreate, actionCreate, "Created %s", children.Named(names))
	}
	if len(failed) > 0 && !pass.IsStale(failed[0]) {
		s.Eventf(corev1.EventTypeWarning, eventFailedCreate, actionCreate, "Failed to create Machines: %v", failed[0])
	}
	// Machines that exist must leave the ledger: if one of them were deleted later, it would be made again.
	if err := s.writeLedger(context.WithoutCancel(ctx), ledger, done); err != nil && !patch.Retryable(err) {
		failed = append(failed, err)
	}
	if len(left) > 0 {
		s.Requeue(pass.ConflictRetry)
	}
	return errors.Join(failed...)
}

func (s *Scope) createBatch(ctx context.Context, entries []scale.Entry) []creation {
	results := make([]creation, len(entries))
	var running sync.WaitGroup
	for i, e := range entries {
		running.Go(func() { results[i] = s.createOne(ctx, e) })
	}
	running.Wait()
	return results
}

// createOne makes one Machine with what it refers to. Whatever exists already is judged by its stamp.
func (s *Scope) createOne(ctx context.Context, e scale.Entry) creation {
	seed := s.seed(e)
	c := creation{entry: e}
	for _, part := range []struct {
		template external.Object
		ref      *contract.Ref
		version  *string
	}{
		{s.templates.bootstrap, &seed.Bootstrap, &seed.BootstrapVersion},
		{s.templates.infrastructure, &seed.Infrastructure, &seed.InfrastructureVersion},
	} {
		var own bool
		*part.ref, *part.version, own, c.err = s.createPart(ctx, part.template, e, seed)
		if own && !part.ref.IsZero() {
			c.parts = append(c.parts, part.ref.GroupKind().WithVersion(*part.version))
		}
		if c.err != nil || !own {
			c.burnt = !own
			return c
		}
	}
	return s.createMachine(ctx, seed, c)
}

// createMachine makes the Machine of a slot whose parts are there.
func (s *Scope) createMachine(ctx context.Context, seed contract.MachineSeed, c creation) creation {
	machine, err := s.newMachine(seed)
	if err != nil {
		c.err = err
		return c
	}
	err = s.env.frame.Ports.Client.Create(ctx, machine)
	switch {
	case apierrors.IsAlreadyExists(err):
		have := pass.NewObject(s.env.kinds.Machine)
		if c.err = s.there(ctx, have, s.env.kinds.Machine.GVK.Kind, c.entry.Name); c.err != nil {
			return c
		}
		c.burnt = scale.JudgeMachine(have, s.State.UID, c.entry.Slot) != scale.Own
		if metav1.IsControlledBy(have, s.Object) {
			c.resourceVersion, c.uid = have.GetResourceVersion(), have.GetUID()
		}
	case err != nil:
		c.err = fmt.Errorf("create %s %s: %w", s.env.kinds.Machine.GVK.Kind, s.key(c.entry.Name), err)
	default:
		c.resourceVersion, c.uid = machine.GetResourceVersion(), machine.GetUID()
	}
	return c
}

// seed is what the set decides about the Machine of a slot.
func (s *Scope) seed(e scale.Entry) contract.MachineSeed {
	annotations := maps.Clone(s.State.Template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, scale.Stamp(s.State.UID, e.Slot))
	return contract.MachineSeed{
		Key: s.key(e.Name), Labels: machineLabels(&s.State), Annotations: annotations,
		Finalizers: s.env.options.MachineFinalizers, Owners: []metav1.OwnerReference{s.OwnerReference()},
	}
}

// newMachine returns the Machine to create, with the record of what the set gave it.
func (s *Scope) newMachine(seed contract.MachineSeed) (client.Object, error) {
	made, err := s.env.kinds.Maker.NewMachine(s.Object, seed)
	if err != nil {
		return nil, err
	}
	fields, err := s.env.kinds.Maker.SyncMachine(s.Object, made, nil)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(made.GetAnnotations())
	if annotations[scale.SlotAnnotation] == "" {
		return nil, fmt.Errorf("Kinds.Maker made a %s without the annotations of its seed, by which it would be known again",
			s.env.kinds.Machine.GVK.Kind)
	}
	annotations[GivenAnnotation] = giving(&s.State, fields).text()
	made.SetAnnotations(annotations)
	machine, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no client.Object", made)
	}
	return machine, nil
}

// createPart clones an object that a Machine references from a template. own is false when an object of another owner has the name.
func (s *Scope) createPart(ctx context.Context, template external.Object, e scale.Entry, seed contract.MachineSeed,
) (ref contract.Ref, version string, own bool, err error) {
	if template.Presence == external.NotReferenced {
		return contract.Ref{}, "", true, nil
	}
	owner := s.env.frame.OwnerReference(&s.State.Metadata, false) // the Machine becomes the controller
	part, err := contract.FromTemplate(template.Object, contract.Clone{
		Name: e.Name, Namespace: s.State.Key.Namespace, ClusterName: s.State.ClusterName,
		Labels: seed.Labels, Annotations: seed.Annotations, Owner: &owner,
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
	if err := s.there(ctx, have, gvk.Kind, e.Name); err != nil {
		return ref, gvk.Version, true, err
	}
	return ref, gvk.Version, scale.JudgePart(have, s.State.UID, e.Slot) == scale.Own, nil
}

// there reads an object that is said to exist, from the API server itself.
func (s *Scope) there(ctx context.Context, into client.Object, kind, name string) error {
	err := s.env.frame.Ports.APIReader.Get(ctx, s.key(name), into)
	switch {
	case external.SaysGone(err):
		return fmt.Errorf("%w: %s %s has gone a moment ago", pass.ErrStale, kind, s.key(name))
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind, s.key(name), err)
	}
	return nil
}
