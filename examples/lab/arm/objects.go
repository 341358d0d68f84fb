package arm

import (
	"cmp"
	"context"
	"os"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// Objects are the objects that Cluster API's manager needs to reconcile Machines in a namespace. The cluster of the
// Machines is its own workload cluster. All methods are safe for concurrent use.
type Objects struct {
	Client client.Client
	Plane  *cluster.ControlPlane
	// Cluster is the name of the Cluster.
	Cluster string
	// Namespace exists. Default: default.
	Namespace string
	// Infrastructure: the Cluster also has an infrastructure object, which is provisioned. Without one, the manager's health checks judge no
	// Machine, because it does not know whether the Cluster's infrastructure is ready.
	Infrastructure bool
}

// Install creates CRDs (Cluster API's and those of the fake providers), the Cluster, the Secret with its kubeconfig, and a
// Machine of its control plane, unless they are there.
func (o *Objects) Install(ctx context.Context) error {
	crds, err := cluster.ClusterAPICRDs(ctx, "v1beta2")
	if err != nil {
		return err
	}
	crds = append(crds,
		fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2),
		fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	if err := cluster.InstallCRDs(ctx, o.Plane.Config(), crds...); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(o.Plane.Kubeconfig())
	if err != nil {
		return err
	}
	spec := map[string]any{"clusterNetwork": map[string]any{"serviceDomain": "cluster.local"}}
	if o.Infrastructure {
		if spec["infrastructureRef"], err = o.infrastructure(ctx); err != nil {
			return err
		}
	}
	of := o.object("Cluster", o.Cluster, spec)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.namespace(), Name: o.Cluster + "-kubeconfig",
			Labels: map[string]string{contract.ClusterNameLabel: o.Cluster},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{workloads.KubeconfigKey: kubeconfig},
	}
	for _, obj := range []client.Object{of, secret, o.controlPlane()} {
		if err := o.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// Without references no provider sets these.
	status := `{"status":{"initialization":{"infrastructureProvisioned":true,"controlPlaneInitialized":true},"conditions":[` +
		`{"type":"ControlPlaneInitialized","status":"True","reason":"Initialized","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	return o.Client.Status().Patch(ctx, of, client.RawPatch(types.MergePatchType, []byte(status)))
}

// infrastructure creates the infrastructure object of the Cluster, with its CRD, and returns the reference to it.
func (o *Objects) infrastructure(ctx context.Context) (map[string]any, error) {
	gvk := fake.InfraMachineGVK(contract.V1Beta2).GroupVersion().WithKind("FakeCluster")
	if err := cluster.InstallCRDs(ctx, o.Plane.Config(), fake.CRD(gvk, contract.V1Beta2)); err != nil {
		return nil, err
	}
	obj := o.object(gvk.Kind, o.Cluster, map[string]any{})
	obj.SetGroupVersionKind(gvk)
	if err := o.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	status := []byte(`{"status":{"initialization":{"provisioned":true}}}`)
	return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": o.Cluster},
		o.Client.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, status))
}

// controlPlane is the Machine of a control plane. The manager drains and deletes Nodes only while a control plane
// Machine remains. It is paused, so its Node is not needed.
func (o *Objects) controlPlane() *unstructured.Unstructured {
	m := o.Machine("control-plane")
	m.SetLabels(map[string]string{contract.ClusterNameLabel: o.Cluster, contract.ControlPlaneLabel: ""})
	m.SetAnnotations(map[string]string{contract.PausedAnnotation: ""})
	return m
}

func (o *Objects) namespace() string { return cmp.Or(o.Namespace, metav1.NamespaceDefault) }

func (o *Objects) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	obj.SetKind(kind)
	obj.SetNamespace(o.namespace())
	obj.SetName(name)
	return obj
}

// Machine returns a Machine whose infrastructure has the same name and whose bootstrap data exists.
func (o *Objects) Machine(name string) *unstructured.Unstructured {
	infra := fake.InfraMachineGVK(contract.V1Beta2)
	return o.object("Machine", name, map[string]any{
		"clusterName":       o.Cluster,
		"bootstrap":         map[string]any{"dataSecretName": o.Cluster + "-kubeconfig"}, // any Secret; it is not read
		"infrastructureRef": map[string]any{"apiGroup": infra.Group, "kind": infra.Kind, "name": name},
	})
}
