package cluster

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// AllowBootstrap lets every bootstrap token of a cluster ask for a kubelet's certificate, and the controller manager sign it and renew
// it. The bindings are those that kubeadm makes. Existing ones stay as they are. config is that of an administrator.
func AllowBootstrap(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("let kubelets join: %w", err)
	}
	for name, binding := range map[string]struct{ role, group string }{
		"machinist:kubelet-bootstrap":             {"system:node-bootstrapper", "system:bootstrappers"},
		"machinist:node-autoapprove-bootstrap":    {"system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"},
		"machinist:node-autoapprove-certificates": {"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
	} {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: binding.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: binding.group}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("let kubelets join: create ClusterRoleBinding %s: %w", name, err)
		}
	}
	return nil
}
