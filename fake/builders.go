package fake

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake/objects"
)

// CRD returns the CustomResourceDefinition of a namespaced kind with a status subresource and a schema that preserves all fields. For each
// contract it has the contract label with the kind's API version; without contracts it has no contract label.
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
		objects.WithLabels(map[string]string{contract.LabelPrefix + string(v): gvk.Version})(u)
	}
	return u
}

// Option is objects.Option.
type Option = objects.Option

// Speaking calls objects.Speaking.
func Speaking(v contract.Version) Option { return objects.Speaking(v) }

// Machine calls objects.Machine.
func Machine(name string, options ...Option) *unstructured.Unstructured {
	return objects.Machine(name, options...)
}

// Cluster calls objects.Cluster.
func Cluster(name string, options ...Option) *unstructured.Unstructured {
	return objects.Cluster(name, options...)
}

// MachinePool calls objects.MachinePool.
func MachinePool(name string, replicas int64, options ...Option) *unstructured.Unstructured {
	return objects.MachinePool(name, replicas, options...)
}

// MachineHealthCheck calls objects.MachineHealthCheck.
func MachineHealthCheck(name string, labels map[string]string, timeout time.Duration, options ...Option) *unstructured.Unstructured {
	return objects.MachineHealthCheck(name, labels, timeout, options...)
}

// Node calls objects.Node.
func Node(name, providerID string) *corev1.Node { return objects.Node(name, providerID) }

// SetNodeCondition calls objects.SetNodeCondition.
func SetNodeCondition(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) {
	objects.SetNodeCondition(node, kind, status, since)
}

// MachineGVK calls objects.MachineGVK.
func MachineGVK() schema.GroupVersionKind { return objects.MachineGVK() }

// ClusterGVK calls objects.ClusterGVK.
func ClusterGVK() schema.GroupVersionKind { return objects.ClusterGVK() }

// MachinePoolGVK calls objects.MachinePoolGVK.
func MachinePoolGVK() schema.GroupVersionKind { return objects.MachinePoolGVK() }

// MachineHealthCheckGVK calls objects.MachineHealthCheckGVK.
func MachineHealthCheckGVK() schema.GroupVersionKind { return objects.MachineHealthCheckGVK() }

// InfraMachineGVK calls objects.InfraMachineGVK.
func InfraMachineGVK(v contract.Version) schema.GroupVersionKind { return objects.InfraMachineGVK(v) }

// InfraMachinePoolGVK calls objects.InfraMachinePoolGVK.
func InfraMachinePoolGVK(v contract.Version) schema.GroupVersionKind {
	return objects.InfraMachinePoolGVK(v)
}

// BootstrapConfigGVK calls objects.BootstrapConfigGVK.
func BootstrapConfigGVK(v contract.Version) schema.GroupVersionKind {
	return objects.BootstrapConfigGVK(v)
}

// InNamespace calls objects.InNamespace.
func InNamespace(namespace string) Option { return objects.InNamespace(namespace) }

// WithLabels calls objects.WithLabels.
func WithLabels(more map[string]string) Option { return objects.WithLabels(more) }

// WithAnnotations calls objects.WithAnnotations.
func WithAnnotations(more map[string]string) Option { return objects.WithAnnotations(more) }

// WithField calls objects.WithField.
func WithField(value any, path ...string) Option { return objects.WithField(value, path...) }

// InfraMachine calls objects.InfraMachine.
func InfraMachine(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return objects.InfraMachine(v, name, options...)
}

// BootstrapConfig calls objects.BootstrapConfig.
func BootstrapConfig(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return objects.BootstrapConfig(v, name, options...)
}

// InfraMachinePool calls objects.InfraMachinePool.
func InfraMachinePool(v contract.Version, name string, options ...Option) *unstructured.Unstructured {
	return objects.InfraMachinePool(v, name, options...)
}
