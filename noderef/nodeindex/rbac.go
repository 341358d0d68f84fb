package nodeindex

import rbacv1 "k8s.io/api/rbac/v1"

// PolicyRules are the rights that an [Index] needs in the cluster whose Nodes it keeps: those of the informer of Nodes.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}
}
