package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// Builder is the builder of a controller.
type Builder = ctrlbuilder.Builder

// AddToManager adds a reconciler of the kind to a manager as a controller, with an index and with the watches that all kinds have: the
// objects that match the watch filter, the objects that they reference, and their Clusters. watch adds those of the kind.
func (f *Frame[S, U]) AddToManager(
	ctx context.Context, mgr ctrl.Manager, r reconcile.Reconciler, index func(context.Context) error, watch func(*Builder),
) error {
	missing := f.Ports.ClusterOf != nil && f.Ports.ClusterEvents == nil
	if err := EventsMissing("ClusterEvents", missing, f.Kind.GVK.Kind, "Cluster is paused or initialised"); err != nil {
		return err
	}
	if err := index(ctx); err != nil {
		return err
	}
	options := f.Options.Controller
	if options.RateLimiter == nil {
		options.RateLimiter = retries()
	}
	builder := ctrl.NewControllerManagedBy(mgr).Named(f.Options.Name).WithOptions(options).
		For(NewObject(f.Kind), ctrlbuilder.WithPredicates(f.WatchFilterPredicate())).
		WatchesRawSource(f.Tracker)
	if f.Ports.ClusterOf != nil {
		builder = builder.WatchesRawSource(f.Ports.ClusterEvents(func(key types.NamespacedName) []reconcile.Request {
			return f.InCluster(ctx, key)
		}))
	}
	watch(builder)
	if err := builder.Complete(r); err != nil {
		return fmt.Errorf("controller %s: %w", f.Options.Name, err)
	}
	return nil
}

// retries is controller-runtime's rate limiter of retries, except that a failed pass is repeated after at most one minute instead of 17,
// because no event reports that a quota was raised.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, time.Minute),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(rate.Limit(10), 100)},
	)
}

// Setup implements SetupWithManager of each kind: it creates a reconciler and adds it to a manager. Without a recorder it sets the
// manager's, for the controller's name, before create is called.
func Setup[R interface {
	AddToManager(ctx context.Context, mgr ctrl.Manager) error
}](ctx context.Context, mgr ctrl.Manager, recorder *events.EventRecorder, name string, create func() (R, error)) (R, error) {
	if *recorder == nil {
		*recorder = mgr.GetEventRecorder(name)
	}
	r, err := create()
	if err != nil {
		var none R
		return none, err
	}
	return r, r.AddToManager(ctx, mgr)
}

// WatchFilterPredicate passes events of objects that match the watch filter, or have just stopped matching it.
func (f *Frame[S, U]) WatchFilterPredicate() predicate.Predicate {
	p := predicate.NewPredicateFuncs(func(obj client.Object) bool { return f.MatchesWatchFilter(obj) })
	p.UpdateFunc = func(e event.UpdateEvent) bool {
		return f.MatchesWatchFilter(e.ObjectOld) || f.MatchesWatchFilter(e.ObjectNew)
	}
	return p
}

// Wiring describes the parts of a reconciler that need rights. A zero member means that there is no such part.
type Wiring struct {
	// Own is the resource of the kind. StatusSubresource: its status is written through its own endpoint.
	Own               schema.GroupResource
	StatusSubresource bool
	// References are the kinds of infrastructure and bootstrap objects that objects of the kind may reference and own, as resources; "*" means
	// all resources of a group. Without References, no CustomResourceDefinitions are read for them. Cluster API's providers install
	// ClusterRoles with the label cluster.x-k8s.io/aggregate-to-manager for their kinds; those grant more than is needed here.
	References []schema.GroupResource
	// Children are the kinds of objects that the reconciler creates, controls and deletes, such as the Machines of a set.
	Children []schema.GroupResource
	// Templates are the kinds of objects that it clones, and whose owner it makes the Cluster.
	Templates []schema.GroupResource
	// Read are other kinds that are only read, such as control planes.
	Read []schema.GroupResource
	// Clusters: Ports.ClusterOf is the one of external.Clusters.
	Clusters bool
	// Events: Options.Recorder is one of a manager, as with SetupWithManager.
	Events bool
	// OwnerReferencesEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as in OpenShift. It requires the
	// right to finalize an owner that blocks deletion, and the right to delete an object to change its owners.
	OwnerReferencesEnforced bool
}

// PolicyRules returns the rights that all kinds need in the cluster of their objects:
//
//   - own objects: list, watch and patch, and patch on the status if that is a subresource;
//   - References: list and watch; patch, to own them; delete by UID; get, to confirm that one is gone; and get of
//     CustomResourceDefinitions, to confirm that a kind is gone;
//   - Children: list, watch, create, patch, delete by UID, and get, to check the controller of an object with a reserved name;
//   - Templates: list and watch; patch if there are Clusters, which become owners;
//   - Clusters: list, watch and get; Read: list and watch; CustomResourceDefinitions: list and watch their metadata;
//   - Events: create, and patch for a repeated event.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	lists := [][]rbacv1.PolicyRule{
		{Rule(w.Own, "list", "watch")}, PatchRules(w.Own, w.StatusSubresource), ReadRules(slices.Concat(w.References, w.Templates, w.Read)...),
		w.ownerRules(),
	}
	for _, ref := range w.References {
		lists = append(lists, []rbacv1.PolicyRule{Rule(ref, "get", "delete", "patch"), crdRule("get")})
	}
	for _, child := range w.Children {
		lists = append(lists, []rbacv1.PolicyRule{Rule(child, "get", "list", "watch", "create", "patch", "delete")})
	}
	if w.Clusters {
		clusters := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusters"}
		lists = append(lists, []rbacv1.PolicyRule{Rule(clusters, "get", "list", "watch")})
		for _, template := range w.Templates {
			lists = append(lists, PatchRules(template, false))
		}
	}
	if w.Events {
		lists = append(lists, []rbacv1.PolicyRule{Rule(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "create", "patch")})
	}
	return contract.MergePolicyRules(lists...)
}

// ownerRules returns the rules that the admission plugin requires: owners of References and Children block deletion, and an object without
// a controller, and a template, get their Cluster as an owner.
func (w Wiring) ownerRules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if w.OwnerReferencesEnforced && len(w.References)+len(w.Children) > 0 {
		rules = append(rules, Rule(schema.GroupResource{Group: w.Own.Group, Resource: w.Own.Resource + "/finalizers"}, "update"))
	}
	if w.OwnerReferencesEnforced && w.Clusters {
		for _, owned := range slices.Concat([]schema.GroupResource{w.Own}, w.Templates) {
			rules = append(rules, Rule(owned, "delete"))
		}
	}
	return rules
}

// crdRule returns a rule with some verbs on CustomResourceDefinitions.
func crdRule(verbs ...string) rbacv1.PolicyRule {
	return Rule(schema.GroupResource{Group: external.CRDGVK().Group, Resource: "customresourcedefinitions"}, verbs...)
}

// ReadRules returns the rights that a Tracker needs for objects of these resources, and to read their CustomResourceDefinitions. "*" as a
// resource means all resources of its group. Without resources the result is empty.
func ReadRules(resources ...schema.GroupResource) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, 0, 2*len(resources))
	for _, r := range resources {
		rules = append(rules, Rule(r, "list", "watch"), crdRule("list", "watch"))
	}
	return rules
}

// PatchRules returns the rights to patch objects of a resource, and their status if it is a subresource.
func PatchRules(resource schema.GroupResource, statusSubresource bool) []rbacv1.PolicyRule {
	rule := Rule(resource, "patch")
	if statusSubresource {
		rule.Resources = append(rule.Resources, resource.Resource+"/status")
	}
	return []rbacv1.PolicyRule{rule}
}

// Rule returns a rule with some verbs on a resource.
func Rule(resource schema.GroupResource, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: verbs}
}

// Resource returns the resource of a kind, with the given name if it is not empty.
func Resource[S, U any](kind contract.KindOf[S, U], name string) schema.GroupResource {
	resource := kind.GroupResource()
	resource.Resource = cmp.Or(name, resource.Resource)
	return resource
}
