package machinepool

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
)

// indexKeys returns the keys under which events of other objects find a pool.
func indexKeys(state *contract.MachinePoolState, cluster types.NamespacedName, rules noderef.Rules) []string {
	keys := append([]string{labelKey(contract.LabelValue(state.Key.Name))},
		engine.ReferenceKeys(contract.CommonOf(state), state.Template.Bootstrap, state.Template.Infrastructure)...)
	for _, id := range state.ProviderIDs {
		keys = append(keys, engine.NodeKeys(cluster, id, "", rules)...)
	}
	for _, node := range state.Nodes {
		keys = append(keys, engine.NodeKeys(cluster, "", node.Name, rules)...)
	}
	return keys
}

// labelKey is the key of objects that a provider labels with the pool's name.
func labelKey(value string) string { return "label:" + value }

// indexPools registers the indexes of pools, and of Machines if their kind is set, with the cache.
func (r *Reconciler) indexPools(ctx context.Context) error {
	err := r.frame.Index(ctx, func(state *contract.MachinePoolState) []string {
		return indexKeys(state, r.clusterOf(state), r.options.Matching)
	})
	if err == nil && r.kinds.hasMachines() {
		err = r.frame.IndexOther(ctx, engine.NewObject(r.kinds.Machine), r.kinds.Machine.GVK.Kind, r.machineKeys)
	}
	return err
}

// poolsOf maps an event about a referenced object, about an object that is labelled with a pool's name, or about the CRD of its kind,
// to pools.
func (r *Reconciler) poolsOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	return append(r.frame.Referring(ctx, kind, obj), r.labelled(ctx, obj)...)
}

// labelled returns the pools whose name is in the label of an object.
func (r *Reconciler) labelled(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.frame.ByKey(ctx, obj.GetNamespace(), labelKey(obj.GetLabels()[contract.PoolNameLabel]))
}

// poolsOfNode maps an event about a Node to the pools of its namespace that list its instance, in any cluster, or have recorded its name;
// an event of the manager's own cluster to those of all namespaces.
func (r *Reconciler) poolsOfNode(ctx context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
	var requests []reconcile.Request
	for _, node := range nodes {
		if node == nil {
			continue
		}
		for _, key := range engine.NodeKeys(cluster, node.Spec.ProviderID, node.Name, r.options.Matching) {
			requests = append(requests, r.frame.ByKey(ctx, cluster.Namespace, key)...)
		}
	}
	return requests
}

// claimsOn returns the claims of the pools of a cluster on a Node.
func (r *Reconciler) claimsOn(
	ctx context.Context, cluster types.NamespacedName, node *corev1.Node,
) (all []noderef.Identity, err error) {
	for _, key := range engine.NodeKeys(cluster, node.Spec.ProviderID, node.Name, r.options.Matching) {
		err = errors.Join(err, r.frame.Each(ctx, cluster.Namespace, key, func(obj client.Object) {
			var state contract.MachinePoolState
			if r.frame.Read(obj, &state) == nil && r.clusterOf(&state) == cluster {
				all = append(all, claimOf(&state, node, r.options.Matching))
			}
		}))
	}
	return all, err
}

// claimOf returns the claim of a pool on one Node.
func claimOf(state *contract.MachinePoolState, node *corev1.Node, rules noderef.Rules) noderef.Identity {
	identity := noderef.Identity{Machine: state.Key}
	if lists(state.ProviderIDs, node, rules) {
		identity.ProviderID = node.Spec.ProviderID
	}
	for _, ref := range state.Nodes {
		if ref.Name == node.Name {
			identity.Current = ref
		}
	}
	return identity
}

// machineKeys returns the keys of a Machine that has the label of a pool, is controlled by one, or claims a Node.
func (r *Reconciler) machineKeys(obj client.Object) (keys []string) {
	for _, pool := range r.frame.ControllerOf(obj) { // the label may have been removed, and the pool restores it
		keys = append(keys, labelKey(contract.LabelValue(pool.Name)))
	}
	keys = append(keys, labelKey(obj.GetLabels()[contract.PoolNameLabel]))
	var m contract.MachineState
	if err := r.kinds.Machine.Adapter.Read(obj, &m); err != nil {
		return keys // its own pass reports the error
	}
	return append(keys, engine.NodeKeys(r.clusterOfMachine(&m), m.ProviderID, m.Node.Name, r.options.Matching)...)
}

// clusterOfMachine returns the workload cluster of a Machine.
func (r *Reconciler) clusterOfMachine(m *contract.MachineState) types.NamespacedName {
	return r.workloads.ClusterOf(m.Key.Namespace, cmp.Or(m.ClusterName, m.Labels[contract.ClusterNameLabel]))
}

// claimsNode reports whether a Machine claims a Node: it has the Machine's provider ID, or the Machine has recorded it.
func claimsNode(m *contract.MachineState, node *corev1.Node, rules noderef.Rules) bool {
	recorded := m.Node.Name == node.Name && (m.Node.UID == "" || m.Node.UID == node.UID)
	return recorded || rules.Same(m.ProviderID, node.Spec.ProviderID)
}

// leaveToMachines finds the leaving instances, or all in a deletion, whose Node a Machine claims: the controller of that Machine, the
// pool's own or not, handles them. It requests another pass, because the event of a Machine that no longer claims a Node may wake no pool.
// If Machines cannot be read, the pool handles no Node.
func (p *Scope) leaveToMachines(ctx context.Context) (err error) {
	for i := range p.instances {
		one := &p.instances[i]
		leaves := one.State == retired || one.State == here && (p.Deleting() || p.env.options.Policy.Leaving(one.Node))
		if !leaves || !p.env.kinds.hasMachines() {
			continue
		}
		if one.OfMachine, err = p.claimedByMachine(ctx, one.Node); err != nil {
			return err
		}
		getsMachine := p.machines != nil && p.machines.instances.Has(p.env.options.Matching.Key(one.Node.Spec.ProviderID))
		if one.OfMachine = one.OfMachine || getsMachine && !p.Deleting(); one.OfMachine {
			p.Requeue(claimedRetry)
		}
	}
	return nil
}

// claimedByMachine reports whether a Machine claims a Node.
func (p *Scope) claimedByMachine(ctx context.Context, node *corev1.Node) (bool, error) {
	rules, cluster := p.env.options.Matching, p.env.clusterOf(&p.State)
	for _, key := range engine.NodeKeys(cluster, node.Spec.ProviderID, node.Name, rules) {
		all, err := p.env.machines.List(ctx, cluster.Namespace, key, true, nil)
		claims := func(m machine) bool {
			return p.env.clusterOfMachine(m.State) == cluster && claimsNode(m.State, node, rules)
		}
		if err != nil || slices.ContainsFunc(all, claims) {
			return err == nil, err
		}
	}
	return false, nil
}
