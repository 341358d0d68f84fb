package fake

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// MachineGVK returns the kind of Cluster API's Machine.
func MachineGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
}

// ClusterGVK returns the kind of Cluster API's Cluster.
func ClusterGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}
}

// InfraMachineGVK returns the kind that Infrastructure provides: FakeMachine, and LegacyFakeMachine for contract
// v1beta1, so that one cluster can have both contracts. Its API version has the name of the contract.
func InfraMachineGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: string(v), Kind: prefixed(v, "FakeMachine")}
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
func WithLabels(labels map[string]string) Option {
	return func(u *unstructured.Unstructured) { u.SetLabels(merged(u.GetLabels(), labels)) }
}

// WithAnnotations adds annotations.
func WithAnnotations(annotations map[string]string) Option {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(merged(u.GetAnnotations(), annotations)) }
}

func merged(into, more map[string]string) map[string]string { return labels.Merge(into, more) }

// WithField sets any field, by its path. The value must have a type that unstructured content allows.
func WithField(value any, path ...string) Option {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, value, path...) // fails only on a path through a scalar
	}
}

// Speaking makes a Machine reference the kinds of another contract version; the default is v1beta2.
func Speaking(v contract.Version) Option {
	return func(u *unstructured.Unstructured) {
		WithField(reference(BootstrapConfigGVK(v), u.GetName()), "spec", "bootstrap", "configRef")(u)
		WithField(reference(InfraMachineGVK(v), u.GetName()), "spec", "infrastructureRef")(u)
	}
}

// Machine returns a Machine of cluster.x-k8s.io/v1beta2 in cluster "demo" that references an InfraMachine and a
// BootstrapConfig with its own name.
func Machine(name string, options ...Option) *unstructured.Unstructured {
	u := object(MachineGVK(), name)
	u.Object["spec"] = map[string]any{"clusterName": "demo"}
	Speaking(contract.V1Beta2)(u)
	return apply(u, options)
}

// Cluster returns a Cluster of cluster.x-k8s.io/v1beta2 whose infrastructure is provisioned and whose control plane is
// initialized. A server with the status subresource for Clusters drops the status of a create: write the status
// afterwards.
func Cluster(name string, options ...Option) *unstructured.Unstructured {
	u := object(ClusterGVK(), name)
	u.Object["spec"] = map[string]any{}
	u.Object["status"] = map[string]any{
		"initialization": map[string]any{"infrastructureProvisioned": true, "controlPlaneInitialized": true},
		"conditions": []any{map[string]any{
			"type": contract.ConditionControlPlaneInitialized, "status": "True", "reason": "Initialized", "message": "",
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}
	return apply(u, options)
}

// InfraMachine returns an InfraMachine of the kind that Infrastructure provides.
func InfraMachine(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return apply(object(InfraMachineGVK(v), name), options)
}

// BootstrapConfig returns a BootstrapConfig of the kind that Bootstrap provides.
func BootstrapConfig(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return apply(object(BootstrapConfigGVK(v), name), options)
}

// CRD returns the CustomResourceDefinition of a namespaced kind with a status subresource and a schema that keeps all
// fields. For each contract it has the contract label with the kind's API version; without contracts it has no contract
// label.
func CRD(gvk schema.GroupVersionKind, contracts ...contract.Version) *unstructured.Unstructured {
	plural, _, _ := strings.Cut(contract.CRDName(gvk.GroupKind()), ".")
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": contract.CRDName(gvk.GroupKind())},
		"spec": map[string]any{
			"group": gvk.Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"kind": gvk.Kind, "listKind": gvk.Kind + "List", "plural": plural, "singular": strings.ToLower(gvk.Kind),
			},
			"versions": []any{map[string]any{
				"name": gvk.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
	for _, v := range contracts {
		WithLabels(map[string]string{contract.LabelPrefix + string(v): gvk.Version})(u)
	}
	return u
}

// Node returns a Node with a provider ID, as a kubelet registers it: with its hostname label and its annotation, not
// Ready, and with the startup taint.
func Node(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelHostname: name},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: providerID,
			Taints:     []corev1.Taint{{Key: propagate.UninitializedTaintKey, Effect: propagate.UninitializedTaintEffect}},
		},
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
