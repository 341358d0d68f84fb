package machine

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// PolicyRules are the rights that a Reconciler made by SetupWithManager needs, for Machines of the given group and resource
// ("cluster.x-k8s.io", "machines") and for the API groups of the providers in use. Kubebuilder markers inside a dependency
// are invisible to an operator's own generator, so here they are values.
func PolicyRules(machineGroup, machineResource string, providerGroups ...string) []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	rules := slices.Grow([]rbacv1.PolicyRule{
		rule(machineGroup, []string{machineResource}, "get", "list", "watch", "patch"),
		rule(machineGroup, []string{machineResource + "/status"}, "patch"),
		rule(machineGroup, []string{machineResource + "/finalizers"}, "update"), // for blockOwnerDeletion
		rule(machineGroup, []string{"clusters", "machinesets", "machinedeployments", "machinedrainrules"}, "get", "list", "watch"),
		rule("controlplane.cluster.x-k8s.io", []string{"*"}, "get", "list", "watch"), // what a Cluster names as its control plane
		rule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, "get", "list", "watch"),
		rule("", []string{"nodes"}, "get", "list", "watch", "patch", "delete"),
		rule("", []string{"pods"}, "get", "list", "watch"),
		rule("", []string{"pods/eviction"}, "create"),
		rule("", []string{"namespaces"}, "get", "list", "watch"), // drain rules select by their labels
		rule("", []string{"persistentvolumes"}, "get", "list", "watch"),
		rule("storage.k8s.io", []string{"volumeattachments"}, "get", "list", "watch"),
		rule("policy", []string{"poddisruptionbudgets"}, "get", "list", "watch"),
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
	}, len(providerGroups))
	for _, group := range providerGroups {
		rules = append(rules, rule(group, []string{"*"}, "get", "list", "watch", "patch", "delete"))
	}
	return rules
}
