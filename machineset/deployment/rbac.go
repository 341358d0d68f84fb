package deployment

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Wiring describes the parts of a Reconciler that need rights, for PolicyRules.
type Wiring struct {
	// Kinds are the kinds of the Reconciler. Their GVKs, Resources and StatusSubresource are used.
	Kinds contract.Kinds
	// Templates are the kinds of bootstrap and infrastructure templates that deployments may reference, as resources; "*" means all resources
	// of a group.
	Templates []schema.GroupResource
	// Clusters: ClusterOf of the ports is the one of external.Clusters.
	Clusters bool
	// Events: Options.Recorder is one of a manager, as with SetupWithManager.
	Events bool
	// OwnerReferencesEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as in OpenShift.
	OwnerReferencesEnforced bool
}

// PolicyRules returns the rights that a Reconciler needs:
//
//   - deployments: list, watch, patch, patch on the status if that is a subresource, and get, to confirm the deployment before acting;
//   - sets: list, watch, create, patch, delete by UID, and get, to check the owner of an object with a reserved name;
//   - Machines: list and watch; patch, to mark Machines to delete and to update others in place, and patch on the status if that is a
//     subresource, for the condition UpToDate;
//   - Templates: list and watch; patch, to set Clusters as owners;
//   - CustomResourceDefinitions: list and watch their metadata, and Clusters: list, watch and get;
//   - Events: create, and patch for a repeated event.
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
