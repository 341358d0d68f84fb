package machineset

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// StepFreeze is the name of the step that FreezeStep returns.
const StepFreeze = "freeze"

// DefaultFreezePeriod is the time between two checks of a frozen set without an event. Flag --machine-safety-overshooting-period.
const DefaultFreezePeriod = time.Minute

// FreezeOptions configure FreezeStep. The zero value is ready for use.
type FreezeOptions struct {
	// Limits are the thresholds for sets.
	Limits scale.FreezeLimits
	// Deployment is the kind of the deployments that control sets: its replicas and surge are a threshold for its sets, and its annotation can
	// end a freeze. It is read through Ports.Cache, which needs the rights to list and watch it. Empty: there are none.
	Deployment contract.MachineDeploymentKind
	// Period is the time between two checks of a frozen set without an event. Default DefaultFreezePeriod.
	Period time.Duration
}

// FreezeStep returns a step that freezes a set with far more Machines than desired, and thaws it when they are gone (see scale.Overshoot).
// It writes the label, the condition Frozen and an event; StepHolds enforces the label. Insert it before that step:
//
//	steps := machineset.Steps().InsertBefore(machineset.StepHolds, machineset.FreezeStep(machineset.FreezeOptions{}))
func FreezeStep(o FreezeOptions) Step {
	o.Period = cmp.Or(max(o.Period, 0), DefaultFreezePeriod)
	return Step{Name: StepFreeze, On: engine.InRunning, Run: func(ctx context.Context, s *Scope) (Result, error) {
		if !s.machines.Known {
			return Result{}, nil
		}
		facts, err := s.freezeFacts(ctx, o)
		if err != nil {
			return Result{}, err
		}
		verdict := scale.Overshoot(facts)
		s.env.memory.Of(s.State.Key, s.State.UID).Mark = verdict.Mark
		requested := scale.UnfreezeRequested(s.env.kinds.Set.GVK.Group, &s.State.Metadata)
		s.machines.Freeze(&s.Update.ReplicatedUpdate, facts.Freezing, verdict, requested)
		result := Result{Checkpoint: verdict.Action != scale.Keep}
		if facts.Freezing != scale.NotFrozen {
			result.RequeueAfter = o.Period
		}
		return result, nil
	}}
}

// freezeFacts returns the inputs of scale.Overshoot.
func (s *Scope) freezeFacts(ctx context.Context, o FreezeOptions) (scale.FreezeFacts, error) {
	group := s.env.kinds.Set.GVK.Group
	facts := scale.FreezeFacts{
		Freezing: scale.FreezingOf(group, &s.State.Metadata, s.Stored), Unfreeze: scale.UnfreezeRequested(group, &s.State.Metadata),
		Mark: s.env.memory.Of(s.State.Key, s.State.UID).Mark, Limits: o.Limits, Now: s.Now,
	}
	if desired, known := s.State.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	for _, m := range s.machines.Own {
		facts.Machines = append(facts.Machines, scale.Machine{Created: m.State.Created, Deleting: !m.Deleting.IsZero()})
	}
	for _, created := range s.machines.Released {
		facts.Machines = append(facts.Machines, scale.Machine{Created: created.Time})
	}
	return facts, s.readDeployment(ctx, o.Deployment, &facts)
}

// readDeployment reads the number of Machines that the set's deployment may have, with its surge. A set whose deployment is gone has no
// such limit.
func (s *Scope) readDeployment(ctx context.Context, kind contract.MachineDeploymentKind, facts *scale.FreezeFacts) error {
	owner := metav1.GetControllerOfNoCopy(s.Object)
	if kind.New == nil || owner == nil || owner.Kind != kind.GVK.Kind || engine.Group(owner.APIVersion) != kind.GVK.Group {
		return nil
	}
	key, obj := s.key(owner.Name), engine.NewObject(kind)
	err := s.env.frame.Ports.Cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case external.IsGone(err) || (err == nil && obj.GetUID() != owner.UID):
		return nil
	case err != nil:
		return fmt.Errorf("read %s %s: %w", owner.Kind, key, err)
	}
	var d contract.MachineDeploymentState
	facts.Deployment = true
	if err := kind.Adapter.Read(obj, &d); err != nil { // a person has to correct it; the set is not changed
		return nil //nolint:nilerr // the reconciler of deployments reports it
	}
	facts.Unfreeze = facts.Unfreeze || scale.UnfreezeRequested(kind.GVK.Group, &d.Metadata)
	if desired, known := d.Replicas.Get(); known { // an invalid surge counts as none
		strategy, _ := rollout.Resolve(rollout.Type(d.RolloutType), d.MaxSurge, d.MaxUnavailable, int(max(desired, 0)))
		facts.Ceiling = contract.Some(int(desired) + strategy.MaxSurge)
	}
	return nil
}
