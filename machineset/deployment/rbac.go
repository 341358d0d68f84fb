package deployment

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Wiring says what a Reconciler is connected to, for PolicyRules.
type Wiring struct {
	// Kinds are those of the Reconciler. Their GVKs, Resources and StatusSubresource count.
	Kinds contract.Kinds
	// Templates are the kinds of bootstrap and infrastructure templates that deployments may refer to, as resources; "*" means all of their
	// group.
	Templates []schema.GroupResource
	// Clusters: ClusterOf of the ports is that of external.Clusters.
	Clusters bool
	// Events: Options.Recorder is one of a manager, as SetupWithManager has it.
	Events bool
	// OwnerReferencesEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as OpenShift's has.
	OwnerReferencesEnforced bool
}

// PolicyRules are the rights that a Reconciler needs:
//
//   - deployments: list, watch, patch, patch on the status if that is a subresource, and get, to make sure of what is about to be acted on;
//   - sets: list, watch, create, patch, delete by UID, and get, to see whose an object is that has a name;
//   - Machines: list and watch; patch, to mark those that are to go and to update others in place, and patch on the status if that is a
//     subresource, for the condition UpToDate;
//   - Templates: list and watch; patch, to have Clusters own them;
//   - CustomResourceDefinitions: list and watch their metadata, and Clusters: list, watch and get;
//   - Events: create, and patch when one is repeated.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	deployments := w.Kinds.Deployment.GroupResource()
	rules := engine.PolicyRules(engine.Wiring{
		Own: deployments, StatusSubresource: w.Kinds.Deployment.StatusSubresource, Templates: w.Templates,
		Children: []schema.GroupResource{w.Kinds.Set.GroupResource()},
		Clusters: w.Clusters, Events: w.Events, OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	})
	sets, machines := w.Kinds.Set.GroupResource(), w.Kinds.Machine.GroupResource()
	also := append(engine.PatchRules(machines, w.Kinds.Machine.StatusSubresource),
		engine.Rule(deployments, "get"), engine.Rule(machines, "list", "watch"))
	if w.OwnerReferencesEnforced { // for Machines that move from one set to another
		also = append(also, engine.Rule(machines, "delete"),
			engine.Rule(schema.GroupResource{Group: sets.Group, Resource: sets.Resource + "/finalizers"}, "update"))
	}
	return contract.MergePolicyRules(rules, also)
}
