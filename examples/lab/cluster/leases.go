package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// releaseLeases deletes the Leases of all Nodes. kwok takes a new identity at each start and would wait for the old one's
// Leases to expire, 40 seconds in which no pod starts or goes; a kubelet that restarts keeps its identity.
func (cp *ControlPlane) releaseLeases(ctx context.Context) error {
	config := cp.Config()
	config.UserAgent = probeAgent
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("release the Leases of the Nodes: %w", err)
	}
	err = client.Leases(corev1.NamespaceNodeLease).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("release the Leases of the Nodes: %w", err)
	}
	return nil
}
