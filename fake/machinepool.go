package fake

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// MachinePoolGVK returns the kind of Cluster API's MachinePool.
func MachinePoolGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachinePool"}
}

// InfraMachinePoolGVK returns the kind that PoolInfrastructure provides: FakeMachinePool, and LegacyFakeMachinePool for
// contract v1beta1. Its API version has the name of the contract.
func InfraMachinePoolGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: string(v), Kind: prefixed(v, "FakeMachinePool")}
}

// InfraMachinePool returns an InfraMachinePool of the kind that PoolInfrastructure provides.
func InfraMachinePool(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return apply(object(InfraMachinePoolGVK(v), name), options)
}

// MachinePool returns a MachinePool of cluster.x-k8s.io/v1beta2 with these replicas in cluster "demo" that references
// an InfraMachinePool and a BootstrapConfig with its own name.
func MachinePool(name string, replicas int64, options ...Option) *unstructured.Unstructured {
	u := object(MachinePoolGVK(), name)
	u.Object["spec"] = map[string]any{
		"clusterName": "demo", "replicas": replicas,
		"template": map[string]any{"spec": map[string]any{
			"clusterName":       "demo",
			"bootstrap":         map[string]any{"configRef": reference(BootstrapConfigGVK(contract.V1Beta2), name)},
			"infrastructureRef": reference(InfraMachinePoolGVK(contract.V1Beta2), name),
		}},
	}
	return apply(u, options)
}
