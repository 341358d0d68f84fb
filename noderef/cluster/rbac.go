package cluster

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyRules returns the rights that [Secrets] needs in the cluster that has the kubeconfig Secrets: list and watch
// for their metadata, and get for the Secret of a cluster that it connects to. RBAC cannot restrict by label or name
// pattern, so the rights cover all Secrets of the namespaces in which they are granted. In a workload cluster the probe
// of /readyz needs no rule: the API server answers it to every authenticated user, and a refusal counts as a sign of
// life.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}
}

// ConnectionPolicyRules returns the right that the user of a kubeconfig needs in its workload cluster beside those of reconcilers: to get
// the namespace kube-system, by which the cluster is known again.
func ConnectionPolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"},
	}}
}
