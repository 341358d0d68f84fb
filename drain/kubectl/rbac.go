package kubectl

import rbacv1 "k8s.io/api/rbac/v1"

// PolicyRules returns the permissions that the methods GetPodsForDeletion and DeleteOrEvictPods of a Helper need: list Pods and get each
// until it is gone, get the DaemonSets that own some, and evict. RunCordonOrUncordon of kubectl also needs patch on Nodes. The rules of
// this package need no permissions.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"get"}},
	}
}
