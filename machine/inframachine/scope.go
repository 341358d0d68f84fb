package inframachine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Scope is one pass over one InfraMachine. It embeds the Scope of package pass. Only the worker that runs the pass uses it.
type Scope struct {
	pass.Scope[contract.ProvidedMachineState, contract.ProvidedMachineUpdate]

	// Machine is the owner, as StepMachine has read it; zero before, and in a deletion.
	Machine contract.MachineState

	env *Reconciler
}

// recollection is what a process remembers about one InfraMachine.
type recollection struct{ token string }

func (s *Scope) memory() *recollection { return s.env.memory.Of(s.State.Key, s.State.UID) }

func (s *Scope) ready(status metav1.ConditionStatus, reason, message string) {
	s.Assert(pass.Condition(contract.ConditionReady, status, reason, message))
}

// machineStep reads the owner Machine. Without one nothing is made: a person may have created the InfraMachine, or its Machine is not
// known to this cluster yet.
func machineStep(ctx context.Context, s *Scope) (Result, error) {
	kind := s.env.kinds.Machine
	at := slices.IndexFunc(s.State.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == kind.GVK.Kind && pass.Group(ref.APIVersion) == kind.GVK.Group
	})
	wait := func(message string) (Result, error) {
		s.ready(metav1.ConditionFalse, ReasonWaitingForMachine, message)
		return Result{Stop: true}, nil // an event follows
	}
	if at < 0 {
		return wait("Waiting for the " + kind.GVK.Kind + " controller to set the owner reference")
	}
	owner := s.State.OwnerReferences[at]
	key, obj := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: owner.Name}, pass.NewObject(kind)
	err := s.env.ports.Cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	missing := fmt.Sprintf("Waiting for %s %s, which has not been seen", kind.GVK.Kind, key)
	if apierrors.IsNotFound(err) {
		return wait(missing)
	}
	if err != nil {
		return Result{Stop: true}, fmt.Errorf("read %s %s: %w", kind.GVK.Kind, key, err)
	}
	if obj.GetUID() != owner.UID { // another one of the name: the owner is gone
		return wait(missing)
	}
	if err := kind.Adapter.Read(obj, &s.Machine); err != nil {
		return Result{Stop: true}, err
	}
	return Result{}, nil
}

func (s *Scope) setProvisioned() {
	if !s.State.Provisioned.Or(false) {
		s.State.Provisioned = contract.Some(true)
		s.Update.Provisioned = contract.SetTo(true)
	}
}

func (s *Scope) setAddresses(addresses []contract.Address) {
	if !slices.Equal(s.State.Addresses, addresses) {
		s.State.Addresses = addresses
		s.Update.Addresses = contract.SetTo(addresses)
	}
}

// setFailure records a failure. Empty values leave the recorded one as it is: a failure is never cleared.
func (s *Scope) setFailure(reason, message string) {
	change(&s.State.FailureReason, cmp.Or(reason, s.State.FailureReason), &s.Update.FailureReason)
	message = pass.Bounded(cmp.Or(message, s.State.FailureMessage), pass.MaxMessageLength)
	change(&s.State.FailureMessage, message, &s.Update.FailureMessage)
}

func change[T comparable](have *T, want T, into *contract.Change[T]) {
	if *have != want {
		*have = want
		*into = contract.SetTo(want)
	}
}

// problems are the reasons that a person has to act on: a condition that changes to one of them is a Warning event.
func problems() []string {
	return append(pass.Problems(), instance.ReasonInvalid, instance.ReasonFailed, instance.ReasonGone, instance.ReasonProviderIDMissing,
		string(provider.Unauthenticated), string(provider.Exhausted), string(provider.Terminal))
}

// flush writes the InfraMachine. One that is gone is no error.
func flush(ctx context.Context, s *Scope, err error) error {
	stored := s.Stored
	unwritten := s.Flush(ctx, pass.Writing[contract.ProvidedMachineUpdate]{
		Observes: err == nil && s.env.frame.Kind.StatusSubresource,
		Wrote: func(u contract.ProvidedMachineUpdate, _, status bool) {
			if status {
				s.Record(pass.ConditionEvents(stored, u.Conditions, problems())...)
			}
		},
	})
	if external.SaysGone(unwritten) {
		return nil
	}
	return unwritten
}
