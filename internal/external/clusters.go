package external

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/machinist-dev/machinist/contract"
)

// ClusterOptions configures how Clusters are read. The zero value is ready for use.
type ClusterOptions struct {
	// Version is the API version of cluster.x-k8s.io, contract.V1Beta1 or contract.V1Beta2. Default: the version of
	// Object in the manager's scheme, or else contract.V1Beta2.
	Version contract.Version
	// Object is an empty Cluster of a Go type that the cache's scheme has in that version, such as
	// &clusterv1.Cluster{}. Clusters are then watched as objects of this type, by the informer that other users of the
	// cache share. If it is nil, Clusters are watched as unstructured objects.
	Object client.Object
	// Clock times the wait for the first list and the retry for a kind that is not served. Default: the real clock.
	Clock clock.PassiveClock
}

// Clusters reads the Cluster objects of Cluster API for a Reconciler:
//
//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
//
// It keeps one informer for Clusters, and wakes Machines only for changes that matter to them. It is safe for
// concurrent use.
type Clusters struct {
	gvk    schema.GroupVersionKind
	layout *contract.ClusterLayout
	object client.Object // an empty object of the watched type
	cache  cache.Cache
	reader client.Reader
	clock  clock.PassiveClock

	tracker *Tracker

	since func() time.Time // when the first list was found incomplete
}

// ClustersFromManager returns a Clusters that reads through the cache of a manager. It fails when there is no layout
// for the version, or when the Go type is not a Cluster of that version in the manager's scheme. It makes no request.
func ClustersFromManager(mgr ctrl.Manager, options ClusterOptions) (*Clusters, error) {
	if options.Object != nil {
		gvk, err := apiutil.GVKForObject(options.Object, mgr.GetScheme())
		if err != nil {
			return nil, fmt.Errorf("clusters: %w", err)
		}
		if options.Version == "" {
			options.Version = contract.Version(gvk.Version)
		}
		if want := clusterGVK(options.Version); gvk != want {
			return nil, fmt.Errorf("clusters: %T is %s in the manager's scheme, want %s", options.Object, gvk, want)
		}
	}
	return NewClusters(mgr.GetCache(), mgr.GetAPIReader(), options)
}

// NewClusters returns a Clusters that reads through a cache. The reader must read from the API server: it confirms that
// a Cluster which is not in the cache is really gone. NewClusters makes no request.
func NewClusters(c cache.Cache, reader client.Reader, options ClusterOptions) (*Clusters, error) {
	if options.Version == "" {
		options.Version = contract.V1Beta2
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	layout := contract.Cluster(options.Version)
	if layout == nil {
		return nil, fmt.Errorf("clusters: %w %q: want %s or %s", contract.ErrUnknownVersion, options.Version, contract.V1Beta1, contract.V1Beta2)
	}
	if _, ok := options.Object.(*metav1.PartialObjectMetadata); ok {
		return nil, errors.New("clusters: metadata alone does not tell whether a Cluster is paused: give a Go type with spec and status")
	}
	if options.Object == nil {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(clusterGVK(options.Version))
		options.Object = u
	}
	clusters := &Clusters{
		gvk: clusterGVK(options.Version), layout: layout, object: options.Object, cache: c, reader: reader, clock: options.Clock,
		tracker: NewTracker(c, nil, "Clusters"), since: sync.OnceValue(options.Clock.Now),
	}
	clusters.tracker.clock, clusters.tracker.news = options.Clock, clusters.isNews
	return clusters, nil
}

func clusterGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: string(v), Kind: "Cluster"}
}

// unsyncedGrace is how long the first list of Clusters may take before it is reported as a problem. At the start of a
// process a short wait is normal.
const unsyncedGrace = 30 * time.Second

// Of returns what is known about a Cluster. It reads the cache and waits for nothing. It asks the API server only about
// a Cluster that is not in the cache. A Cluster that cannot be
// read is Unread, with a Problem if a person can do something. The error is one of the API server or of the cache.
func (c *Clusters) Of(ctx context.Context, key types.NamespacedName) (ClusterView, error) {
	view := ClusterView{Presence: Unread, GVK: c.gvk}
	obj, _ := c.object.DeepCopyObject().(client.Object)
	synced, err := c.tracker.Ensure(ctx, obj)
	switch {
	case meta.IsNoMatchError(err):
		view.Problem = Problem{ReasonVersionNotServed, fmt.Sprintf(
			"%s of %s are not served: install its CustomResourceDefinition, or do not have Clusters read", c.gvk.Kind, c.gvk.GroupVersion())}
		view.RetryAfter = NotServedRetry
		return view, nil
	case err != nil:
		return view, fmt.Errorf("watch Clusters: %w", err)
	case !synced:
		view.RetryAfter = UnsyncedRetry
		if c.clock.Since(c.since()) >= unsyncedGrace {
			view.Problem = Problem{ReasonCacheNotSynced, "The first list of Clusters has not come back: look for missing list and watch permissions"}
		}
		return view, nil
	}
	err = c.cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		gone, err := ConfirmAbsent(ctx, c.reader, c.gvk, key)
		if view.RetryAfter = AbsenceRetry; gone {
			view.Presence, view.RetryAfter = Absent, 0
		}
		return view, err
	case err != nil:
		return view, fmt.Errorf("read Cluster %s: %w", key, err)
	}
	if err := c.read(obj, &view.State); err != nil { // the object violates its contract; a person must correct it
		view.State, view.Problem = contract.ClusterState{}, Problem{ReasonContractViolation, err.Error()}
		return view, nil //nolint:nilerr // the Problem reports it, and a retry does not help
	}
	view.Presence = Present
	return view, nil
}
