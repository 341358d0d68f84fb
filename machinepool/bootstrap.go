package machinepool

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// bootstrapFacts are the inputs of decideBootstrap.
type bootstrapFacts struct {
	External external.Object
	Config   contract.BootstrapConfigState // read when External is Present
	// DataSecretName is that of the template.
	DataSecretName contract.Opt[string]
	Created        bool // reported before: it never goes back
	Deleting       bool
}

// bootstrapDecision is the result of decideBootstrap.
type bootstrapDecision struct {
	// DataSecretName is the name to record, absent when it stays as it is.
	DataSecretName contract.Opt[string]
	// Created says that the data exists, or once did.
	Created   bool
	Condition metav1.Condition
	Failure   finding
}

// decideBootstrap applies the contract. A template that names a Secret has its data, whether or not it refers to a config: a user may name
// one. When the provider reports the data as created, its name is copied to a template that names none; a name that a user has written
// stays. Rule: contract page "BootstrapConfig"; Cluster API's page on the MachinePool controller, "Bootstrap provider".
func decideBootstrap(f bootstrapFacts) bootstrapDecision {
	if f.External.Presence == external.NotReferenced {
		d := bootstrapDecision{Created: f.Created || f.DataSecretName.Found(), Failure: contract.Some(failure{})}
		if f.DataSecretName.Found() {
			d.Condition = engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionTrue, contract.ReasonDataSecretProvided, "")
			return d
		}
		d.Condition = engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionFalse, contract.ReasonDoesNotExist,
			"the MachinePool has neither a bootstrap configuration nor the name of a data secret: set one of them")
		return d
	}
	named := f.DataSecretName.Or("") != ""
	d := bootstrapDecision{Created: f.Created || named}
	if !isRead(f.External) {
		d.Condition = engine.Unavailable(contract.ConditionBootstrapConfigReady, "MachinePool", f.External, f.Created, f.Deleting)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Config.DataSecretCreated
	d.Failure = contract.Some(engine.FailureOf(f.External, f.Config.FailureReason, f.Config.FailureMessage))
	d.Condition = engine.Mirror(contract.ConditionBootstrapConfigReady, f.Config.Ready,
		engine.Initialized(contract.ConditionBootstrapConfigReady, ready || named, kind+" status.initialization.dataSecretCreated is false"))
	if !ready || named || f.Deleting || f.External.Deleting() {
		return d
	}
	if f.Config.DataSecretName.Or("") == "" {
		message := fmt.Sprintf("%s %s reports its data secret as created but does not name it: the provider must set status.dataSecretName",
			kind, f.External.Ref.Name)
		d.Condition = engine.Condition(
			contract.ConditionBootstrapConfigReady, metav1.ConditionFalse, contract.ReasonDataSecretNameMissing, message)
		return d
	}
	d.Created, d.DataSecretName = true, f.Config.DataSecretName
	return d
}

// isRead reports whether an object was read and has no Problem.
func isRead(e external.Object) bool {
	return e.Presence == external.Present && e.Problem == (external.Problem{})
}

// observeBootstrap reads the BootstrapConfig, becomes its controller and copies the name of its data.
func (p *Scope) observeBootstrap(ctx context.Context) error {
	facts := bootstrapFacts{
		DataSecretName: p.State.Template.DataSecretName, Created: p.State.BootstrapReady.Or(false),
		Deleting: p.Deleting(),
	}
	read := func(e external.Object) error {
		return contract.BootstrapConfig(e.Contract).Read(e.Object, &facts.Config)
	}
	found, err := p.observeReferenced(ctx, contract.ConditionBootstrapConfigReady, p.State.Template.Bootstrap, read)
	p.bootstrap = found
	if err != nil {
		return err
	}
	facts.External = found
	p.bootstrapRead = isRead(found)
	d := decideBootstrap(facts)
	p.failures = append(p.failures, d.Failure)
	p.Assert(d.Condition)
	if name, set := d.DataSecretName.Get(); set {
		setIf(&p.Update.DataSecretName, p.State.Template.DataSecretName, name)
	}
	if d.Created {
		setIf(&p.Update.BootstrapReady, contract.Some(p.State.BootstrapReady.Or(false)), true)
	}
	p.bootstrapReady = d.Created
	return nil
}
