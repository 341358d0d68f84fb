package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

// indexKeys are the keys under which events of other objects find a Machine.
func indexKeys(state *contract.MachineState, cluster types.NamespacedName, rules noderef.Rules) []string {
	named := types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName}
	keys := engine.ReferenceKeys(named, state.Bootstrap, state.Infrastructure)
	if _, member := state.Labels[contract.ControlPlaneLabel]; member && named.Name != "" {
		keys = append(keys, controlPlaneKey(named))
	}
	if deployment := state.Labels[contract.DeploymentNameLabel]; deployment != "" {
		keys = append(keys, deploymentKey(deployment))
	}
	return append(keys, claimKeys(cluster, identityOf(state), rules)...)
}

// withoutOwn returns the keys that the index stores: without those that end with the Machine's own name, for which a read of that Machine
// is enough (namesake). Most Machines have the same name as the objects that they reference and as their Node, and each index entry takes
// half a kilobyte.
func withoutOwn(keys []string, machine types.NamespacedName) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		name, has := ownName(key, machine.Namespace)
		return has && name == machine.Name
	})
}

// ownName returns the name at the end of a key for which a read of the Machine of that name replaces the index; false for other keys. The
// key of a Node of the cluster of all Machines has no namespace.
func ownName(key, namespace string) (string, bool) {
	if namespace == "" || !strings.HasPrefix(key, refPrefix) && !strings.HasPrefix(key, nodePrefix+namespace+"/") {
		return "", false
	}
	return key[strings.LastIndexByte(key, '/')+1:], true
}

const (
	refPrefix  = "ref:"
	nodePrefix = "node:"
	idPrefix   = "id:"
)

func controlPlaneKey(cluster types.NamespacedName) string { return "controlplane:" + cluster.String() }

// deploymentKey has no namespace: a MachineDeployment is in the namespace of its Machines, and they are listed there.
func deploymentKey(deployment string) string { return "deployment:" + deployment }

// providerIDKey has no cluster: what has made an instance may be copied into another one. Who looks for a Node compares the cluster.
func providerIDKey(id string) string { return idPrefix + id }

// providerIDKeys returns the key of a provider ID, none for one that names no instance.
func providerIDKeys(id string, rules noderef.Rules) []string {
	if key := rules.Key(id); key != "" {
		return []string{providerIDKey(key)}
	}
	return nil
}

// The other key of a Node includes the cluster: other clusters have Nodes of the same name.
func nodeKey(cluster types.NamespacedName, name string) string {
	return nodePrefix + cluster.String() + "/" + name
}

// IndexMachines registers the index of Machines with the cache. AddToManager calls it. If you call ReconcileObject from your own loop,
// call it once, before the cache starts. Without it, Machines that claim the same Node do not detect each other.
func (r *Reconciler) IndexMachines(ctx context.Context) error {
	r.indexed = true
	return r.frame.IndexOther(ctx, engine.NewObject(r.kind), r.kind.GVK.Kind, func(obj client.Object) []string {
		return withoutOwn(r.keysOf(obj), client.ObjectKeyFromObject(obj))
	})
}

// keysOf returns the keys of a Machine. One that cannot be read has the provider ID that was read nevertheless, and no other: its own pass
// reports that.
func (r *Reconciler) keysOf(obj client.Object) []string {
	var state contract.MachineState
	if err := r.kind.Adapter.Read(obj, &state); err != nil {
		return providerIDKeys(state.ProviderID, r.options.Matching)
	}
	return indexKeys(&state, r.clusterOf(&state), r.options.Matching)
}

// machinesByKey lists the Machines under a key, in one namespace or in all, without those that the watch filter excludes.
func (r *Reconciler) machinesByKey(ctx context.Context, namespace, key string) []reconcile.Request {
	var requests []reconcile.Request
	_ = r.eachMachine(ctx, namespace, key, func(obj client.Object) { // fails only when the cache is stopping
		if r.frame.MatchesWatchFilter(obj) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	})
	return requests
}

// machinesByKeys lists the Machines of a cluster under any of several keys of a Node, each once, without those that the watch filter
// excludes.
func (r *Reconciler) machinesByKeys(ctx context.Context, cluster types.NamespacedName, keys []string) []reconcile.Request {
	var requests []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for _, key := range keys {
		_ = r.eachMachine(ctx, cluster.Namespace, key, func(obj client.Object) { // fails only when the cache is stopping
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}
			if !seen[request] && r.frame.MatchesWatchFilter(obj) && r.mayBeOf(obj, key, cluster) {
				seen[request], requests = true, append(requests, request)
			}
		})
	}
	return requests
}

// mayBeOf reports whether a Machine under a key of a Node is one of the Node's cluster, see providerIDKey; true when that is not known.
func (r *Reconciler) mayBeOf(obj client.Object, key string, cluster types.NamespacedName) bool {
	var state contract.MachineState
	return !strings.HasPrefix(key, idPrefix) || r.kind.Adapter.Read(obj, &state) != nil || r.clusterOf(&state) == cluster
}

// eachMachine passes each Machine under a key to a function, as a view.
func (r *Reconciler) eachMachine(ctx context.Context, namespace, key string, do func(client.Object)) error {
	if err := r.frame.Each(ctx, namespace, key, do); err != nil {
		return err
	}
	return r.namesake(ctx, namespace, key, do)
}

// namesake passes on the Machine with the name of the object that a key is about, when the key is one of its own.
func (r *Reconciler) namesake(ctx context.Context, namespace, key string, do func(client.Object)) error {
	name, has := ownName(key, namespace)
	if !has {
		return nil
	}
	obj := engine.NewObject(r.kind)
	err := r.ports.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s %s/%s by %s: %w", r.kind.GVK.Kind, namespace, name, key, err)
	}
	if slices.Contains(r.keysOf(obj), key) {
		do(obj)
	}
	return nil
}

// machinesOf maps an event about a referenced object, or about the CRD of its kind, to Machines.
func (r *Reconciler) machinesOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	gvk := kind.GetObjectKind().GroupVersionKind()
	if gvk == external.CRDGVK() {
		return append(r.machinesByKey(ctx, "", engine.CRDKey(obj.GetName())), r.dependents.requests(engine.CRDKey(obj.GetName()))...)
	}
	if gvk.GroupKind() == drainRuleGVK.GroupKind() {
		return r.drainedIn(ctx, obj.GetNamespace())
	}
	crd := contract.CRDName(gvk.GroupKind())
	return append(r.machinesByKey(ctx, obj.GetNamespace(), engine.RefKey(crd, obj.GetName())),
		r.dependents.requests(controlPlaneObjectKey(crd, client.ObjectKeyFromObject(obj)))...)
}

// machinesOfNode maps an event about a Node to the Machines of its cluster that have its provider ID, or have recorded its name.
func (r *Reconciler) machinesOfNode(ctx context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
	keys := make([]string, 0, 2*len(nodes))
	for _, node := range nodes {
		keys = append(keys, nodeKeys(cluster, node, r.options.Matching)...)
	}
	return r.machinesByKeys(ctx, cluster, keys)
}
