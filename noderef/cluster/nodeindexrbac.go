package cluster

import rbacv1 "k8s.io/api/rbac/v1"

// NodePolicyRules returns the rights that an [NodeIndex] needs in the cluster of its Nodes: those of the Node informer.
func NodePolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}
}
