package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// trial is an arm that looks after a set, or deployments, of its own.
type trial struct {
	*comparison

	manager arms.Group
	object  *unstructured.Unstructured   // the first of all
	all     []*unstructured.Unstructured // the set, or the deployments
}

// step is something that a manager has to react to, and how to see that it has.
type step struct {
	name string // empty: it is not measured
	heap bool   // the live heap is measured at its end
	do   func(context.Context) error
	done func(context.Context) (bool, error)
}

// one measures all steps of an arm with a set, or deployments, of its own.
func (c *comparison) one(ctx context.Context, arm arms.Name, name string) (figures, error) {
	f := figures{machines: c.machines, replaced: c.bad()}
	all := c.objects(name)
	for _, obj := range all {
		if err := c.client.Create(ctx, obj); err != nil {
			return f, err
		}
	}
	mark, err := c.plane.Audit().Mark()
	if err != nil {
		return f, err
	}
	m, err := c.start(ctx, arm)
	if err != nil {
		return f, err
	}
	defer m.Stop()
	beside, err := c.startFloor(ctx, m[0], mark)
	if err != nil {
		return f, err
	}
	t := &trial{comparison: c, manager: m, object: all[0], all: all}
	err = m.While(ctx, func(ctx context.Context) (err error) {
		f.phases, err = t.everyStep(ctx, mark)
		return err
	})
	f.memory = m.PeakMemory()
	m.Stop()
	f.cpu = m.CPU().Seconds()
	var failed error
	f.floor, failed = beside.stop(c.say)
	return f, errors.Join(err, failed)
}

// start starts the managers of an arm, each with a namespace of its own where there are several.
func (c *comparison) start(ctx context.Context, arm arms.Name) (all arms.Group, err error) {
	for i := range c.managers {
		flags := c.flags(arm)
		if c.managers > 1 {
			flags = append(flags, "--namespace="+namespaceOf(i))
		}
		m, err := arms.Start(ctx, c.built, arm, c.plane, flags...)
		if err != nil {
			all.Stop()
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// everyStep takes all steps, and removes what the trial has. A mark is before the start of the manager.
func (t *trial) everyStep(ctx context.Context, since cluster.AuditMark) ([]phase, error) {
	if _, err := t.manager.Rest(ctx, t.plane, since); err != nil {
		return nil, err
	}
	var all []phase
	for _, s := range t.steps() {
		p, err := t.phase(ctx, s)
		if err != nil {
			return all, err
		}
		if s.name != "" {
			t.say("step %s took %.1fs", s.name, p.seconds)
			all = append(all, p)
		}
	}
	for _, obj := range t.all {
		if err := t.remove(ctx, obj); err != nil {
			return all, err
		}
	}
	return all, nil
}

// steps are what happens to the set, or to the deployments.
func (t *trial) steps() []step {
	n := int64(t.machines)
	roll := func(n int64) step {
		return t.change(stepRoll, fmt.Sprintf(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":%q}}}}}`, nextTemplate), n, t.object)
	}
	scaled := func(name string, n int64) step { return t.change(name, scaledTo(n), n, t.all...) }
	switch {
	case t.health:
		return append([]step{scaled("", n)}, append(t.healthSteps(), scaled("", 0))...)
	case t.fleet:
		each := n / deployments
		up := scaled(stepUp, each)
		up.heap = true
		return []step{up, roll(each), t.change(stepDown, scaledTo(0), 0, t.object), scaled("", 0)}
	case t.rollout:
		return []step{scaled(stepUp, n), roll(n), scaled(stepDown, 0)}
	}
	return []step{scaled(stepUp, n), scaled(stepDown, 0)}
}

// change changes objects, until the status of each says that all is done.
func (t *trial) change(name, change string, n int64, objects ...*unstructured.Unstructured) step {
	var changed []*unstructured.Unstructured
	return step{
		name: name,
		do: func(ctx context.Context) error {
			for _, obj := range objects {
				one := obj.DeepCopy()
				changed = append(changed, one)
				if err := t.client.Patch(ctx, one, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
					return err
				}
			}
			return nil
		},
		done: func(ctx context.Context) (bool, error) {
			for _, one := range changed {
				fresh := one.DeepCopy()
				if err := t.client.Get(ctx, client.ObjectKeyFromObject(one), fresh); err != nil {
					return false, err
				}
				if done, err := t.isDone(ctx, fresh, one.GetGeneration(), n); err != nil || !done {
					return false, err
				}
			}
			return true, nil
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
	heap := 0.0
	if s.heap {
		if heap, err = t.manager.LiveHeap(ctx); err != nil {
			return phase{}, err
		}
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
	if err == nil && s.heap {
		p.heap, err = t.manager.LiveHeap(ctx)
		p.heap -= heap
	}
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
	if number(obj, "status", "observedGeneration") < generation || !t.hasDeployments() {
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
