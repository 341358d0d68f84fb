package fake

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// WithContract makes a Machine reference the kinds of another contract version; the default is v1beta2.
func WithContract(v contract.Version) Option {
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
	WithContract(contract.V1Beta2)(u)
	return apply(u, options)
}

// Running makes a Machine run as this Node: its bootstrap data and infrastructure exist, and it has the provider ID, name and UID of the
// Node. It does not retain the Node.
func Running(node *corev1.Node) Option {
	return func(u *unstructured.Unstructured) {
		kind := contract.Unstructured(MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
		_ = kind.Adapter.Write(u, contract.MachineUpdate{ // fails only on a path through a scalar
			ProviderID: contract.SetTo(node.Spec.ProviderID), Phase: contract.SetTo("Running"),
			Node:           contract.SetTo(contract.NodeRef{Name: node.Name, UID: node.UID}),
			BootstrapReady: contract.SetTo(true), InfrastructureReady: contract.SetTo(true),
		})
	}
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

// MachineHealthCheck returns a MachineHealthCheck of cluster.x-k8s.io/v1beta2 for the Machines in cluster "demo" with these labels. A
// Machine is unhealthy when the Ready condition of its Node has been False or Unknown for the timeout, which is truncated to seconds.
func MachineHealthCheck(name string, labels map[string]string, timeout time.Duration, options ...Option) *unstructured.Unstructured {
	u := object(MachineHealthCheckGVK(), name)
	matches, rules := map[string]any{}, []any{}
	for key, value := range labels {
		matches[key] = value
	}
	for _, status := range []string{"False", "Unknown"} {
		rules = append(rules, map[string]any{"type": "Ready", "status": status, "timeoutSeconds": int64(timeout / time.Second)})
	}
	u.Object["spec"] = map[string]any{
		"clusterName": "demo", "selector": map[string]any{"matchLabels": matches}, "checks": map[string]any{"unhealthyNodeConditions": rules},
	}
	return apply(u, options)
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

// SetNodeCondition sets a condition of a Node that has had its status since the given time. It changes the Node, which must be written to
// the status endpoint.
func SetNodeCondition(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) {
	c := corev1.NodeCondition{Type: kind, Status: status, Reason: "Fake", LastTransitionTime: metav1.NewTime(since)}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			node.Status.Conditions[i] = c
			return
		}
	}
	node.Status.Conditions = append(node.Status.Conditions, c)
}
