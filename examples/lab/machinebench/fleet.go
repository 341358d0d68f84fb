package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/fake"
)

const (
	namespace   = metav1.NamespaceDefault
	clusterName = "machinebench"
	// fleetLabel is on all objects of a fleet; its value is the fleet's name.
	fleetLabel = "machinebench.machinist.dev/fleet"

	fleetPoll     = 200 * time.Millisecond
	progressEvery = 5 * time.Second
	// phaseLimit is when an arm is cancelled. Stale reads can make Cluster API slow without client limits, but not this
	// slow.
	phaseLimit = 20 * time.Minute
	// leftoverLimit is how long the garbage collector may take after a manager.
	leftoverLimit = time.Minute
)

// fleet is the set of Machines of one run, with their objects.
type fleet struct {
	name     string
	machines int
	client   client.Client
	lives    *recorder
	say      bench.Say
}

func (f *fleet) options() []fake.Option {
	return []fake.Option{
		fake.InNamespace(namespace), fake.WithLabels(map[string]string{fleetLabel: f.name}),
		fake.WithField(clusterName, "spec", "clusterName"),
	}
}

func (f *fleet) machine(i int) string { return fmt.Sprintf("%s-%04d", f.name, i) }

// prepare creates the objects that Machines reference. Its time is not measured.
func (f *fleet) prepare(ctx context.Context) error {
	labelled := fake.WithLabels(map[string]string{fleetLabel: f.name})
	return bench.InParallel(ctx, f.machines, func(i int) error {
		return errors.Join(
			f.client.Create(ctx, fake.InfraMachine(contract.V1Beta2, f.machine(i), labelled)),
			f.client.Create(ctx, fake.BootstrapConfig(contract.V1Beta2, f.machine(i), labelled)),
		)
	})
}

// create creates all Machines, and returns the time until the last of them was Running.
func (f *fleet) create(ctx context.Context) (time.Duration, error) {
	return f.lasts(ctx, "Running", f.lives.running, func(i int) error {
		return f.client.Create(ctx, fake.Machine(f.machine(i), f.options()...))
	})
}

// remove deletes all Machines, and returns the time until the last of them was gone.
func (f *fleet) remove(ctx context.Context) (time.Duration, error) {
	return f.lasts(ctx, "gone", f.lives.gone, func(i int) error {
		return f.client.Delete(ctx, fake.Machine(f.machine(i), f.options()...))
	})
}

// lasts does something to each Machine and waits until all have the wanted state.
func (f *fleet) lasts(
	ctx context.Context, become string, done func(fleet string) (int, time.Time), each func(int) error,
) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, phaseLimit, fmt.Errorf("not all Machines are %s after %s", become, phaseLimit))
	defer cancel()
	stop := bench.Every(progressEvery, func(elapsed time.Duration) {
		n, _ := done(f.name)
		f.say("  %s: %d of %d Machines are %s after %.0f s", f.name, n, f.machines, become, elapsed.Seconds())
	})
	defer stop()
	start := time.Now()
	if err := bench.InParallel(ctx, f.machines, each); err != nil {
		return 0, err
	}
	var last time.Time
	err := wait.PollUntilContextCancel(ctx, fleetPoll, true, func(context.Context) (bool, error) {
		var n int
		n, last = done(f.name)
		return n >= f.machines, nil
	})
	if err != nil {
		n, _ := done(f.name)
		return 0, fmt.Errorf("%d of %d Machines are %s: %w", n, f.machines, become, context.Cause(ctx))
	}
	return last.Sub(start), nil
}

// kinds are the kinds of a fleet's objects, in the order of their removal.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		fake.MachineGVK(), fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2),
		corev1.SchemeGroupVersion.WithKind("Node"),
	}
}

// leftover lists the objects of a kind that the fleet still has.
func (f *fleet) leftover(ctx context.Context, gvk schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	err := f.client.List(ctx, list, client.MatchingLabels{fleetLabel: f.name})
	return list.Items, err
}

// nothingLeft fails if a manager has left objects of deleted Machines behind.
func (f *fleet) nothingLeft(ctx context.Context) error {
	said := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, leftoverLimit, true, func(ctx context.Context) (bool, error) {
		for _, gvk := range kinds() {
			left, err := f.leftover(ctx, gvk)
			if err != nil {
				return false, err
			}
			if len(left) > 0 {
				said = fmt.Sprintf("%d %ss are left behind, such as %s", len(left), gvk.Kind, left[0].GetName())
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", said, err)
	}
	return nil
}

// cleanUp removes the objects of a cancelled fleet by force. When ctx has ended it does nothing, because the control
// plane is deleted.
func (f *fleet) cleanUp(ctx context.Context) {
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, gvk := range kinds() {
		left, err := f.leftover(ctx, gvk)
		if err != nil {
			return
		}
		_ = bench.InParallel(ctx, len(left), func(i int) error {
			_ = f.client.Delete(ctx, &left[i], client.GracePeriodSeconds(0))
			_ = f.client.Patch(ctx, &left[i], free)
			return nil
		})
	}
}
