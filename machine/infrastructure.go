package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

// infrastructureFacts are the inputs of decideInfrastructure.
type infrastructureFacts struct {
	Kind        string // of the Machine
	External    external.Object
	Machine     contract.InfraMachineState // read when External is Present
	Provisioned bool                       // reported before; it is never reset
	ProviderID  string                     // of the Machine, empty before it has one
	Deleting    bool
}

// infrastructureDecision is the result of decideInfrastructure.
type infrastructureDecision struct {
	// Adopt: provider ID, addresses and failure domain are copied from the InfraMachine. AdoptID: only the provider ID is.
	Adopt, AdoptID bool
	// Provisioned is true when the infrastructure was provisioned, now or before.
	Provisioned bool
	Condition   metav1.Condition
	// Failure is the permanent failure that the InfraMachine reports.
	Failure engine.Failure
}

// decideInfrastructure applies the contract: no value is copied before the provider reports that the infrastructure is provisioned;
// afterwards values are copied in every pass, because addresses change. Rule: contract page "InfraMachine". In a deletion, a provider ID
// that was never reported as provisioned is copied too: the instance exists, and its Node may have joined or may still join.
func decideInfrastructure(f infrastructureFacts) infrastructureDecision {
	if f.External.Presence == external.NotReferenced {
		return infrastructureDecision{Provisioned: f.Provisioned, Condition: engine.Condition(contract.ConditionInfrastructureReady,
			metav1.ConditionFalse, contract.ReasonDoesNotExist, "the Machine refers to no infrastructure: set its reference")}
	}
	if !f.External.Usable() {
		return infrastructureDecision{Provisioned: f.Provisioned,
			Condition: engine.Unavailable(contract.ConditionInfrastructureReady, f.Kind, f.External, f.Provisioned, f.Deleting)}
	}
	kind := f.External.Ref.Kind
	ready := f.Machine.Provisioned || f.Provisioned
	d := infrastructureDecision{Provisioned: f.Provisioned}
	d.AdoptID = f.Deleting && f.ProviderID == "" &&
		noderef.ValidProviderID(f.Machine.ProviderID) && unacceptable(&f.Machine) == ""
	d.Failure = engine.FailureOf(f.External, f.Machine.FailureReason, f.Machine.FailureMessage)
	d.Condition = engine.Mirror(contract.ConditionInfrastructureReady, f.Machine.Ready,
		engine.Initialized(contract.ConditionInfrastructureReady, ready, kind+" status.initialization.provisioned is false"))
	if !ready || f.External.Deleting() {
		return d
	}
	if !noderef.ValidProviderID(f.Machine.ProviderID) {
		d.Condition = engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, ReasonProviderIDMissing, fmt.Sprintf(
			"%s %s reports its machine as provisioned, but its spec.providerID is %q and names no instance: the provider must set it",
			kind, f.External.Ref.Name, f.Machine.ProviderID))
		return d
	}
	if wrong := unacceptable(&f.Machine); wrong != "" {
		d.Condition = engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, external.ReasonContractViolation,
			fmt.Sprintf("%s %s breaks contract %s: %s", kind, f.External.Ref.Name, f.External.Contract, wrong))
		return d
	}
	d.Adopt, d.Provisioned = true, true
	return d
}

// Limits of a Machine's fields in cluster.x-k8s.io/v1beta2. The API server rejects a whole write for one value beyond them.
const (
	maxProviderIDLength = 512
	maxOthers           = 256 // the length of a failure domain and of an address, and how many addresses there are
)

// unacceptable describes the provider's value that a Machine cannot store, empty when it can store all of them.
func unacceptable(m *contract.InfraMachineState) string {
	types := []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}
	wrong := func(a contract.Address) bool {
		return !slices.Contains(types, a.Type) || a.Address == "" || len(a.Address) > maxOthers
	}
	switch at := slices.IndexFunc(m.Addresses, wrong); {
	case len(m.ProviderID) > maxProviderIDLength:
		return fmt.Sprintf("spec.providerID has more than %d characters", maxProviderIDLength)
	case len(m.FailureDomain.Or("")) > maxOthers:
		return fmt.Sprintf("the failure domain has more than %d characters", maxOthers)
	case len(m.Addresses) > maxOthers:
		return fmt.Sprintf("there are more than %d addresses", maxOthers)
	case at >= 0:
		return fmt.Sprintf("status.addresses.%d is %s %q: want 1 to %d characters, and a type of %s", at, m.Addresses[at].Type,
			m.Addresses[at].Address, maxOthers, strings.Join(types, ", "))
	}
	return ""
}

// infrastructureStep reads the infrastructure object and copies its values. In a deletion, observeStep stores a new provider ID before the
// object that has it is deleted.
func infrastructureStep(ctx context.Context, s *Scope) (Result, error) {
	facts := infrastructureFacts{Kind: s.env.kind.GVK.Kind, Provisioned: s.State.InfrastructureReady.Or(false), ProviderID: s.State.ProviderID,
		Deleting: s.Deleting()}
	read := func(found external.Object) error {
		return contract.LayoutsOf(found.Contract).InfraMachine.Read(found.Object, &facts.Machine)
	}
	used, err := s.readReferenced(ctx, s.State.Infrastructure, &s.Infrastructure, contract.ConditionInfrastructureReady, read)
	if !used {
		return Result{}, err
	}
	facts.External = s.Infrastructure
	decision := decideInfrastructure(facts)
	if decision.Adopt || decision.AdoptID {
		s.SetProviderID(facts.Machine.ProviderID)
	}
	if decision.Adopt {
		if facts.Machine.HasAddresses {
			s.SetAddresses(facts.Machine.Addresses)
		}
		if domain, found := facts.Machine.FailureDomain.Get(); found {
			s.SetFailureDomain(domain)
		}
		if domain, found := facts.Machine.FailureDomainFallback.Get(); found {
			engine.Set(&s.State.WantedFailureDomain, domain, &s.Update.WantedFailureDomain)
		}
	}
	if decision.Provisioned {
		s.SetInfrastructureReady()
	}
	s.recordFailure(decision.Failure)
	s.Assert(decision.Condition)
	return Result{RequeueAfter: s.Infrastructure.RetryAfter}, s.failWithoutInfrastructure(ctx)
}

// readReferenced reads a referenced object and passes it to the given function. It returns false when there is no object to use: after an
// error, and for a Machine in deletion without a reference.
func (s *Scope) readReferenced(
	ctx context.Context, ref contract.Ref, into *external.Object, kind string, read func(external.Object) error,
) (bool, error) {
	if ref.IsZero() && s.Deleting() {
		return false, nil
	}
	found, err := s.ReadReferenced(ctx, kind, ref, s.givesUp(), read)
	*into = found
	return err == nil, err
}

// recordFailure records a failure. An empty value does not change the recorded failure, which is never cleared.
func (s *Scope) recordFailure(f engine.Failure) {
	if f == (engine.Failure{}) {
		return
	}
	f = engine.Failure{Reason: cmp.Or(f.Reason, s.State.FailureReason), Message: cmp.Or(f.Message, s.State.FailureMessage)}.Bounded()
	s.SetFailure(f.Reason, f.Message)
}

// failWithoutInfrastructure records that the infrastructure object of a running Machine was deleted. The record is permanent, so the API
// server must confirm it. The step does not retry: an event follows when the object exists again.
func (s *Scope) failWithoutInfrastructure(ctx context.Context) error {
	e := s.Infrastructure
	if e.Presence != external.Absent || !s.State.InfrastructureReady.Or(false) || s.Deleting() {
		return nil
	}
	key := s.keyOf(e)
	f := engine.Failure{Reason: engine.ReasonInvalidConfiguration, Message: fmt.Sprintf(
		"Machine infrastructure resource %s %s has been deleted after provisioning was completed", e.Ref.Kind, key)}
	if s.State.FailureReason == f.Reason && s.State.FailureMessage == f.Message {
		return nil
	}
	if gone, err := s.ConfirmAbsent(ctx, e.GVK, key); err != nil || !gone {
		return err
	}
	s.recordFailure(f)
	return nil
}

// lookUnless reads a referenced object that no step of this pass has read, and makes the Machine its controller if allowed. The object must
// not be leaked when a step is removed or does not run in a deletion.
func (s *Scope) lookUnless(ctx context.Context, kind string, have *external.Object, ref contract.Ref) error {
	if have.Presence != external.NotReferenced {
		return nil
	}
	_, err := s.readReferenced(ctx, ref, have, kind, func(external.Object) error { return nil })
	return err
}

// isGoing reports whether a referenced object is being deleted, according to the cache or the memory of this process.
func (s *Scope) isGoing(found external.Object) bool { return engine.IsGoing(found, s.memory.requested) }

// givesUp selects the owners that created an object before its Machine existed and release it: the MachineSet, and the Cluster's control
// plane if the Machine belongs to it.
func (s *Scope) givesUp() func(metav1.OwnerReference) bool {
	plane := schema.GroupKind{}
	if _, member := s.State.Labels[contract.ControlPlaneLabel]; member {
		plane = s.Cluster.State.ControlPlane.GroupKind()
	}
	return func(ref metav1.OwnerReference) bool {
		group := engine.Group(ref.APIVersion)
		return (ref.Kind == "MachineSet" && group == s.env.kind.GVK.Group) || (!plane.Empty() && ref.Kind == plane.Kind && group == plane.Group)
	}
}
