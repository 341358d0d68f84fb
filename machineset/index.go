package machineset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// freeKey is the key of Machines without a controller.
const freeKey = "free"

func ownerKey(uid types.UID) string { return "owner:" + string(uid) }

// setKey is the key of Machines that a set of this name controls, whatever its UID.
func setKey(name string) string { return "set:" + name }

func (r *Reconciler) indexName() string { return "machinist." + r.options.Name }

// IndexMachines registers the indexes of Machines and sets with the cache. AddToManager calls it. If you call ReconcileObject from your
// own loop, call it once, before the cache starts.
func (r *Reconciler) IndexMachines(ctx context.Context) error {
	err := r.ports.Cache.IndexField(ctx, pass.NewObject(r.kinds.Machine), r.indexName(), func(obj client.Object) []string {
		owner := metav1.GetControllerOfNoCopy(obj)
		switch {
		case owner == nil:
			return []string{freeKey}
		case owner.Kind == r.kinds.Set.GVK.Kind && pass.Group(owner.APIVersion) == r.kinds.Set.GVK.Group:
			return []string{ownerKey(owner.UID), setKey(owner.Name)}
		}
		return nil
	})
	if err != nil {
		return r.notIndexed(r.kinds.Machine.GVK, err)
	}
	err = r.ports.Cache.IndexField(ctx, pass.NewObject(r.kinds.Set), r.indexName(), func(obj client.Object) []string {
		var state contract.MachineSetState
		if r.kinds.Set.Adapter.Read(obj, &state) != nil {
			return nil // the set itself reports what is wrong with it
		}
		return setKeys(&state)
	})
	if err != nil {
		return r.notIndexed(r.kinds.Set.GVK, err)
	}
	return nil
}

func (r *Reconciler) notIndexed(gvk schema.GroupVersionKind, err error) error {
	return fmt.Errorf("index %s objects (their CRD or Go type must be known, and Options.Name %q unique): %w", gvk.Kind,
		r.options.Name, err)
}

// setKeys are the keys under which a set is found from the events of others.
func setKeys(state *contract.MachineSetState) []string {
	var keys []string
	if state.ClusterName != "" {
		keys = append(keys, clusterKey(state.ClusterName))
	}
	for _, ref := range []contract.Ref{state.Template.Bootstrap, state.Template.Infrastructure} {
		if ref.Group != "" && ref.Kind != "" {
			crd := contract.CRDName(ref.GroupKind())
			keys = append(keys, crdKey(crd), refKey(crd, ref.Name))
		}
	}
	return keys
}

func crdKey(crd string) string       { return "crd:" + crd }
func refKey(crd, name string) string { return "ref:" + crd + "/" + name }
func clusterKey(name string) string  { return "cluster:" + name }

// setsByKey lists the sets under a key, in one namespace or in all, without those that are others' to look after.
func (r *Reconciler) setsByKey(ctx context.Context, namespace, key string) []reconcile.Request {
	var requests []reconcile.Request
	r.eachSet(ctx, namespace, func(obj client.Object) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}, client.MatchingFields{r.indexName(): key})
	return requests
}

// eachSet hands over sets, as views.
func (r *Reconciler) eachSet(ctx context.Context, namespace string, do func(client.Object), options ...client.ListOption) {
	list := pass.NewList(r.kinds.Set)
	options = append(options, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if r.ports.Cache.List(ctx, list, options...) != nil {
		return // it fails only when the cache is stopping
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error { // returns no error of its own
		if obj, ok := item.(client.Object); ok && r.matchesWatchFilter(obj) {
			do(obj)
		}
		return nil
	})
}

// setsOf maps an event about a template, or about the CRD of its kind, to sets.
func (r *Reconciler) setsOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	gvk := kind.GetObjectKind().GroupVersionKind()
	if gvk == external.CRDGVK() {
		return r.setsByKey(ctx, "", crdKey(obj.GetName()))
	}
	return r.setsByKey(ctx, obj.GetNamespace(), refKey(contract.CRDName(gvk.GroupKind()), obj.GetName()))
}
