package guard

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Names of the steps.
const (
	StepGateHold   = "gate-hold"
	StepGateFreeze = "gate-freeze"
)

// ReasonAPIServerUnreachable is the reason of a hold: an API server does not respond.
const ReasonAPIServerUnreachable = "APIServerUnreachable"

// Freezable is a Scope of any kind, such as *machine.Scope: engine.Scope has these methods.
type Freezable interface {
	ClusterKey() types.NamespacedName
	Pause(status metav1.ConditionStatus, reason, message string) engine.Result
}

// Holdable is a Scope of a kind that creates, such as *machineset.Scope and *deployment.Scope.
type Holdable interface {
	ClusterKey() types.NamespacedName
	Hold(reason, message string)
}

// FreezeStep returns a step that ends a pass while a Gate is closed, without changing a condition; in a deletion only with
// GateOptions.Deletions. Insert it behind the step that checks whether the object is paused:
//
//	steps := machine.Steps().InsertAfter(machine.StepPaused, guard.FreezeStep[*machine.Scope](gate))
func FreezeStep[P Freezable](g *Gate) engine.Step[P] {
	life := engine.InRunning
	if g != nil && g.options.Deletions {
		life = engine.InBoth
	}
	return engine.Step[P]{Name: StepGateFreeze, On: life, Run: func(ctx context.Context, p P) (engine.Result, error) {
		if g.closedFor(ctx, p.ClusterKey()) == "" {
			return engine.Result{}, nil
		}
		result := p.Pause("", "", "")
		result.RequeueAfter = gateRetry
		return result, nil
	}}
}

// HoldStep returns a step that prevents a set or a deployment from creating while a Gate is closed; the condition ScalingUp, or RollingOut,
// reports it. A set still deletes; a deployment changes no replicas. Insert it before the deciding step:
//
//	steps := machineset.Steps().InsertBefore(machineset.StepHolds, guard.HoldStep[*machineset.Scope](gate))
//	steps := deployment.Steps().InsertAfter(deployment.StepSets, guard.HoldStep[*deployment.Scope](gate))
func HoldStep[P Holdable](g *Gate) engine.Step[P] {
	return engine.Step[P]{Name: StepGateHold, On: engine.InRunning, Run: func(ctx context.Context, p P) (engine.Result, error) {
		why := g.closedFor(ctx, p.ClusterKey())
		if why == "" {
			return engine.Result{}, nil
		}
		p.Hold(ReasonAPIServerUnreachable, why)
		return engine.Result{RequeueAfter: gateRetry}, nil
	}}
}
