package kubectl

import rbacv1 "k8s.io/api/rbac/v1"

// PolicyRules are the rights that the methods of a Helper with these options need, GetPodsForDeletion and DeleteOrEvictPods: list Pods
// and get each until it is gone, get the DaemonSets that own some, and evict or, with DisableEviction, delete.
// RunCordonOrUncordon of kubectl needs patch on Nodes in addition. The rules of this package need no rights.
func PolicyRules(o HelperOptions) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"get"}},
	}
	if o.DisableEviction {
		rules[0].Verbs = []string{"delete", "get", "list"}
		return []rbacv1.PolicyRule{rules[0], rules[2]}
	}
	return rules
}
