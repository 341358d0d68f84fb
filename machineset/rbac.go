package machineset

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// Wiring says what a Reconciler is made of, as far as that needs rights. What it does not say is not there.
type Wiring struct {
	// Kinds are those of the Reconciler. Their GVKs, Resources and StatusSubresource count.
	Kinds Kinds
	// SetResource and MachineResource are what they are called in paths; default those of Kinds.
	SetResource, MachineResource string
	// Templates are the kinds of bootstrap and infrastructure templates that sets may refer to, as resources, and References the kinds
	// of what is cloned from them; "*" means all of their group.
	Templates, References []schema.GroupResource
	// Clusters: Ports.ClusterOf is that of external.Clusters.
	Clusters bool
	// ControlPlanes are the kinds that those Clusters name as their control planes, for preflight checks.
	ControlPlanes []schema.GroupResource
	// Events: Options.Recorder is one of a manager, as SetupWithManager has it.
	Events bool
	// OwnerReferencesEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as OpenShift's has. It
	// lets only those set an owner that blocks deletion who may finalize it.
	OwnerReferencesEnforced bool
}

// PolicyRules are the rights that a Reconciler needs:
//
//   - sets: list, watch, patch, patch on the status if that is a subresource, and get, to make sure of what is about to be acted on;
//   - Machines and References: list, watch, create, patch, delete by UID, and get, to see whose an object is that has a name;
//   - Templates: list and watch; patch, to have Clusters own them; ControlPlanes: list and watch;
//   - CustomResourceDefinitions: list and watch their metadata, and Clusters: list, watch and get;
//   - Events: create, and patch when one comes again.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	rule := func(at schema.GroupResource, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{at.Group}, Resources: []string{at.Resource}, Verbs: verbs}
	}
	sets, machines := resourceOf(w.Kinds.Set.GroupResource(), w.SetResource), resourceOf(w.Kinds.Machine.GroupResource(), w.MachineResource)
	rules := []rbacv1.PolicyRule{rule(sets, "get", "list", "watch", "patch")}
	if w.Kinds.Set.StatusSubresource {
		rules = append(rules, rule(schema.GroupResource{Group: sets.Group, Resource: sets.Resource + "/status"}, "patch"))
	}
	if w.OwnerReferencesEnforced {
		rules = append(rules, rule(schema.GroupResource{Group: sets.Group, Resource: sets.Resource + "/finalizers"}, "update"))
	}
	for _, at := range slices.Concat([]schema.GroupResource{machines}, w.References) {
		rules = append(rules, rule(at, "get", "list", "watch", "create", "patch", "delete"))
	}
	for _, at := range w.Templates {
		verbs := []string{"list", "watch"}
		if w.Clusters {
			verbs = append(verbs, "patch")
		}
		rules = append(rules, rule(at, verbs...))
	}
	if len(w.Templates) > 0 {
		rules = append(rules, rule(schema.GroupResource{Group: external.CRDGVK().Group, Resource: "customresourcedefinitions"}, "list", "watch"))
	}
	if w.Clusters {
		rules = append(rules, external.ClusterPolicyRules()...)
	}
	for _, at := range w.ControlPlanes {
		rules = append(rules, rule(at, "list", "watch"))
	}
	if w.Events {
		rules = append(rules, rule(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "create", "patch"))
	}
	return contract.MergePolicyRules(rules)
}

func resourceOf(resource schema.GroupResource, name string) schema.GroupResource {
	resource.Resource = cmp.Or(name, resource.Resource)
	return resource
}
