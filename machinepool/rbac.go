package machinepool

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// Wiring says what a Reconciler is made of, as far as that needs rights. What it does not say is not there.
type Wiring struct {
	// Pool is what the pools' kind is called in paths, such as machinepools of cluster.x-k8s.io. StatusSubresource says that their
	// status is written through its own endpoint.
	Pool              schema.GroupResource
	StatusSubresource bool
	// Machines are those of Kinds.Machine; zero where that is not set.
	Machines schema.GroupResource
	// References are the kinds of infrastructure and bootstrap objects that pools may refer to, and those of the InfraMachines of single
	// instances, as resources; "*" means all of their group.
	References []schema.GroupResource
	// Clusters: Ports.ClusterOf is that of external.Clusters.
	Clusters bool
	// Drains: Nodes are drained and volumes waited for, as [SetupWithManager] and workload.Setup have it.
	Drains bool
	// Events: Options.Recorder is one of a manager, as [SetupWithManager] has it.
	Events bool
	// OwnerReferencesEnforced: the API server of the pools has the admission plugin OwnerReferencesPermissionEnforcement, which lets
	// only those set an owner that blocks deletion who may finalize it, and only those change the owners of an object who may delete it.
	OwnerReferencesEnforced bool
}

// PolicyRules are the rights that a Reconciler needs where the pools are. If the Nodes are there too, it needs [NodePolicyRules]
// besides; if they are in workload clusters, it needs those there, and here those of the cluster.Access. contract.MergePolicyRules
// joins them with others.
//
//   - pools: list, watch and patch, and patch on the status if that is a subresource;
//   - References: list and watch; patch, to own them; delete by UID; get, to make sure that one which is to be gone is;
//   - Machines: list, watch, create, patch, delete by UID; get, to tell one of the pool from another of its name;
//   - Clusters: list, watch and get; CustomResourceDefinitions: list, watch and get;
//   - Events: create, and patch when one comes again.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	lists := [][]rbacv1.PolicyRule{pass.PolicyRules(pass.Wiring{
		Own: w.Pool, StatusSubresource: w.StatusSubresource, References: w.References, Clusters: w.Clusters, Events: w.Events,
		OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	})}
	if !w.Machines.Empty() {
		lists = append(lists, []rbacv1.PolicyRule{pass.Rule(w.Machines, "list", "watch", "get", "create", "patch", "delete")})
	}
	if w.OwnerReferencesEnforced { // Machines have owners that block deletion too
		own := w.Pool
		own.Resource += "/finalizers"
		lists = append(lists, []rbacv1.PolicyRule{pass.Rule(own, "update")})
	}
	return contract.MergePolicyRules(lists...)
}

// NodePolicyRules are the rights that a Reconciler needs where the Nodes are, be that the cluster of the pools or a workload cluster: to
// find, make sure of, label, taint, cordon and delete Nodes, to drain them, and to wait for their volumes.
func NodePolicyRules(w Wiring) []rbacv1.PolicyRule {
	return contract.MergePolicyRules(workload.PolicyRules(workload.Wiring{Drains: w.Drains}),
		[]rbacv1.PolicyRule{pass.Rule(schema.GroupResource{Resource: "nodes"}, "patch", "delete")})
}
