package fake

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// MachineGVK returns the kind of Cluster API's Machine.
func MachineGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
}

// ClusterGVK returns the kind of Cluster API's Cluster.
func ClusterGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}
}

// MachinePoolGVK returns the kind of Cluster API's MachinePool.
func MachinePoolGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachinePool"}
}

// MachineHealthCheckGVK returns the kind of Cluster API's MachineHealthCheck.
func MachineHealthCheckGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineHealthCheck"}
}

// InfraMachineGVK returns the kind that Infrastructure provides: FakeMachine, and LegacyFakeMachine for contract
// v1beta1, so that one cluster can have both contracts. Its API version has the name of the contract.
func InfraMachineGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: string(v), Kind: prefixed(v, "FakeMachine")}
}

// InfraMachinePoolGVK returns the kind that PoolInfrastructure provides: FakeMachinePool, and LegacyFakeMachinePool for
// contract v1beta1. Its API version has the name of the contract.
func InfraMachinePoolGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: string(v), Kind: prefixed(v, "FakeMachinePool")}
}

// BootstrapConfigGVK returns the kind that Bootstrap provides: FakeConfig, and LegacyFakeConfig for contract v1beta1.
// Its API version has the name of the contract.
func BootstrapConfigGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: string(v), Kind: prefixed(v, "FakeConfig")}
}

func prefixed(v contract.Version, kind string) string {
	if v == contract.V1Beta1 {
		return "Legacy" + kind
	}
	return kind
}

// Option changes an object that a builder returns. Later options override earlier ones.
type Option func(*unstructured.Unstructured)

// InNamespace sets the namespace; the default is "default".
func InNamespace(namespace string) Option {
	return func(u *unstructured.Unstructured) { u.SetNamespace(namespace) }
}

// WithLabels adds labels.
func WithLabels(more map[string]string) Option {
	return func(u *unstructured.Unstructured) { u.SetLabels(labels.Merge(u.GetLabels(), more)) }
}

// WithAnnotations adds annotations.
func WithAnnotations(more map[string]string) Option {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(labels.Merge(u.GetAnnotations(), more)) }
}

// WithField sets any field, by its path. The value must have a type that unstructured content allows.
func WithField(value any, path ...string) Option {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, value, path...) // fails only on a path through a scalar
	}
}

func object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(metav1.NamespaceDefault)
	u.SetName(name)
	return u
}

func apply(u *unstructured.Unstructured, options []Option) *unstructured.Unstructured {
	for _, option := range options {
		option(u)
	}
	return u
}

func reference(gvk schema.GroupVersionKind, name string) map[string]any {
	return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}
}
