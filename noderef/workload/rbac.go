package workload

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// Wiring says what a Workload is used for, as far as that needs rights. The zero value only reads Nodes.
type Wiring struct {
	// Drains: Nodes are drained and volumes waited for, as [FromManager] and [Setup] have it.
	Drains bool
	// Namespaces: [Workload.NamespaceLabels] is called.
	Namespaces bool
}

// PolicyRules are the rights that a Workload needs in its cluster: to list and watch Nodes, to get one to confirm that it is gone, to drain
// them, and to list and watch Namespaces for their labels. A reconciler that writes Nodes needs rights of its own for that.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	lists := [][]rbacv1.PolicyRule{nodeindex.PolicyRules(), {rule("nodes", "get")}}
	if w.Drains {
		lists = append(lists, runner.PolicyRules(runner.Wiring{Budgets: true, Deleter: true, Volumes: true}))
	}
	if w.Namespaces {
		lists = append(lists, []rbacv1.PolicyRule{rule("namespaces", "list", "watch")})
	}
	return contract.MergePolicyRules(lists...)
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}
