package bench

import (
	"context"
	"flag"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// casePlain has instances only; with caseMachines the provider makes an InfraMachine for each, so that each has a Machine.
	casePlain    = "plain"
	caseMachines = "machines"
	// reorders is how often the provider reports the same instances in another order.
	reorders = 10
)

// pool measures a MachinePool. The provider of a case is another one, so each run has a control plane of its own.
func pool() kind {
	return kind{
		name: "pool",
		about: `a MachinePool of --size instances, from its creation until all have a node reference and are ready, without client limits.

In case machines, the provider makes an InfraMachine for each instance, so that each has a Machine. Then requests are counted for --steady,
and while the provider reports the same instances in other orders, ten times. Both write each Node once; without Machines these writes are
nearly all requests of both, so the target cannot be reached.`,
		arms: managers(), cases: []string{casePlain, caseMachines}, size: 1000, max: 10000, fresh: true,
		columns: []measure.Column{
			{Figure: "up s", Unit: "s"}, {Figure: "up cpu", Unit: "s"}, {Figure: "requests", Bound: 1.0 / 3},
		},
		flags: func(flags *flag.FlagSet, o *options) {
			flags.DurationVar(&o.steady, "steady", 30*time.Second, "how long requests are counted after the pool is complete")
		},
		prepare: func(ctx context.Context, l *lab) error {
			if err := l.install(ctx, "", false); err != nil {
				return err
			}
			return cluster.InstallCRDs(ctx, l.plane.Config(),
				fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta1), contract.V1Beta1), // Cluster API reads status.ready alone
				fake.CRD(fake.InfraMachineGVK(contract.V1Beta1), contract.V1Beta1))
		},
		one: onePool,
	}
}

func onePool(ctx context.Context, l *lab, run *measure.Run) error {
	t := l.newTrial(run)
	provider := fake.PoolInfrastructure{Contract: contract.V1Beta1, Batch: 100, Machines: run.Case == caseMachines}
	if err := l.startProvider(ctx, provider.SetupWithManager); err != nil {
		return err
	}
	flags := arm.NoLimits(t.Arm)
	if t.Arm == arm.Ours {
		flags = append(flags, "--machinepools")
	}
	reorder := step{name: "reorder", do: t.reorder, done: func(context.Context) (bool, error) { return true, nil }}
	if err := t.take(ctx, [][]string{flags}, []step{t.createPool(), t.rests(), reorder}); err != nil {
		return err
	}
	f := t.Figures
	f["requests"] = f["up writes"] + f["up reads"]
	f["requests beside one per Node"] = f["requests"] - float64(t.size)
	if t.steady > 0 {
		f["steady requests/minute"] = (f["steady writes"] + f["steady reads"]) / t.steady.Minutes()
	}
	f["reorder requests"] = f["reorder writes"] + f["reorder reads"]
	return nil
}

// createPool is a step that ends when the pool is Running and all instances have a reference. Its bootstrap data is given.
func (t *trial) createPool() step {
	infra := fake.InfraMachinePoolGVK(contract.V1Beta1)
	one := fake.MachinePool(poolLabel, int64(t.size),
		fake.WithField(clusterName, "spec", "clusterName"), fake.WithField(clusterName, "spec", "template", "spec", "clusterName"),
		fake.WithField(map[string]any{"dataSecretName": clusterName + "-kubeconfig"}, "spec", "template", "spec", "bootstrap"),
		fake.WithField(map[string]any{"apiGroup": infra.Group, "kind": infra.Kind, "name": poolLabel}, "spec", "template", "spec",
			"infrastructureRef"))
	return step{
		name: "up",
		do: func(ctx context.Context) error {
			if err := t.client.Create(ctx, fake.InfraMachinePool(contract.V1Beta1, poolLabel)); err != nil {
				return err
			}
			return t.client.Create(ctx, one)
		},
		done: func(ctx context.Context) (bool, error) {
			if err := t.client.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
				return false, err
			}
			phase, _, _ := unstructured.NestedString(one.Object, "status", "phase")
			refs, _, _ := unstructured.NestedSlice(one.Object, "status", "nodeRefs")
			return phase == "Running" && len(refs) == t.size, nil
		},
	}
}

// reorder has the provider report the same instances in other orders.
func (t *trial) reorder(ctx context.Context) error {
	infra := fake.InfraMachinePool(contract.V1Beta1, poolLabel)
	for range reorders {
		if err := t.client.Get(ctx, client.ObjectKeyFromObject(infra), infra); err != nil {
			return err
		}
		base := infra.DeepCopy()
		list, _, err := unstructured.NestedStringSlice(infra.Object, "spec", "providerIDList")
		if err != nil {
			return err
		}
		slices.Reverse(list)
		if err := unstructured.SetNestedStringSlice(infra.Object, list, "spec", "providerIDList"); err != nil {
			return err
		}
		if err := t.client.Patch(ctx, infra, client.MergeFrom(base)); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}
