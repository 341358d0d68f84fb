package guard

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Wiring says what is used of this package, as far as that needs rights. What it does not say is not there.
type Wiring struct {
	// Kinds are those of all parts. Their GVKs, Resources and StatusSubresource count.
	Kinds Kinds
	// Freezer, Gate (with Answers) and Collector are used. Owners are the kinds that the Collector reads besides Machines.
	Freezer, Gate, Collector bool
	Owners                   []schema.GroupResource
	// Clusters: Ports.ClusterOf of the Freezer is that of external.Clusters. Events: the recorders are those of a manager.
	Clusters, Events bool
}

// PolicyRules are the rights where the Machines are:
//
//   - a Freezer: list, watch and patch of sets and deployments, patch on their status if that is a subresource; list and watch of Machines;
//   - a Gate: get of Machines; a Collector: list of Machines and of Owners;
//   - Events: create, and patch when one comes again.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	machines := w.Kinds.Machine.GroupResource()
	var rules [][]rbacv1.PolicyRule
	if w.Freezer {
		rules = append(rules, []rbacv1.PolicyRule{engine.Rule(machines, "list", "watch")}, engine.PolicyRules(engine.Wiring{
			Own: w.Kinds.Set.GroupResource(), StatusSubresource: w.Kinds.Set.StatusSubresource, Clusters: w.Clusters,
		}))
	}
	if w.Freezer && w.Kinds.Deployment.New != nil {
		rules = append(rules, engine.PolicyRules(engine.Wiring{
			Own: w.Kinds.Deployment.GroupResource(), StatusSubresource: w.Kinds.Deployment.StatusSubresource,
		}))
	}
	if w.Gate {
		rules = append(rules, []rbacv1.PolicyRule{engine.Rule(machines, "get")})
	}
	if w.Collector {
		for _, owner := range append([]schema.GroupResource{machines}, w.Owners...) {
			rules = append(rules, []rbacv1.PolicyRule{engine.Rule(owner, "list")})
		}
	}
	if w.Events {
		events := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
		rules = append(rules, []rbacv1.PolicyRule{engine.Rule(events, "create", "patch")})
	}
	return contract.MergePolicyRules(rules...)
}
