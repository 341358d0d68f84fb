package external

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
)

// ClusterOptions configures how Clusters are read. The zero value is ready for use.
type ClusterOptions struct {
	// Version is the API version of cluster.x-k8s.io, contract.V1Beta1 or contract.V1Beta2. Default contract.V1Beta2.
	Version contract.Version
	// Clock times the wait for the first list and the retry for a kind that is not served. Default: the real clock.
	Clock clock.PassiveClock
}

// Clusters reads the Cluster objects of Cluster API for a Reconciler:
//
//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
//
// It uses one informer for Clusters, and wakes Machines only for changes that matter to them. Safe for concurrent use.
type Clusters struct {
	gvk     schema.GroupVersionKind
	layout  *contract.ClusterLayout
	reader  client.Reader
	tracker *Tracker
	since   func() time.Time // when the first list was found incomplete
}

// ClustersFromManager returns a Clusters that reads through the cache of a manager. It fails when there is no layout for the version. It
// makes no request.
func ClustersFromManager(mgr ctrl.Manager, options ClusterOptions) (*Clusters, error) {
	return NewClusters(mgr.GetCache(), mgr.GetAPIReader(), options)
}

// NewClusters returns a Clusters that reads through a cache. The reader must read from the API server: it confirms that a Cluster that is
// missing in the cache is gone. NewClusters makes no request.
func NewClusters(c cache.Cache, reader client.Reader, options ClusterOptions) (*Clusters, error) {
	version := cmp.Or(options.Version, contract.V1Beta2)
	layout := contract.LayoutsOf(version).Cluster
	if layout == nil {
		return nil, fmt.Errorf("clusters: %w %q: want %s or %s", contract.ErrUnknownVersion, version, contract.V1Beta1, contract.V1Beta2)
	}
	clusters := &Clusters{
		gvk: schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: string(version), Kind: "Cluster"}, layout: layout, reader: reader,
		tracker: NewTracker(c, nil, "Clusters"),
	}
	if options.Clock != nil {
		clusters.tracker.clock = options.Clock
	}
	clusters.since, clusters.tracker.news = sync.OnceValue(clusters.tracker.clock.Now), clusters.isNews
	return clusters, nil
}

// unsyncedGrace is how long the first list of Clusters may take before it is reported as a problem. At the start of a
// process a short wait is normal.
const unsyncedGrace = 30 * time.Second

// Of returns a view of a Cluster. It reads the cache and does not wait. It sends a request to the API server only for a Cluster that is not
// in the cache. A Cluster that cannot be read is Unread, with a Problem if a person can fix it. The error is one of the API server or of
// the cache.
func (c *Clusters) Of(ctx context.Context, key types.NamespacedName) (ClusterView, error) {
	found, obj := Object{GVK: c.gvk, Presence: Unread}, ofKind(c.gvk)
	err := c.tracker.read(ctx, key, obj, &found)
	view := ClusterView{Presence: found.Presence, GVK: c.gvk, Problem: found.Problem, RetryAfter: found.RetryAfter}
	switch {
	case err != nil:
	case found.Problem.Reason == ReasonVersionNotServed:
		view.Problem.Message = fmt.Sprintf("%s of %s are not served: install its CustomResourceDefinition, or do not have Clusters read",
			c.gvk.Kind, c.gvk.GroupVersion())
	case found.Problem.Reason == ReasonCacheNotSynced && c.tracker.clock.Since(c.since()) < unsyncedGrace:
		view.Problem = Problem{}
	case found.Presence == Absent:
		var gone bool
		if gone, err = ConfirmAbsent(ctx, c.reader, c.gvk, key); !gone {
			view.Presence, view.RetryAfter = Unread, AbsenceRetry
		}
	case found.Presence == Present:
		if err := c.layout.Read(obj, &view.State); err != nil { // the object violates its contract; a person must correct it
			view.Presence, view.State, view.Problem = Unread, contract.ClusterState{}, Problem{ReasonContractViolation, err.Error()}
		}
	}
	return view, err
}

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues the requests of mapper for a Cluster when the
// Cluster is created, deleted, paused, resumed or initialized, begins to be deleted, or changes its control plane or its labels, by which
// MachineDrainRules select. Other changes of a Cluster cause no event.
func (c *Clusters) Source(mapper ClusterMapper) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		c.tracker.start(&sink{ctx, q, func(_ context.Context, _, obj client.Object) []reconcile.Request {
			return mapper(client.ObjectKeyFromObject(obj))
		}})
		return nil
	})
}

// isNews reports whether a change of a Cluster matters to its Machines. Other fields, such as the number of Machines that are up to date,
// change often.
func (c *Clusters) isNews(before, now client.Object) bool {
	var old, fresh contract.ClusterState
	one, ok := before.(*unstructured.Unstructured)
	other, ok2 := now.(*unstructured.Unstructured)
	if !ok || !ok2 || c.layout.Read(one, &old) != nil || c.layout.Read(other, &fresh) != nil {
		return true
	}
	for _, s := range []*contract.ClusterState{&old, &fresh} {
		s.Metadata = contract.Metadata{UID: s.UID, Deleting: s.Deleting, Labels: s.Labels}
	}
	return !reflect.DeepEqual(old, fresh)
}

// ClusterMapper returns the requests to enqueue for an event of a Cluster, by its namespace and name.
type ClusterMapper func(types.NamespacedName) []reconcile.Request

// ClusterView is the Cluster of a Machine as a pass has read it. The zero ClusterView is a Machine without a Cluster. It is a value; the
// objects that it references may be shared with a cache and must not be changed.
type ClusterView struct {
	// Presence reports whether the other fields are known. Absent means that the API server has confirmed it. Unread means that nothing is
	// known: the Cluster may be paused.
	Presence Presence
	// GVK is the Cluster's kind, for owner references; with the zero value none is added.
	GVK schema.GroupVersionKind
	// State is the content of the Cluster; zero unless Present.
	State contract.ClusterState
	// Problem is why the Cluster is Unread; zero if a person cannot fix it.
	Problem Problem
	// RetryAfter is the delay before another read if no event may follow; zero if one will.
	RetryAfter time.Duration
	// ControlPlane is the object that the Cluster references as its control plane; NotReferenced without one. It is read only for a Machine in
	// deletion, by the Reconciler if ClusterOf has not read it.
	ControlPlane Object
	// ControlPlaneState is the content of that object; zero unless ControlPlane is Present.
	ControlPlaneState contract.ControlPlaneState
	// ActiveControlPlaneMachines is the number of control plane Machines of the Cluster that are not being deleted. It is counted only for a
	// Machine in deletion, by the Reconciler if ClusterOf has not counted it. Absent means unknown, not zero.
	ActiveControlPlaneMachines contract.Opt[int]
	// ControlPlaneUncounted means that those Machines cannot be counted, because they may have another kind than the Machine, or because there
	// is no index. Then ActiveControlPlaneMachines stays absent, and no decision uses it.
	ControlPlaneUncounted bool
}

// Stays reports whether the Cluster may become an owner: it exists, has the UID that was read, and is not being deleted. It confirms this
// with one request to the API server, or none if the view is enough. A Cluster that is deleted with --cascade=orphan releases its
// dependents; a dependent that becomes owned again would be garbage collected with it. The reader must not be a cache. Rule: Kubernetes'
// controllers check again before they adopt (RecheckDeletionTimestamp).
func (v ClusterView) Stays(ctx context.Context, reader client.Reader) (bool, error) {
	if v.Presence != Present || v.GVK.Empty() || v.State.UID == "" || !v.State.Deleting.IsZero() {
		return false, nil
	}
	live, err := ConfirmSame(ctx, reader, v.GVK, v.State.Key, v.State.UID)
	return live != nil && live.DeletionTimestamp == nil, err
}
