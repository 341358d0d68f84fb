package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/controlplane/arms"
)

// trial is an arm that looks after a set, or a deployment, of its own.
type trial struct {
	*comparison

	manager *arms.Manager
	object  *unstructured.Unstructured
}

// step is something that a manager has to react to, and how to see that it has.
type step struct {
	name string // empty: it is not measured
	do   func(context.Context) error
	done func(context.Context) (bool, error)
}

// one leads an arm through all steps with a set, or a deployment, of its own.
func (c *comparison) one(ctx context.Context, arm arms.Name, name string) (figures, error) {
	f := figures{machines: c.machines, replaced: c.bad()}
	obj := c.object(name)
	if err := c.client.Create(ctx, obj); err != nil {
		return f, err
	}
	mark, err := c.plane.Audit().Mark()
	if err != nil {
		return f, err
	}
	m, err := arms.Start(ctx, c.built, arm, c.plane, c.flags(arm)...)
	if err != nil {
		return f, err
	}
	defer m.Stop()
	t := &trial{comparison: c, manager: m, object: obj}
	err = m.While(ctx, func(ctx context.Context) error {
		if _, err := t.manager.Rest(ctx, t.plane, mark); err != nil {
			return err
		}
		for _, s := range t.steps() {
			p, err := t.phase(ctx, s)
			if err != nil {
				return err
			}
			if s.name != "" {
				f.phases = append(f.phases, p)
			}
		}
		return t.remove(ctx, obj)
	})
	f.memory, _ = m.PeakMemory()
	m.Stop()
	f.cpu = m.CPU().Seconds()
	return f, err
}

// steps are what happens to the set.
func (t *trial) steps() []step {
	n := int64(t.machines)
	up, down := t.change(scaledTo(n), n), t.change(scaledTo(0), 0)
	if t.health {
		return append([]step{up}, append(t.healthSteps(), down)...)
	}
	up.name, down.name = stepUp, stepDown
	if !t.rollout {
		return []step{up, down}
	}
	roll := t.change(fmt.Sprintf(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":%q}}}}}`, nextTemplate), n)
	roll.name = stepRoll
	return []step{up, roll, down}
}

// change changes the object, until its status says that all is done.
func (t *trial) change(change string, n int64) step {
	changed := t.object.DeepCopy()
	return step{
		do: func(ctx context.Context) error {
			return t.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, []byte(change)))
		},
		done: func(ctx context.Context) (bool, error) {
			fresh := t.object.DeepCopy()
			if err := t.client.Get(ctx, client.ObjectKeyFromObject(t.object), fresh); err != nil {
				return false, err
			}
			return t.isDone(ctx, fresh, changed.GetGeneration(), n)
		},
	}
}

// phase takes a step, waits until all is done and the manager is at rest, and counts.
func (t *trial) phase(ctx context.Context, s step) (phase, error) {
	mark, err := t.plane.Audit().Mark()
	if err != nil {
		return phase{}, err
	}
	before, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return phase{}, err
	}
	start := time.Now()
	if err := s.do(ctx); err != nil {
		return phase{}, err
	}
	if err := wait.PollUntilContextTimeout(ctx, statusPoll, phaseLimit, true, s.done); err != nil {
		return phase{}, fmt.Errorf("wait for the end of step %q: %w", s.name, err)
	}
	took := time.Since(start)
	events, err := t.manager.Rest(ctx, t.plane, mark)
	if err != nil {
		return phase{}, err
	}
	after, err := t.manager.CPUSeconds(ctx)
	p := phaseOf(events, start, took)
	p.name, p.cpu = s.name, after-before
	return p, err
}

// remove deletes an object and waits until it is gone.
func (t *trial) remove(ctx context.Context, obj *unstructured.Unstructured) error {
	if err := t.client.Delete(ctx, obj); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, statusPoll, statusLimit, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(t.client.Get(ctx, client.ObjectKeyFromObject(obj), obj.DeepCopy())), nil
	})
}

// isDone says whether a status is that of a generation, and of n Machines that are all available, and, with a deployment, whether they are
// all those of the set with its template. How many are up to date says nothing right after a change.
func (t *trial) isDone(ctx context.Context, obj *unstructured.Unstructured, generation, n int64) (bool, error) {
	number := func(of *unstructured.Unstructured, fields ...string) int64 {
		value, _, _ := unstructured.NestedInt64(of.Object, fields...)
		return value
	}
	for _, field := range []string{"replicas", "readyReplicas", "availableReplicas"} {
		_, found, _ := unstructured.NestedInt64(obj.Object, "status", field)
		if !found || number(obj, "status", field) != n {
			return false, nil
		}
	}
	if number(obj, "status", "observedGeneration") < generation || !t.rollout {
		return number(obj, "status", "observedGeneration") >= generation, nil
	}
	sets := &unstructured.UnstructuredList{}
	sets.SetGroupVersionKind(obj.GroupVersionKind().GroupVersion().WithKind("MachineSetList"))
	err := t.client.List(ctx, sets, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{contract.DeploymentNameLabel: obj.GetName()})
	template := []string{"spec", "template", "spec", "infrastructureRef", "name"}
	want, _, _ := unstructured.NestedString(obj.Object, template...)
	for i := range sets.Items {
		name, _, _ := unstructured.NestedString(sets.Items[i].Object, template...)
		if has := number(&sets.Items[i], "status", "replicas"); (name == want && has != n) || (name != want && has != 0) {
			return false, err
		}
	}
	return len(sets.Items) > 0, err
}
