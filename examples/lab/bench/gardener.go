package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/machinist-dev/machinist/internal/apitest/published"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// The flags of both arms: the driver's latency, and how many objects of a kind are reconciled at a time.
const (
	driverLatency   = "--driver-latency=100ms"
	gardenerWorkers = 50
)

// gardener measures a MachineDeployment of Gardener's kinds.
func gardener() kind {
	return kind{
		name: "gardener",
		about: `a MachineDeployment of Gardener's kinds, with Gardener's machine-controller-manager v0.60 and with ours, without client limits.

It is scaled up to --size, a tenth of its Machines are deleted and replaced, it is rolled out with a maxSurge of 10%, and scaled to 0. Both
have drivers that make Nodes in calls of 100ms, and 50 workers. Gardener's arm is two processes, as its users run it; its figures are their
sums. Requests contain those of the drivers. Kubermatic's machine-controller is no arm: its providers are a list that it does not export,
and it requires a module that the Go module proxy does not have.`,
		arms: []string{arm.Ours, arm.Gardener}, cases: []string{""}, size: 300, max: 5000,
		columns: []measure.Column{
			{Figure: "requests/machine"}, {Figure: "replace requests/machine"}, {Figure: "roll requests/machine"}, {Figure: "down requests/machine"},
			{Figure: "cpu", Unit: "s"}, {Figure: "memory", Unit: "MiB"}, {Figure: "up s", Unit: "s"}, {Figure: "replace s", Unit: "s"},
			{Figure: "roll s", Unit: "s"}, {Figure: "down s", Unit: "s"},
		},
		prepare: prepareGardener, one: oneOfGardener,
	}
}

func gardenerKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: kind}
}

func prepareGardener(ctx context.Context, l *lab) error {
	crds, err := published.CRDs(ctx, arm.GardenerModule, arm.GardenerCRDs)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := cluster.InstallCRDs(ctx, l.plane.Config(), crd); err != nil {
			return err
		}
	}
	objects := []client.Object{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: clusterName},
		Data:       map[string][]byte{"userData": []byte("#!/bin/sh")},
	}}
	for _, name := range []string{clusterName, nextTemplate} {
		class := &unstructured.Unstructured{Object: map[string]any{
			"provider": "kwok", "providerSpec": map[string]any{"cpu": "4"},
			"secretRef": map[string]any{"name": clusterName, "namespace": metav1.NamespaceDefault},
		}}
		class.SetGroupVersionKind(gardenerKind("MachineClass"))
		class.SetNamespace(metav1.NamespaceDefault)
		class.SetName(name)
		objects = append(objects, class)
	}
	for _, obj := range objects {
		if err := l.client.Create(ctx, obj); err != nil {
			return err
		}
	}
	return l.startProvider(ctx, func(ctrl.Manager) error { return nil }) // the drivers are in the arms; its cache is used
}

func oneOfGardener(ctx context.Context, l *lab, run *measure.Run) error {
	t := l.newTrial(run)
	deployment := t.ofGardener()
	if err := t.client.Create(ctx, deployment); err != nil {
		return err
	}
	n := int64(t.size)
	steps := []step{
		t.changeOfGardener("up", n, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)), t.replaceOfGardener(),
		t.changeOfGardener("roll", n, fmt.Sprintf(`{"spec":{"template":{"spec":{"class":{"name":%q}}}}}`, nextTemplate)),
		t.changeOfGardener("down", 0, `{"spec":{"replicas":0}}`), t.remove(deployment),
	}
	flags := [][]string{{"--api-group=machine.sapcloud.io", "--machinesets", "--machinedeployments", "--driver=kwok", "--driver-qps=1e6",
		driverLatency, "--kube-api-qps=-1", fmt.Sprintf("--worker-count=%d", gardenerWorkers)}}
	if t.Arm == arm.Gardener { // it needs a limit
		own := []string{"--kube-api-qps=100000", "--kube-api-burst=100000", fmt.Sprintf("--concurrent-syncs=%d", gardenerWorkers)}
		flags = [][]string{append([]string{"manager"}, own...), append([]string{"driver", driverLatency}, own...)}
	}
	if err := t.take(ctx, flags, steps); err != nil {
		return err
	}
	f := t.Figures
	for name, count := range map[string]float64{"up": float64(n), "replace": float64(t.bad()), "roll": float64(n), "down": float64(n)} {
		f[name+" requests/machine"] = (f[name+" writes"] + f[name+" reads"]) / count
	}
	f["requests/machine"] = f["up requests/machine"]
	return nil
}

// ofGardener is a deployment without Machines.
func (t *trial) ofGardener() *unstructured.Unstructured {
	labels := map[string]any{poolLabel: t.name}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
		"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "10%", "maxUnavailable": int64(0)}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"class": map[string]any{"kind": "MachineClass", "name": clusterName}},
		},
	}}}
	obj.SetGroupVersionKind(gardenerKind("MachineDeployment"))
	obj.SetNamespace(metav1.NamespaceDefault)
	obj.SetName(t.name)
	return obj
}

// changeOfGardener changes the deployment until n Machines, and no others, are Running with its class.
func (t *trial) changeOfGardener(name string, n int64, change string) step {
	return step{
		name: name,
		do: func(ctx context.Context) error {
			return t.client.Patch(ctx, t.ofGardener(), client.RawPatch(types.MergePatchType, []byte(change)))
		},
		done: func(ctx context.Context) (bool, error) {
			class := clusterName
			if name == "roll" {
				class = nextTemplate
			}
			return t.areOfGardener(ctx, n, class, nil)
		},
	}
}

// replaceOfGardener deletes a tenth of the Machines until others are Running.
func (t *trial) replaceOfGardener() step {
	gone := map[types.UID]bool{}
	return step{
		name: "replace",
		do: func(ctx context.Context) error {
			all, err := t.machinesOfGardener(ctx)
			if err != nil || len(all) < t.bad() {
				return errors.Join(err, fmt.Errorf("%d Machines are there", len(all)))
			}
			for i := range t.bad() {
				gone[all[i].GetUID()] = true
			}
			return measure.InParallel(ctx, t.bad(), func(i int) error { return t.client.Delete(ctx, all[i].DeepCopy()) })
		},
		done: func(ctx context.Context) (bool, error) { return t.areOfGardener(ctx, int64(t.size), clusterName, gone) },
	}
}

// machinesOfGardener are the Machines of the run, from the cache of this process.
func (t *trial) machinesOfGardener(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gardenerKind("MachineList"))
	err := t.cached.List(ctx, list, client.MatchingLabels{poolLabel: t.name}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// areOfGardener reports whether the Machines are n, without some, that are Running and have a class.
func (t *trial) areOfGardener(ctx context.Context, n int64, class string, without map[types.UID]bool) (bool, error) {
	all, err := t.machinesOfGardener(ctx)
	if err != nil || int64(len(all)) != n {
		return false, err
	}
	for i := range all {
		phase, _, _ := unstructured.NestedString(all[i].Object, "status", "currentStatus", "phase")
		of, _, _ := unstructured.NestedString(all[i].Object, "spec", "class", "name")
		if phase != "Running" || of != class || without[all[i].GetUID()] {
			return false, nil
		}
	}
	return true, nil
}
