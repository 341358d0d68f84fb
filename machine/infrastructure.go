package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// infrastructureFacts are what a pass knows of the infrastructure.
type infrastructureFacts struct {
	External    External
	Machine     contract.InfraMachineState // read when External is Present
	Provisioned bool                       // reported before: it never goes back
	Deleting    bool
}

// infrastructureDecision is what follows.
type infrastructureDecision struct {
	// Adopt says that provider ID, addresses and failure domain are taken over from the InfraMachine.
	Adopt bool
	// Provisioned says that the infrastructure was provisioned, now or before.
	Provisioned bool
	Condition   metav1.Condition
}

// decideInfrastructure reads the contract: nothing is taken over before the provider says that the machine is provisioned;
// afterwards it is taken over in every pass, because addresses change. Rule: contract page "InfraMachine".
func decideInfrastructure(f infrastructureFacts) infrastructureDecision {
	if f.External.Presence == NotReferenced {
		return infrastructureDecision{Provisioned: f.Provisioned, Condition: condition(ConditionInfrastructureReady,
			metav1.ConditionFalse, ReasonDoesNotExist, "the Machine has no spec.infrastructureRef: set it")}
	}
	if f.External.Presence != Present || f.External.Problem != (Problem{}) {
		return infrastructureDecision{Provisioned: f.Provisioned,
			Condition: unavailable(ConditionInfrastructureReady, f.External, f.Provisioned, f.Deleting)}
	}
	kind := f.External.Ref.Kind
	ready := f.Machine.Provisioned || f.Provisioned
	d := infrastructureDecision{Provisioned: f.Provisioned}
	d.Condition = mirror(ConditionInfrastructureReady, f.Machine.Ready,
		initialized(ConditionInfrastructureReady, ready, kind+" status.initialization.provisioned is false"))
	if !ready || f.External.Deleting() {
		return d
	}
	if !noderef.ValidProviderID(f.Machine.ProviderID) {
		d.Condition = condition(ConditionInfrastructureReady, metav1.ConditionFalse, ReasonProviderIDMissing, fmt.Sprintf(
			"%s %s reports its machine as provisioned, but its spec.providerID is %q and names no instance: the provider must set it",
			kind, f.External.Ref.Name, f.Machine.ProviderID))
		return d
	}
	d.Adopt, d.Provisioned = true, true
	return d
}

func infrastructureStep(ctx context.Context, s *Scope) (Result, error) {
	external, err := s.env.external(ctx, s.State.Key, s.State.Infrastructure)
	s.Infrastructure = external
	if err != nil {
		s.Assert(condition(ConditionInfrastructureReady, metav1.ConditionUnknown, ReasonInternalError, err.Error()))
		return Result{}, err
	}
	facts := infrastructureFacts{Provisioned: s.State.InfrastructureReady.Or(false), Deleting: !s.State.Deleting.IsZero()}
	if external.Presence == Present {
		if err := s.takeOwnership(ctx, &external); err != nil {
			return Result{}, err
		}
		if err := contract.InfraMachine(external.Contract).Read(external.Object, &facts.Machine); err != nil && !external.Foreign {
			external.Problem = Problem{ReasonContractViolation, err.Error()}
		}
	}
	facts.External, s.Infrastructure = external, external
	decision := decideInfrastructure(facts)
	if decision.Adopt {
		s.SetProviderID(facts.Machine.ProviderID)
		if facts.Machine.HasAddresses {
			s.SetAddresses(facts.Machine.Addresses)
		}
		if domain, found := facts.Machine.FailureDomain.Get(); found {
			s.SetFailureDomain(domain)
		}
	}
	if decision.Provisioned {
		s.SetInfrastructureReady()
	}
	s.Assert(decision.Condition)
	return Result{RequeueAfter: external.RetryAfter}, nil
}
