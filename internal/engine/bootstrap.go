package engine

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// BootstrapFacts are the inputs of DecideBootstrap.
type BootstrapFacts struct {
	// Kind is that of the object which refers to the BootstrapConfig.
	Kind     string
	External external.Object
	Config   contract.BootstrapConfigState // read when External is Present
	// Named: the object, or its template, names the Secret with the data.
	Named bool
	// Created was reported before: it never goes back.
	Created, Deleting bool
}

// BootstrapDecision is the result of DecideBootstrap.
type BootstrapDecision struct {
	// DataSecretName is the name to record, absent when it stays as it is.
	DataSecretName contract.Opt[string]
	// Created is true when the data exists, or once did.
	Created   bool
	Condition metav1.Condition
	// Failure is what the config reports as a permanent failure.
	Failure Failure
}

// DecideBootstrap applies the contract: the name is copied once, when the provider reports the data as created, and never changes
// afterwards. A user may name a Secret instead, with a BootstrapConfig or without one. Rule: contract page "BootstrapConfig"; Cluster API's
// page on the MachinePool controller, "Bootstrap provider".
func DecideBootstrap(f BootstrapFacts) BootstrapDecision {
	d := BootstrapDecision{Created: f.Created || f.Named}
	set := func(status metav1.ConditionStatus, reason, message string) BootstrapDecision {
		d.Condition = Condition(contract.ConditionBootstrapConfigReady, status, reason, message)
		return d
	}
	if f.External.Presence == external.NotReferenced {
		if f.Named {
			return set(metav1.ConditionTrue, contract.ReasonDataSecretProvided, "")
		}
		return set(metav1.ConditionFalse, contract.ReasonDoesNotExist, fmt.Sprintf(
			"the %s has neither a bootstrap configuration nor the name of a data secret: set one of them", f.Kind))
	}
	if !f.External.Usable() {
		d.Condition = Unavailable(contract.ConditionBootstrapConfigReady, f.Kind, f.External, f.Created, f.Deleting)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Config.DataSecretCreated
	d.Failure = FailureOf(f.External, f.Config.FailureReason, f.Config.FailureMessage)
	d.Condition = Mirror(contract.ConditionBootstrapConfigReady, f.Config.Ready,
		Initialized(contract.ConditionBootstrapConfigReady, ready || f.Named, kind+" status.initialization.dataSecretCreated is false"))
	if !ready || f.Named || f.Deleting || f.External.Deleting() {
		return d
	}
	if f.Config.DataSecretName.Or("") == "" {
		return set(metav1.ConditionFalse, contract.ReasonDataSecretNameMissing, fmt.Sprintf(
			"%s %s reports its data secret as created but does not name it: the provider must set status.dataSecretName",
			kind, f.External.Ref.Name))
	}
	d.DataSecretName, d.Created = f.Config.DataSecretName, true
	return d
}
