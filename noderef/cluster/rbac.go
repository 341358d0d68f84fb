package cluster

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyRules returns the permissions that [Secrets] needs in the cluster with the kubeconfig Secrets: list and watch for their metadata,
// and get for the Secret of a cluster that it connects to. RBAC cannot restrict by label or name pattern, so the rules cover all Secrets of
// the namespaces in which they are granted. In a workload cluster the probe of /readyz needs no rule: every authenticated user may read it,
// and a rejection counts as a sign of life.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}
}

// ConnectionPolicyRules returns the permission that the user of a kubeconfig needs in its workload cluster in addition to those of
// reconcilers: to get the namespace kube-system, which identifies the cluster.
func ConnectionPolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"},
	}}
}
