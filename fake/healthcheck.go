package fake

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MachineHealthCheckGVK returns the kind of Cluster API's MachineHealthCheck.
func MachineHealthCheckGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineHealthCheck"}
}

// MachineHealthCheck returns a MachineHealthCheck of cluster.x-k8s.io/v1beta2 for the Machines in cluster "demo" with these labels. A Node
// that is not Ready, or of which that is unknown, makes its Machine unhealthy after the timeout, which is cut to seconds.
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

// SetNodeCondition gives a Node a condition that has had its status since a time. It changes the Node, which is to be written to the status
// endpoint.
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
