package guard

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Wiring describes the used parts of this package that need rights. A zero member means that a part is not used.
type Wiring struct {
	// Machines are the Machines that a Gate and a Collector read, as a resource.
	Machines schema.GroupResource
	// Gate (with Answers) and Collector are used. Owners are the kinds that the Collector reads besides Machines.
	Gate, Collector bool
	Owners          []schema.GroupResource
	// Events: the recorder of the Collector is one of a manager.
	Events bool
}

// PolicyRules returns the rights in the cluster of the Machines:
//
//   - a Gate: get of Machines; a Collector: list of Machines and of Owners;
//   - Events: create, and patch for a repeated event.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if w.Gate {
		rules = append(rules, engine.Rule(w.Machines, "get"))
	}
	if w.Collector {
		for _, owner := range append([]schema.GroupResource{w.Machines}, w.Owners...) {
			rules = append(rules, engine.Rule(owner, "list"))
		}
	}
	if w.Events {
		rules = append(rules, engine.Rule(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "create", "patch"))
	}
	return contract.MergePolicyRules(rules)
}
