package guard

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// Names of the steps.
const (
	StepGateHold   = "gate-hold"
	StepGateFreeze = "gate-freeze"
)

// Freezable is a Scope of any kind, such as *machine.Scope: pass.Scope has these methods.
type Freezable interface {
	ClusterKey() types.NamespacedName
	Pause(status metav1.ConditionStatus, reason, message string) pass.Result
}

// Holdable is a Scope of a kind that creates, such as *machineset.Scope and *deployment.Scope.
type Holdable interface {
	ClusterKey() types.NamespacedName
	Hold(reason, message string)
}

// FreezeStep returns a step that ends a pass while a Gate is closed, with no condition changed; in a deletion only with
// GateOptions.Deletions. Put it behind the step that looks whether the object is paused:
//
//	steps, err := pass.InsertAfter(machine.Steps(), machine.StepPaused, guard.FreezeStep[*machine.Scope](gate))
func FreezeStep[P Freezable](g *Gate) pass.Step[P] {
	life := pass.InRunning
	if g != nil && g.options.Deletions {
		life = pass.InBoth
	}
	return pass.Step[P]{Name: StepGateFreeze, On: life, Run: func(ctx context.Context, p P) (pass.Result, error) {
		if g.Closed(ctx, p.ClusterKey()) == "" {
			return pass.Result{}, nil
		}
		result := p.Pause("", "", "")
		result.RequeueAfter = gateRetry
		return result, nil
	}}
}

// HoldStep returns a step that keeps a set or a deployment from creating while a Gate is closed; the condition ScalingUp, or RollingOut,
// says why. A set goes on to delete; a deployment changes no replicas. Put it in front of what decides:
//
//	steps, err := pass.InsertBefore(machineset.Steps(), machineset.StepHolds, guard.HoldStep[*machineset.Scope](gate))
//	steps, err := pass.InsertAfter(deployment.Steps(), deployment.StepSets, guard.HoldStep[*deployment.Scope](gate))
func HoldStep[P Holdable](g *Gate) pass.Step[P] {
	return pass.Step[P]{Name: StepGateHold, On: pass.InRunning, Run: func(ctx context.Context, p P) (pass.Result, error) {
		why := g.Closed(ctx, p.ClusterKey())
		if why == "" {
			return pass.Result{}, nil
		}
		p.Hold(safety.ReasonAPIServerUnreachable, why)
		return pass.Result{RequeueAfter: gateRetry}, nil
	}}
}
