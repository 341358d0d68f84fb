package inframachine

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Scope is one pass over one InfraMachine. It embeds a pass.Scope. Only the worker that runs the pass uses it.
type Scope struct {
	engine.Scope[contract.ProvidedMachineState, contract.ProvidedMachineUpdate]

	// Machine is the owner that StepMachine has read; zero before that step, and in a deletion.
	Machine contract.MachineState

	env *Reconciler
}

func (s *Scope) notReady(reason, message string) {
	s.Assert(engine.Condition(contract.ConditionReady, metav1.ConditionFalse, reason, message))
}

// machineStep reads the owner Machine. Without a Machine that references the InfraMachine, no instance is created: a person may have
// created or copied the InfraMachine, or its Machine is not in this cluster yet.
func machineStep(ctx context.Context, s *Scope) (Result, error) {
	m, missing, err := s.env.ownerOf(ctx, s.Object)
	if err != nil {
		return Result{Stop: true}, err
	}
	if missing == "" && !s.env.names(&m, s.State.Key) {
		missing = fmt.Sprintf("%s %s has another object as its infrastructure: one that it does not name gets no instance",
			s.env.kinds.Machine.GVK.Kind, m.Key)
	}
	if missing != "" {
		s.notReady(ReasonWaitingForMachine, missing)
		return Result{Stop: true}, nil // an event follows
	}
	s.Machine = m
	return Result{}, nil
}

// setFailure records a failure. Empty values do not change the recorded failure, which is never cleared.
func (s *Scope) setFailure(reason, message string) {
	engine.Set(&s.State.FailureReason, cmp.Or(reason, s.State.FailureReason), &s.Update.FailureReason)
	message = engine.Bounded(cmp.Or(message, s.State.FailureMessage), engine.MaxMessageLength)
	engine.Set(&s.State.FailureMessage, message, &s.Update.FailureMessage)
}

// flush writes the InfraMachine. A condition that changes to a reason that needs a person is a Warning event. A missing InfraMachine is not
// an error.
func flush(ctx context.Context, s *Scope, err error) error {
	problems := append(engine.Problems(), instance.ReasonInvalid, instance.ReasonFailed, instance.ReasonGone, instance.ReasonProviderIDMissing,
		string(provider.Unauthenticated), string(provider.Exhausted), string(provider.Terminal))
	unwritten := s.Flush(ctx, engine.Writing{Observes: err == nil && s.env.frame.Kind.StatusSubresource, Problems: problems})
	if external.IsGone(unwritten) {
		return nil
	}
	return unwritten
}
