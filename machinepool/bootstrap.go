package machinepool

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// bootstrapFacts are what a pass knows of the bootstrap data.
type bootstrapFacts struct {
	External external.Object
	Config   contract.BootstrapConfigState // read when External is Present
	// DataSecretName is that of the template.
	DataSecretName contract.Opt[string]
	Created        bool // reported before: it never goes back
	Deleting       bool
	Policy         DataSecret
}

// bootstrapDecision is what follows.
type bootstrapDecision struct {
	// DataSecretName is the name to record, absent when it stays as it is.
	DataSecretName contract.Opt[string]
	// Created says that the data exists, or once did.
	Created   bool
	Condition metav1.Condition
	Failure   finding
}

// decideBootstrap reads the contract. A template that names a Secret has its data, whether it refers to a config or not: a user may
// name one. A template that names none takes the name over when the provider says that the data was created; one that does, only if the
// policy says so. Rule: contract page "BootstrapConfig"; Cluster API's page on the MachinePool controller, "Bootstrap provider".
func decideBootstrap(f bootstrapFacts) bootstrapDecision {
	if f.External.Presence == external.NotReferenced {
		d := bootstrapDecision{Created: f.Created || f.DataSecretName.Found(), Failure: contract.Some(failure{})}
		if f.DataSecretName.Found() {
			d.Condition = condition(ConditionBootstrapConfigReady, metav1.ConditionTrue, ReasonDataSecretProvided, "")
			return d
		}
		d.Condition = condition(ConditionBootstrapConfigReady, metav1.ConditionFalse, ReasonDoesNotExist,
			"the MachinePool has neither a bootstrap configuration nor the name of a data secret: set one of them")
		return d
	}
	named := f.DataSecretName.Or("") != ""
	d := bootstrapDecision{Created: f.Created || named}
	if f.External.Presence != external.Present || f.External.Problem != (external.Problem{}) {
		d.Condition = unavailable(ConditionBootstrapConfigReady, f.External, f.Created, f.Deleting)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Config.DataSecretCreated
	d.Failure = contract.Some(failureOf(f.External, f.Config.FailureReason, f.Config.FailureMessage))
	d.Condition = mirror(ConditionBootstrapConfigReady, f.Config.Ready,
		initialized(ConditionBootstrapConfigReady, ready || named, kind+" status.initialization.dataSecretCreated is false"))
	if !ready || (named && f.Policy == KeepDataSecret) || f.Deleting || f.External.Deleting() {
		return d
	}
	if f.Config.DataSecretName.Or("") == "" {
		d.Condition = condition(ConditionBootstrapConfigReady, metav1.ConditionFalse, ReasonDataSecretNameMissing, fmt.Sprintf(
			"%s %s reports its data secret as created but does not name it: the provider must set status.dataSecretName", kind, f.External.Ref.Name))
		return d
	}
	d.Created, d.DataSecretName = true, f.Config.DataSecretName
	return d
}

// initialized is the condition of a provider object that has no Ready condition of its own.
func initialized(kind string, ready bool, message string) metav1.Condition {
	if ready {
		return condition(kind, metav1.ConditionTrue, ReasonReady, "")
	}
	return condition(kind, metav1.ConditionFalse, ReasonNotReady, message)
}

// unavailable is the condition for a referenced object that could not be used.
func unavailable(kind string, e external.Object, reachedBefore, deleting bool) metav1.Condition {
	switch {
	case e.Problem != (external.Problem{}):
		status := metav1.ConditionFalse
		if e.Presence == external.Unread {
			status = metav1.ConditionUnknown
		}
		return condition(kind, status, e.Problem.Reason, e.Problem.Message)
	case e.Presence == external.Unread:
		return condition(kind, metav1.ConditionUnknown, ReasonInspectionFailed, e.Ref.Kind+" could not be read yet")
	case deleting && reachedBefore:
		return condition(kind, metav1.ConditionFalse, ReasonDeleted, e.Ref.Kind+" has been deleted")
	case reachedBefore && kind == ConditionInfrastructureReady:
		return condition(kind, metav1.ConditionFalse, ReasonDeleted, e.Ref.Kind+" has been deleted while the MachinePool still exists")
	default:
		return condition(kind, metav1.ConditionFalse, ReasonDoesNotExist, e.Ref.Kind+" does not exist")
	}
}

// isRead reports whether what an object says is known.
func isRead(e external.Object) bool {
	return e.Presence == external.Present && e.Problem == (external.Problem{})
}

// observeBootstrap reads the BootstrapConfig, owns it and takes its data over.
func (p *pass) observeBootstrap(ctx context.Context) error {
	facts := bootstrapFacts{
		DataSecretName: p.state.Template.DataSecretName, Created: p.state.BootstrapReady.Or(false),
		Deleting: p.deleting(), Policy: p.env.options.Policy.DataSecret,
	}
	found, err := p.observeReferenced(ctx, p.state.Template.Bootstrap, func(e external.Object) error {
		return contract.BootstrapConfig(e.Contract).Read(e.Object, &facts.Config)
	})
	p.bootstrap = found
	if err != nil {
		p.failures = append(p.failures, finding{})
		p.assert(condition(ConditionBootstrapConfigReady, metav1.ConditionUnknown, ReasonInternalError, seeLogs))
		return err
	}
	facts.External = found
	p.bootstrapRead = isRead(found)
	d := decideBootstrap(facts)
	p.failures = append(p.failures, d.Failure)
	p.assert(d.Condition)
	if name, set := d.DataSecretName.Get(); set && p.state.Template.DataSecretName != contract.Some(name) {
		p.main.DataSecretName = contract.SetTo(name)
	}
	if d.Created && !p.state.BootstrapReady.Or(false) {
		p.status.BootstrapReady = contract.SetTo(true)
	}
	p.bootstrapReady = d.Created
	return nil
}
