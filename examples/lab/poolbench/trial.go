package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/fake"
)

const (
	clusterName = "bench"
	// limit ends a trial that does not finish.
	limit = 15 * time.Minute
	poll  = 200 * time.Millisecond
	// settle is the pause after the pool is complete, so that requests that follow the last Node are counted too.
	settle = 5 * time.Second
)

// trial is one arm on its own control plane.
type trial struct {
	options
	arm     armName
	manager *arms.Manager
	plane   *cluster.ControlPlane
	client  client.Client
	say     bench.Say
}

// measure measures one arm.
func measure(ctx context.Context, o options, a armName, say bench.Say) (*figures, error) {
	dir, err := os.MkdirTemp("", "poolbench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, err := arms.Build(ctx, []armName{a}, dir, say)
	if err != nil {
		return nil, err
	}
	var f *figures
	err = bench.OnControlPlane(ctx, say, cluster.Options{}, func(ctx context.Context, plane *cluster.ControlPlane) error {
		t := &trial{options: o, arm: a, plane: plane, say: say}
		var err error
		f, err = t.run(ctx, built)
		return err
	})
	return f, err
}

// run prepares the control plane, starts the program, and measures it.
func (t *trial) run(ctx context.Context, built arms.Programs) (*figures, error) {
	admin := t.plane.Config()
	admin.UserAgent = "poolbench"
	var err error
	if t.client, err = client.New(admin, client.Options{}); err != nil {
		return nil, err
	}
	objects := &capi.Objects{Client: t.client, Plane: t.plane, Cluster: clusterName}
	if err := objects.Install(ctx); err != nil {
		return nil, err
	}
	crds := []*unstructured.Unstructured{
		fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta1), contract.V1Beta1), // Cluster API reads status.ready alone
		fake.CRD(fake.InfraMachineGVK(contract.V1Beta1), contract.V1Beta1),
	}
	if err := cluster.InstallCRDs(ctx, t.plane.Config(), crds...); err != nil {
		return nil, err
	}
	stop, err := t.provide(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if t.manager, err = arms.Start(ctx, built, t.arm, t.plane, t.flags()...); err != nil {
		return nil, err
	}
	defer t.manager.Stop()
	var f *figures
	err = t.manager.While(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not at its end after %s", limit))
		defer cancel()
		var err error
		if f, err = t.lead(ctx); err != nil {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		return nil
	})
	return f, err
}

// flags are those of the arm without client limits.
func (t *trial) flags() []string {
	flags := arms.NoLimits(t.arm)
	if t.arm == armOurs {
		flags = append(flags, "--machinepools")
	}
	return flags
}

// provide runs the provider in this process until stop is called.
func (t *trial) provide(ctx context.Context) (stop func(), err error) {
	to := t.plane.Config()
	to.UserAgent = "poolbench-provider"
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{
			SkipNameValidation: new(true), UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	provider := fake.PoolInfrastructure{Contract: contract.V1Beta1, Batch: 100, Machines: t.machines}
	if err := provider.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.say("the provider: %v", err)
		}
	}, nil
}

// lead creates the pool, waits until it is complete, and counts requests.
func (t *trial) lead(ctx context.Context) (*figures, error) {
	if err := bench.Sleep(ctx, settle); err != nil {
		return nil, err
	}
	mark, err := t.plane.Audit().Mark()
	if err != nil {
		return nil, err
	}
	before, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	pool := t.pool()
	for _, obj := range []client.Object{fake.InfraMachinePool(contract.V1Beta1, "pool"), pool} {
		if err := t.client.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	if err := t.arrives(ctx, pool); err != nil {
		return nil, err
	}
	f := &figures{Arm: t.arm, Seconds: time.Since(start).Seconds(), Requests: map[string]int{}}
	if err := bench.Sleep(ctx, settle); err != nil {
		return nil, err
	}
	after, err := t.manager.CPUSeconds(ctx)
	if err != nil {
		return nil, err
	}
	f.CPUSeconds = after - before
	sent, err := t.sent(mark)
	if err != nil {
		return nil, err
	}
	for _, e := range sent {
		f.Requests[strings.TrimSuffix(e.Verb+" "+e.Resource+"/"+e.Subresource, "/")]++
	}
	if mark, err = t.plane.Audit().Mark(); err != nil {
		return nil, err
	}
	if err := bench.Sleep(ctx, t.steady); err != nil {
		return nil, err
	}
	if sent, err = t.sent(mark); err != nil {
		return nil, err
	}
	f.Steady = float64(len(sent)) / t.steady.Minutes()
	f.Reordered, err = t.reorder(ctx)
	return f, err
}

// reorders is how often the provider reports the same instances in another order.
const reorders = 10

// reorder counts the requests during the reorders.
func (t *trial) reorder(ctx context.Context) (int, error) {
	mark, err := t.plane.Audit().Mark()
	if err != nil {
		return 0, err
	}
	infra := fake.InfraMachinePool(contract.V1Beta1, "pool")
	for range reorders {
		if err := t.client.Get(ctx, client.ObjectKeyFromObject(infra), infra); err != nil {
			return 0, err
		}
		base := infra.DeepCopy()
		list, _, err := unstructured.NestedStringSlice(infra.Object, "spec", "providerIDList")
		if err != nil {
			return 0, err
		}
		slices.Reverse(list)
		if err := unstructured.SetNestedStringSlice(infra.Object, list, "spec", "providerIDList"); err != nil {
			return 0, err
		}
		if err := t.client.Patch(ctx, infra, client.MergeFrom(base)); err != nil {
			return 0, err
		}
		if err := bench.Sleep(ctx, time.Second); err != nil {
			return 0, err
		}
	}
	if err := bench.Sleep(ctx, settle); err != nil {
		return 0, err
	}
	sent, err := t.sent(mark)
	return len(sent), err
}

// pool returns the MachinePool; its bootstrap data is given.
func (t *trial) pool() *unstructured.Unstructured {
	infra := fake.InfraMachinePoolGVK(contract.V1Beta1)
	return fake.MachinePool("pool", int64(t.instances),
		fake.WithField(clusterName, "spec", "clusterName"), fake.WithField(clusterName, "spec", "template", "spec", "clusterName"),
		fake.WithField(map[string]any{"dataSecretName": clusterName + "-kubeconfig"}, "spec", "template", "spec", "bootstrap"),
		fake.WithField(map[string]any{"apiGroup": infra.Group, "kind": infra.Kind, "name": "pool"}, "spec", "template", "spec",
			"infrastructureRef"))
}

// arrives waits until the pool is Running and all instances have a reference.
func (t *trial) arrives(ctx context.Context, pool *unstructured.Unstructured) error {
	said := time.Now()
	return wait.PollUntilContextCancel(ctx, poll, false, func(ctx context.Context) (bool, error) {
		fresh := &unstructured.Unstructured{}
		fresh.SetGroupVersionKind(pool.GroupVersionKind())
		if err := t.client.Get(ctx, client.ObjectKeyFromObject(pool), fresh); err != nil {
			return false, err
		}
		phase, _, _ := unstructured.NestedString(fresh.Object, "status", "phase")
		refs, _, _ := unstructured.NestedSlice(fresh.Object, "status", "nodeRefs")
		if time.Since(said) > 10*time.Second {
			t.say("%s: %s, %d of %d references", t.arm, phase, len(refs), t.instances)
			said = time.Now()
		}
		return phase == "Running" && len(refs) == t.instances, nil
	})
}

// sent returns the requests of the program, without Leases and without watches, which end and restart by themselves.
func (t *trial) sent(mark cluster.AuditMark) (cluster.AuditEvents, error) {
	events, err := t.plane.Audit().Since(mark)
	if err != nil {
		return nil, err
	}
	return events.From(t.manager.Agent).Where(func(e cluster.AuditEvent) bool { return e.Verb != "watch" && e.Resource != "leases" }), nil
}
