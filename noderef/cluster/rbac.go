package cluster

import rbacv1 "k8s.io/api/rbac/v1"

// PolicyRules are the rights that [Secrets] need in the cluster that the kubeconfig Secrets are in: list and watch for their
// metadata, and get for the Secret of a cluster that is connected to. RBAC knows no labels and no patterns of names, so they hold
// for all Secrets of the namespaces that they are granted in. In a workload cluster the probe of /readyz needs no rule: the
// API server answers it to everybody who is authenticated, and a refusal counts as a sign of life.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}
}
