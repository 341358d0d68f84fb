package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
	"github.com/machinist-dev/machinist/fake"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
)

const (
	capiCluster      = "drainbench"
	pausedAnnotation = "cluster.x-k8s.io/paused"
	machineLimit     = 2 * time.Minute
)

func infraGVK() schema.GroupVersionKind { return fake.InfraMachineGVK(contract.V1Beta2) }

// capiObjects are what Cluster API's manager needs to take a Node for a Machine's. The cluster of the Machines is its own.
type capiObjects struct {
	client client.Client
	plane  *cluster.ControlPlane
}

// install creates CRDs, the Cluster and what belongs to it, unless they are there.
func (o *capiObjects) install(ctx context.Context) error {
	crds, err := cluster.ClusterAPICRDs(ctx, "v1beta2")
	if err != nil {
		return err
	}
	crds = append(crds, fake.CRD(infraGVK(), contract.V1Beta2))
	config := o.plane.Config()
	if err := cluster.InstallCRDs(ctx, config, crds...); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(o.plane.Kubeconfig())
	if err != nil {
		return err
	}
	of := capiObject("Cluster", capiCluster, map[string]any{
		"clusterNetwork": map[string]any{"serviceDomain": "cluster.local"},
	})
	// The manager drains only where a control plane remains, of which this one is all. It is paused, so nobody looks for its Node.
	controlPlane := machineObject("control-plane")
	controlPlane.SetLabels(map[string]string{workloads.LabelClusterName: capiCluster, contract.ControlPlaneLabel: ""})
	controlPlane.SetAnnotations(map[string]string{pausedAnnotation: ""})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: capiCluster + "-kubeconfig", Labels: map[string]string{workloads.LabelClusterName: capiCluster},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{workloads.KubeconfigKey: kubeconfig},
	}
	for _, obj := range []client.Object{of, secret, controlPlane} {
		if err := o.client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// Without references nobody else says these.
	status := `{"status":{"initialization":{"infrastructureProvisioned":true,"controlPlaneInitialized":true},"conditions":[` +
		`{"type":"ControlPlaneInitialized","status":"True","reason":"Initialized","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	return o.client.Status().Patch(ctx, of, client.RawPatch(types.MergePatchType, []byte(status)))
}

func capiObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// machineObject is a Machine whose infrastructure has the same name and whose bootstrap data exist already.
func machineObject(name string) *unstructured.Unstructured {
	return capiObject("Machine", name, map[string]any{
		"clusterName": capiCluster,
		"bootstrap":   map[string]any{"dataSecretName": capiCluster + "-kubeconfig"}, // any Secret; nobody reads it
		"infrastructureRef": map[string]any{
			"apiGroup": infraGVK().Group, "kind": infraGVK().Kind, "name": name,
		},
	})
}

// createMachines creates a Machine of the same name for each Node and waits until the manager knows that it is the Machine's.
func (o *capiObjects) createMachines(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		infra := fake.InfraMachine(contract.V1Beta2, name, fake.InNamespace(namespace))
		infra.Object["spec"] = map[string]any{"providerID": providerID(name)}
		infra.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": true}}
		status := infra.DeepCopy()
		if err := o.client.Create(ctx, infra); err != nil {
			return err
		}
		status.SetResourceVersion(infra.GetResourceVersion())
		if err := o.client.Status().Update(ctx, status); err != nil {
			return err
		}
		if err := o.client.Create(ctx, machineObject(name)); err != nil {
			return err
		}
	}
	for _, name := range nodes {
		err := o.poll(ctx, name, machineLimit, func(m *unstructured.Unstructured) bool {
			if m == nil {
				return false
			}
			node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
			return node == name
		})
		if err != nil {
			return fmt.Errorf("wait for the Machine %s to find its Node: %w", name, err)
		}
	}
	return nil
}

// deleteMachines deletes the Nodes' Machines and returns when they are gone.
func (o *capiObjects) deleteMachines(ctx context.Context, nodes []string) error {
	for _, name := range nodes {
		if err := o.client.Delete(ctx, machineObject(name)); err != nil {
			return err
		}
	}
	for _, name := range nodes {
		if err := o.poll(ctx, name, 0, func(m *unstructured.Unstructured) bool { return m == nil }); err != nil {
			return fmt.Errorf("wait for the Machine %s to go: %w", name, err)
		}
	}
	return nil
}

// poll waits until check is content with a Machine, which is nil when there is none. Without a limit only ctx ends it.
func (o *capiObjects) poll(ctx context.Context, name string, limit time.Duration, check func(*unstructured.Unstructured) bool) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return wait.PollUntilContextCancel(ctx, 4*scenePoll, true, func(ctx context.Context) (bool, error) {
		m := machineObject(name)
		err := o.client.Get(ctx, client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			return check(nil), nil
		}
		return err == nil && check(m), err
	})
}
