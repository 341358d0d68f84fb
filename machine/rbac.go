package machine

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// Wiring says what a Reconciler is made of, as far as that needs rights. What it does not say is not there: the zero value but for
// Kind is a Reconciler that neither drains nor records events, for Machines that refer to nothing.
type Wiring struct {
	// Kind is that of the Machines. Its GVK, Resource and StatusSubresource count.
	Kind contract.Kind
	// Resource is what the Machines' kind is called in paths; default that of Kind.
	Resource string
	// References are the kinds of infrastructure and bootstrap objects that Machines may refer to, as resources; "*" means all of
	// their group. Without any no CustomResourceDefinitions are read for them. Cluster API's providers bring ClusterRoles with
	// the label cluster.x-k8s.io/aggregate-to-manager for theirs, which hold more than is needed here.
	References []schema.GroupResource
	// Clusters: Ports.ClusterOf is that of external.Clusters.
	Clusters bool
	// ControlPlanes are the kinds that those Clusters name as their control planes, as in References. They are read only.
	ControlPlanes []schema.GroupResource
	// Rollouts are MachineSets and MachineDeployments, if Ports.RolloutOf is that of [Rollouts].
	Rollouts []schema.GroupResource
	// DrainRules: Policy.DrainRules are [MachineDrainRules].
	DrainRules bool
	// Drains: Nodes are drained and volumes waited for, as [SetupWithManager] and [SetupWorkload] have it.
	Drains bool
	// Events: Options.Recorder is one of a manager, as [SetupWithManager] has it.
	Events bool
	// OwnerReferencesEnforced: the API server of the Machines has the admission plugin OwnerReferencesPermissionEnforcement, as
	// OpenShift's has. It lets only those set an owner that blocks deletion who may finalize it, and only those change the owners of
	// an object who may delete it.
	OwnerReferencesEnforced bool
}

// PolicyRules are the rights that a Reconciler needs where the Machines are. If the Nodes are there too, it needs [NodePolicyRules]
// besides; if they are in workload clusters, it needs those there, and here those of the cluster.Access, such as
// cluster.PolicyRules. Kubebuilder markers inside a dependency are invisible to an operator's own generator, so here they are
// values. contract.MergePolicyRules joins them with others.
//
//   - Machines: list, watch and patch, and patch on the status if that is a subresource;
//   - References: list and watch; patch, to own them; delete by UID; get, to make sure that one which is to be gone is;
//   - Clusters: list and watch, and get for the same reason; ControlPlanes, Rollouts and MachineDrainRules: list and watch;
//   - CustomResourceDefinitions: list and watch their metadata, where kinds are looked up, and get to make sure that the kind of a
//     reference is gone;
//   - Events: create, and patch when one comes again.
//
// Leader election needs rights of its own on Leases, and steps of your own may need others.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	own := w.resource()
	lists := [][]rbacv1.PolicyRule{
		{rule(own, "list", "watch")},
		patch.PolicyRules(own, w.Kind.StatusSubresource),
		external.PolicyRules(slices.Concat(w.References, w.ControlPlanes)...),
		w.ownerRules(),
	}
	for _, ref := range w.References {
		lists = append(lists, []rbacv1.PolicyRule{rule(ref, "get", "delete"), rule(crds(), "get")}, patch.PolicyRules(ref, false))
	}
	if w.Clusters {
		lists = append(lists, external.ClusterPolicyRules())
	}
	for _, ref := range w.Rollouts {
		lists = append(lists, []rbacv1.PolicyRule{rule(ref, "list", "watch")})
	}
	if w.DrainRules {
		lists = append(lists, external.PolicyRules(schema.GroupResource{Group: drainRuleGVK.Group, Resource: "machinedrainrules"}))
	}
	if w.Events {
		lists = append(lists, []rbacv1.PolicyRule{rule(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "create", "patch")})
	}
	return contract.MergePolicyRules(lists...)
}

// ownerRules are the rules that the admission plugin requires: owners of referenced objects block deletion, and a Machine without a
// controller gets its Cluster as an owner.
func (w Wiring) ownerRules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if w.OwnerReferencesEnforced && len(w.References) > 0 {
		own := w.resource()
		own.Resource += "/finalizers"
		rules = append(rules, rule(own, "update"))
	}
	if w.OwnerReferencesEnforced && w.Clusters {
		rules = append(rules, rule(w.resource(), "delete"))
	}
	return rules
}

// NodePolicyRules are the rights that a Reconciler needs where the Nodes are, be that the cluster of the Machines or a workload
// cluster: to find, label, taint and delete Nodes, to confirm that one is gone, to drain them, and to read the labels of Namespaces for
// MachineDrainRules. They contain no verb that is never used; some are used only when a Node does not answer, or is not where it was.
func NodePolicyRules(w Wiring) []rbacv1.PolicyRule {
	lists := [][]rbacv1.PolicyRule{nodeindex.PolicyRules(), {rule(schema.GroupResource{Resource: "nodes"}, "get", "patch", "delete")}}
	if w.Drains {
		lists = append(lists, runner.PolicyRules(runner.Wiring{Budgets: true, Deleter: true, Volumes: true}))
	}
	if w.Drains && w.DrainRules {
		lists = append(lists, []rbacv1.PolicyRule{rule(schema.GroupResource{Resource: "namespaces"}, "list", "watch")})
	}
	return contract.MergePolicyRules(lists...)
}

func (w Wiring) resource() schema.GroupResource {
	resource := w.Kind.GroupResource()
	resource.Resource = cmp.Or(w.Resource, resource.Resource)
	return resource
}

func crds() schema.GroupResource {
	return schema.GroupResource{Group: external.CRDGVK().Group, Resource: "customresourcedefinitions"}
}

func rule(resource schema.GroupResource, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: verbs}
}
