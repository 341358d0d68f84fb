package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// bootstrapFacts are what a pass knows of the bootstrap data.
type bootstrapFacts struct {
	External       external.Object
	Config         contract.BootstrapConfigState // read when External is Present
	DataSecretName contract.Opt[string]
	Created        bool // reported before
	Deleting       bool
}

// bootstrapDecision is the result of decideBootstrap.
type bootstrapDecision struct {
	// DataSecretName is the name to record, absent when it stays as it is.
	DataSecretName contract.Opt[string]
	// Created is true when the data exists.
	Created   bool
	Condition metav1.Condition
	// Failure is what the config reports as a failure for good.
	Failure failure
}

// decideBootstrap applies the contract: the name is copied once, when the provider reports that the data was created, and never changes
// afterwards. A user may set the data instead; then the Machine has no bootstrap object.
func decideBootstrap(f bootstrapFacts) bootstrapDecision {
	if f.External.Presence == external.NotReferenced {
		if f.DataSecretName.Found() {
			return bootstrapDecision{Created: true, Condition: condition(ConditionBootstrapConfigReady, metav1.ConditionTrue,
				ReasonDataSecretProvided, "")}
		}
		return bootstrapDecision{Condition: condition(ConditionBootstrapConfigReady, metav1.ConditionFalse, ReasonDoesNotExist,
			"the Machine has neither a bootstrap configuration nor the name of a data secret: set one of them")}
	}
	d := bootstrapDecision{Created: f.Created || f.DataSecretName.Found()}
	if f.External.Presence != external.Present || f.External.Problem != (external.Problem{}) {
		d.Condition = unavailable(ConditionBootstrapConfigReady, f.External, f.Created, f.Deleting)
		return d
	}
	kind, ready := f.External.Ref.Kind, f.Config.DataSecretCreated
	d.Failure = failureOf(f.External, f.Config.FailureReason, f.Config.FailureMessage)
	d.Condition = mirror(ConditionBootstrapConfigReady, f.Config.Ready,
		initialized(ConditionBootstrapConfigReady, ready || d.Created, kind+" status.initialization.dataSecretCreated is false"))
	if !ready || f.DataSecretName.Found() || f.Deleting || f.External.Deleting() {
		return d
	}
	if f.Config.DataSecretName.Or("") == "" {
		d.Condition = condition(ConditionBootstrapConfigReady, metav1.ConditionFalse, ReasonDataSecretNameMissing, fmt.Sprintf(
			"%s %s reports its data secret as created but does not name it: the provider must set status.dataSecretName", kind, f.External.Ref.Name))
		return d
	}
	d.DataSecretName, d.Created = f.Config.DataSecretName, true
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
		return condition(kind, metav1.ConditionFalse, ReasonDeleted, e.Ref.Kind+" has been deleted while the Machine still exists")
	default:
		return condition(kind, metav1.ConditionFalse, ReasonDoesNotExist, e.Ref.Kind+" does not exist")
	}
}

func bootstrapStep(ctx context.Context, s *Scope) (Result, error) {
	if s.isNotMissed(s.State.Bootstrap) {
		return Result{}, nil
	}
	found, err := s.look(ctx, s.State.Bootstrap)
	s.Bootstrap = found
	if err != nil {
		s.Assert(condition(ConditionBootstrapConfigReady, metav1.ConditionUnknown, ReasonInternalError, seeLogs))
		return Result{}, err
	}
	facts := bootstrapFacts{DataSecretName: s.State.DataSecretName, Created: s.State.BootstrapReady.Or(false),
		Deleting: !s.State.Deleting.IsZero()}
	if found.Presence == external.Present {
		if err := contract.BootstrapConfig(found.Contract).Read(found.Object, &facts.Config); err != nil && !found.Foreign {
			found.Problem = external.Problem{Reason: external.ReasonContractViolation, Message: err.Error()}
		}
	}
	facts.External, s.Bootstrap = found, found
	decision := decideBootstrap(facts)
	if name, found := decision.DataSecretName.Get(); found {
		s.SetDataSecretName(name)
	}
	if decision.Created {
		s.SetBootstrapReady()
	}
	s.fails(decision.Failure)
	s.Assert(decision.Condition)
	return Result{RequeueAfter: found.RetryAfter}, nil
}
