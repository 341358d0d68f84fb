package runner

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Wiring says which optional parts of a [Config] need rights. The zero value is a Runner that only evicts.
type Wiring struct {
	// Budgets: Config.Budgets reads through a cache.
	Budgets bool
	// Deleter: Config.Deleter is set.
	Deleter bool
	// Volumes: Config.Volumes are [CachedVolumes].
	Volumes bool
	// Events: Config.Events records through the API of events.k8s.io, like the recorder of a manager.
	Events bool
	// ReadsNodes: [Drain] reads Nodes.
	ReadsNodes bool
}

// StandaloneWiring is the Wiring of [Standalone].
func StandaloneWiring() Wiring { return Wiring{Budgets: true, Deleter: true, ReadsNodes: true} }

// PolicyRules are the rights that a [Runner] needs in the cluster whose Nodes it drains:
//
//   - Nodes: patch, for the cordon and the taint of the policy; get for Drain;
//   - Pods: list and watch, for a [ScopedPodSource], and delete for a Deleter;
//   - pods/eviction: create;
//   - PodDisruptionBudgets, and for volumes VolumeAttachments and PersistentVolumes: list and watch.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	rules := []rbacv1.PolicyRule{
		rule("", "nodes", "patch"),
		rule("", "pods", "list", "watch"),
		rule("", "pods/eviction", "create"),
	}
	for _, choice := range []struct {
		made  bool
		rules []rbacv1.PolicyRule
	}{
		{w.Budgets, []rbacv1.PolicyRule{rule("policy", "poddisruptionbudgets", "list", "watch")}},
		{w.Deleter, []rbacv1.PolicyRule{rule("", "pods", "delete")}},
		{w.Volumes, []rbacv1.PolicyRule{
			rule("", "persistentvolumes", "list", "watch"), rule("storage.k8s.io", "volumeattachments", "list", "watch")}},
		{w.Events, []rbacv1.PolicyRule{rule("events.k8s.io", "events", "create", "patch")}},
		{w.ReadsNodes, []rbacv1.PolicyRule{rule("", "nodes", "get")}},
	} {
		if choice.made {
			rules = append(rules, choice.rules...)
		}
	}
	return contract.MergePolicyRules(rules)
}
