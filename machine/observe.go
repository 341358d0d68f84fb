package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/noderef"
)

// observeStep reads what a Machine in deletion needs to know, and decides what to do about its Node. It takes over what the
// infrastructure still reports, since a Machine may be deleted before it knew its own Node.
func observeStep(ctx context.Context, s *Scope) (Result, error) {
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeleting, "Deletion started"))
	total, err := observeReferenced(ctx, s)
	if err != nil {
		return Result{}, err
	}
	s.takeProviderID()
	result, err := s.observeNode(ctx)
	if err != nil {
		return Result{}, err
	}
	total.RequeueAfter = soonest(total.RequeueAfter, result.RequeueAfter)
	if !s.update.ProviderID.Keeps() {
		total.Checkpoint = true // the object that says it is about to go
		return total, s.forgotten()
	}
	if s.care() == CareUnknown {
		return s.careUnknown()
	}
	return total, nil
}

// observeReferenced looks at the objects that the Machine refers to. What it does not refer to is not missed any more.
func observeReferenced(ctx context.Context, s *Scope) (Result, error) {
	var total Result
	for _, referenced := range []struct {
		ref  contract.Ref
		look StepFunc
	}{{s.State.Bootstrap, bootstrapStep}, {s.State.Infrastructure, infrastructureStep}} {
		if referenced.ref.IsZero() {
			continue
		}
		result, err := referenced.look(ctx, s)
		if err != nil {
			return Result{}, err
		}
		total.RequeueAfter = soonest(total.RequeueAfter, result.RequeueAfter)
	}
	return total, nil
}

// observeNode looks the Node up. Nodes that cannot be read hold up the stages that need them, and no others: those report it.
func (s *Scope) observeNode(ctx context.Context) (Result, error) {
	result, err := nodeStep(ctx, s)
	if s.NodesErr != nil {
		err = nil
	}
	return result, err
}

// takeProviderID takes the provider ID of a machine over that was never reported as provisioned: it exists, and its Node may join
// or have joined.
func (s *Scope) takeProviderID() {
	e := s.Infrastructure
	if s.State.ProviderID != "" || e.Presence != external.Present || e.Foreign || e.Problem != (external.Problem{}) {
		return
	}
	var says contract.InfraMachineState
	err := contract.InfraMachine(e.Contract).Read(e.Object, &says)
	if err == nil && noderef.ValidProviderID(says.ProviderID) && unacceptable(&says) == "" {
		s.SetProviderID(says.ProviderID)
	}
}
