package nodeindex

import rbacv1 "k8s.io/api/rbac/v1"

// PolicyRules returns the rights that an [Index] needs in the cluster of its Nodes: those of the Node informer.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}
}
