package machine

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// identityOf returns what a Machine states about its Node.
func identityOf(state *contract.MachineState) noderef.Identity {
	id := noderef.Identity{
		Machine:    state.Key,
		ProviderID: state.ProviderID,
		Current:    noderef.Ref{Name: state.Node.Name, UID: state.Node.UID},
		NodeName:   state.Key.Name,
		Created:    state.Created,
	}
	for _, a := range state.Addresses {
		id.Addresses = append(id.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(a.Type), Address: a.Address})
	}
	return id
}

// claimKeys returns the keys of the Nodes that a Machine of a cluster may claim.
func claimKeys(cluster types.NamespacedName, id noderef.Identity, rules noderef.Rules) []string {
	var keys []string
	if key := rules.Key(id.ProviderID); key != "" {
		keys = append(keys, providerIDKey(cluster, key))
	}
	if id.Current.Name != "" {
		keys = append(keys, nodeKey(cluster, id.Current.Name))
	}
	if rules.ByName && id.NodeName != id.Current.Name {
		keys = append(keys, nodeKey(cluster, id.NodeName))
	}
	if rules.ByAddress {
		keys = append(keys, addressKeys(cluster, id.Addresses)...)
	}
	return keys
}

// nodeKeys returns the same keys for a Node, none when it is nil.
func nodeKeys(cluster types.NamespacedName, node *corev1.Node, rules noderef.Rules) []string {
	if node == nil {
		return nil
	}
	keys := []string{nodeKey(cluster, node.Name)}
	if key := rules.Key(node.Spec.ProviderID); key != "" {
		keys = append(keys, providerIDKey(cluster, key))
	}
	if rules.ByAddress {
		keys = append(keys, addressKeys(cluster, node.Status.Addresses)...)
	}
	return keys
}

func addressKeys(cluster types.NamespacedName, addresses []corev1.NodeAddress) []string {
	var keys []string
	for _, a := range addresses {
		if a.Type == corev1.NodeInternalIP {
			keys = append(keys, addressKey(cluster, a.Address))
		}
	}
	return keys
}

// claims finds the other Machines of a cluster that claim a Node, during the lookup for one Machine. It implements noderef.Claims.
type claims struct {
	ctx     context.Context //nolint:containedctx // noderef asks without a context; a claims value lives for one call
	r       *Reconciler
	cluster types.NamespacedName
	self    client.ObjectKey
	err     error
}

// ClaimsOn implements noderef.Claims. A Machine that cannot be read claims nothing: it reports that itself.
func (c *claims) ClaimsOn(node *corev1.Node) []noderef.Identity {
	var others []noderef.Identity
	for _, key := range nodeKeys(c.cluster, node, c.r.options.Matching) {
		err := c.r.eachMachine(c.ctx, c.cluster.Namespace, key, func(obj client.Object) {
			var state contract.MachineState
			if client.ObjectKeyFromObject(obj) != c.self && c.r.kind.Adapter.Read(obj, &state) == nil {
				others = append(others, identityOf(&state))
			}
		})
		if err != nil {
			c.err = err
		}
	}
	return others
}

// rivalry passes events that may change which Machine a Node belongs to: the creation and deletion of a Machine, and a change of what it
// states about its Node.
func (r *Reconciler) rivalry() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		var before, after contract.MachineState
		if r.kind.Adapter.Read(e.ObjectOld, &before) != nil || r.kind.Adapter.Read(e.ObjectNew, &after) != nil {
			return true // it claimed nothing, or claims nothing any more
		}
		return r.clusterOf(&before) != r.clusterOf(&after) || !reflect.DeepEqual(identityOf(&before), identityOf(&after))
	}}
}

// rivalsOf maps a Machine to the others that claim the same Node: they may use it when this Machine is deleted or corrected.
func (r *Reconciler) rivalsOf(ctx context.Context, obj client.Object) []reconcile.Request {
	var state contract.MachineState
	if r.kind.Adapter.Read(obj, &state) != nil {
		return nil
	}
	var rivals []reconcile.Request
	cluster := r.clusterOf(&state)
	for _, key := range claimKeys(cluster, identityOf(&state), r.options.Matching) {
		for _, request := range r.machinesByKey(ctx, cluster.Namespace, key) {
			if request.NamespacedName != state.Key {
				rivals = append(rivals, request)
			}
		}
	}
	return rivals
}
