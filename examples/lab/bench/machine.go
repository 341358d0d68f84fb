package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// limitsDefault are Cluster API's own client limits, given to both arms.
	limitsDefault = "default"
	limitsOff     = "off"

	podsPoll  = time.Second
	podsLimit = 10 * time.Minute
)

// machines measures Machines without owners, from creation to Running and from deletion to gone.
func machines() kind {
	return kind{
		name: "machine",
		about: `Machines of one Cluster, from creation until all are Running, and from deletion until all are gone.

Both managers reach the Nodes by the same kubeconfig Secret, and wait for the same contract provider. Case default has Cluster API's client
limits for both: 100 requests a second, and 20 towards the Nodes; off has none. Heap is live after a garbage collection: before the first
Machine, and when all are Running and their Nodes have --pods pods each, in the first case only.`,
		arms: managers(), cases: []string{limitsDefault, limitsOff}, size: 500, max: 9999,
		columns: []measure.Column{
			{Figure: "writes/machine", Bound: 0.5}, {Figure: "cpu/machine", Unit: "ms", Bound: 0.2},
			{Figure: "heap/machine", Unit: "KiB", Bound: 0.5}, {Figure: "rate", Unit: "/s", Bound: 2, AtLeast: true},
		},
		flags: func(flags *flag.FlagSet, o *options) {
			flags.IntVar(&o.pods, "pods", 30, "pods on each Node while live heap is measured; 0 for none")
			flags.DurationVar(&o.steady, "steady", 0, "how long the requests of Running Machines are counted, in the first case; 0 for not at all")
		},
		plane: func(_ options, o *cluster.Options) {
			o.ExtraArgs = map[cluster.Component][]string{
				cluster.APIServer: {"--delete-collection-workers=4"}, // for the pods, which are not measured
			}
		},
		prepare: func(ctx context.Context, l *lab) error {
			if err := l.install(ctx, "", false); err != nil {
				return err
			}
			return l.startProvider(ctx, nil)
		},
		one: oneOfMachines,
	}
}

func oneOfMachines(ctx context.Context, l *lab, run *measure.Run) error {
	t := l.newTrial(run)
	labelled := fake.WithLabels(map[string]string{poolLabel: t.name})
	err := measure.InParallel(ctx, t.size, func(i int) error {
		return errors.Join(
			t.client.Create(ctx, fake.InfraMachine(contract.V1Beta2, t.machineName(i), labelled)),
			t.client.Create(ctx, fake.BootstrapConfig(contract.V1Beta2, t.machineName(i), labelled)),
		)
	})
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	create := step{
		name: "create", do: t.each(func(ctx context.Context, m client.Object) error { return t.client.Create(ctx, m) }),
		done: func(ctx context.Context) (bool, error) { return t.areRunning(ctx) },
	}
	remove := step{
		name: "delete", do: t.each(func(ctx context.Context, m client.Object) error { return t.client.Delete(ctx, m) }),
		done: func(ctx context.Context) (bool, error) {
			left, err := t.members(ctx, t.name)
			return len(left) == 0, err
		},
	}
	nothingLeft := step{do: func(context.Context) error { return nil }, done: t.nothingLeft}
	steps := []step{create, remove, nothingLeft}
	if run.Case == l.cases[0] {
		steps = []step{t.heap("empty"), create, t.rests(), {do: t.withPods}, remove, nothingLeft}
	}
	flags := arm.DefaultLimits(run.Arm)
	if run.Case == limitsOff {
		flags = arm.NoLimits(run.Arm)
	}
	if err := t.take(ctx, [][]string{flags}, steps); err != nil {
		return err
	}
	n, f := float64(t.size), t.Figures
	f["writes/machine"], f["reads/machine"] = f.Sum("writes", "create", "delete")/n, f.Sum("reads", "create", "delete")/n
	f["cpu/machine"], f["rate"] = 1000*f.Sum("cpu", "create", "delete")/n, n/f.Sum("s", "create", "delete")
	if full, measured := f["heap full"]; measured {
		f["heap/machine"] = (full - f["heap empty"]) / n
	}
	return nil
}

func (t *trial) machineName(i int) string { return fmt.Sprintf("%s-%04d", t.name, i) }

// each does something to each Machine.
func (t *trial) each(do func(context.Context, client.Object) error) func(context.Context) error {
	return func(ctx context.Context) error {
		return measure.InParallel(ctx, t.size, func(i int) error {
			return do(ctx, fake.Machine(t.machineName(i), fake.InNamespace(metav1.NamespaceDefault),
				fake.WithLabels(map[string]string{poolLabel: t.name}), fake.WithField(clusterName, "spec", "clusterName")))
		})
	}
}

func (t *trial) areRunning(ctx context.Context) (bool, error) {
	all, err := t.members(ctx, t.name)
	if err != nil || len(all) < t.size {
		return false, err
	}
	for i := range all {
		if phase, _, _ := unstructured.NestedString(all[i].Object, "status", "phase"); phase != "Running" {
			return false, nil
		}
	}
	return true, nil
}

// rests counts the requests of Running Machines.
func (t *trial) rests() step {
	if t.steady == 0 {
		return step{do: func(context.Context) error { return nil }}
	}
	return step{name: "steady", do: func(ctx context.Context) error { return measure.Sleep(ctx, t.steady) }}
}

// withPods measures live heap while the Nodes have pods.
func (t *trial) withPods(ctx context.Context) error {
	err := measure.InParallel(ctx, t.size*t.pods, func(i int) error {
		node := t.machineName(i / t.pods)
		return t.client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%d", node, i%t.pods), Namespace: metav1.NamespaceDefault, Labels: map[string]string{poolLabel: t.name},
			},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}, AutomountServiceAccountToken: new(false),
			},
		})
	})
	if err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	if err := t.noPods(ctx, "status.phase!=Running", func() {}); err != nil {
		return err
	}
	if err := t.heap("full").do(ctx); err != nil {
		return err
	}
	// One request for all of them may time out, so it is repeated until none is left.
	return t.noPods(ctx, "", func() {
		_ = t.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{poolLabel: t.name},
			client.GracePeriodSeconds(0))
	})
}

// noPods polls until no pod of the run matches a selector of fields any more, and calls a function before each poll.
func (t *trial) noPods(ctx context.Context, fields string, before func()) error {
	err := wait.PollUntilContextTimeout(ctx, podsPoll, podsLimit, true, func(ctx context.Context) (bool, error) {
		before()
		list := &corev1.PodList{}
		err := t.client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.Limit(1),
			&client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: poolLabel + "=" + t.name, FieldSelector: fields, Limit: 1}})
		return err == nil && len(list.Items) == 0, ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("some pods are still there, or not Running: %w", err)
	}
	return nil
}

// nothingLeft reports whether the manager has left no object of deleted Machines behind.
func (t *trial) nothingLeft(ctx context.Context) (bool, error) {
	for _, gvk := range []schema.GroupVersionKind{
		fake.MachineGVK(), fake.InfraMachineGVK(contract.V1Beta2), fake.BootstrapConfigGVK(contract.V1Beta2),
		corev1.SchemeGroupVersion.WithKind("Node"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := t.client.List(ctx, list, client.MatchingLabels{poolLabel: t.name}); err != nil || len(list.Items) > 0 {
			return false, err
		}
	}
	return true, nil
}
