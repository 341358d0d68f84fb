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

// ClusterOptions say which Clusters are read. The zero value is ready for use.
type ClusterOptions struct {
	// Version is the API version of cluster.x-k8s.io, contract.V1Beta1 or contract.V1Beta2. Default: that of Object in the manager's
	// scheme, or else contract.V1Beta2.
	Version contract.Version
	// Object is an empty Cluster of a Go type that the cache's scheme has in that version, such as &clusterv1.Cluster{}: Clusters are watched
	// as objects of this type, by the informer that others in the process share. nil reads unstructured objects, by an informer of their own.
	Object client.Object
	// Clock times for how long the first list is awaited, and when a kind that is not served is looked for again; default the real one.
	Clock clock.PassiveClock
}

// Clusters reads the Cluster objects of Cluster API for a Reconciler:
//
//	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
//
// It keeps one informer for Clusters, and wakes Machines only when something changes that they look at. Safe for concurrent use.
type Clusters struct {
	gvk    schema.GroupVersionKind
	layout *contract.ClusterLayout
	object client.Object // empty, of the type that is watched
	cache  cache.Cache
	reader client.Reader
	clock  clock.PassiveClock

	mu       sync.Mutex
	informer cache.Informer // nil until the kind was found
	since    time.Time      // when the kind was first looked for
	refused  error          // why the kind was not found, until lookAgain
	again    time.Time
	events   uint64                          // how many Clusters came and went
	answers  map[types.NamespacedName]answer // the API server's, about Clusters that the cache does not have
	states   map[types.NamespacedName]typedState
	waiting  map[types.NamespacedName]struct{}
	sinks    map[*clusterSink]struct{}
}

// ClustersFromManager returns Clusters that are read through the cache of a manager. The error says that there is no layout for
// the version, or that the manager's scheme has the Go type not as a Cluster of that version. It makes no request.
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

// NewClusters returns Clusters that are read through a cache. The reader reads from the API server itself, to make sure that a
// Cluster which the cache does not have is really gone. It makes no request.
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
	if c == nil || reader == nil {
		return nil, errors.New("clusters: a cache and a reader are needed")
	}
	if _, ok := options.Object.(*metav1.PartialObjectMetadata); ok {
		return nil, errors.New("clusters: metadata alone does not tell whether a Cluster is paused: give a Go type with spec and status")
	}
	if options.Object == nil {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(clusterGVK(options.Version))
		options.Object = u
	}
	return &Clusters{
		gvk: clusterGVK(options.Version), layout: layout, object: options.Object, cache: c, reader: reader, clock: options.Clock,
		states: map[types.NamespacedName]typedState{}, answers: map[types.NamespacedName]answer{},
		waiting: map[types.NamespacedName]struct{}{}, sinks: map[*clusterSink]struct{}{},
	}, nil
}

func clusterGVK(v contract.Version) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: string(v), Kind: "Cluster"}
}

// unsyncedGrace is for how long the first list of Clusters may take before it is called trouble: at the start of a process it
// takes a moment, which is no news of every Machine.
const unsyncedGrace = 30 * time.Second

// Of says what is known of a Cluster. It reads the cache and waits for nothing; only of a Cluster that the cache does not have is
// the API server asked, again a moment later if it is still not there, and meanwhile once for all who look. What cannot be read is Unread,
// with a Problem when a person can do something about it. An error is one of the API server or of the cache.
func (c *Clusters) Of(ctx context.Context, key types.NamespacedName) (ClusterView, error) {
	view := ClusterView{Presence: Unread, GVK: c.gvk}
	synced, err := c.ensure(ctx, key)
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
		if c.clock.Since(c.lookedSince()) >= unsyncedGrace {
			view.Problem = Problem{ReasonCacheNotSynced, "The first list of Clusters has not come back: look for missing list and watch permissions"}
		}
		return view, nil
	}
	obj := c.empty()
	err = c.cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return c.missing(ctx, key, view)
	case err != nil:
		return view, fmt.Errorf("read Cluster %s: %w", key, err)
	}
	if err := c.read(obj, &view.State); err != nil { // the object breaks its contract, which a person mends
		view.State, view.Problem = contract.ClusterState{}, Problem{ReasonContractViolation, err.Error()}
		return view, nil //nolint:nilerr // it is told as a Problem, and nothing is retried
	}
	view.Presence = Present
	return view, nil
}

// answer is what the API server said about a Cluster that the cache does not have.
type answer struct {
	at   time.Time
	gone bool
}

const (
	// maxAnswers bounds how many Clusters are remembered that the cache does not have: most never come. Forgetting one costs a request.
	maxAnswers = 1000
	// absentFor is for how long one is taken for absent because the API server said so. Its event would say that it has come, but
	// a watch may be broken, and without a Cluster Nodes are not drained.
	absentFor = 10 * time.Second
)

// stands says whether an answer is still good. That a Cluster is there is good until those who heard it look again: its event may never
// come, where the watch is broken or the cache leaves it out, and then all its Machines look again and again.
func (a answer) stands(now time.Time) bool {
	limit := AbsenceRetry
	if a.gone {
		limit = absentFor
	}
	passed := now.Sub(a.at)
	return passed >= 0 && passed < limit
}

// missing makes sure that a Cluster is gone, and remembers the answer for a moment, or until its next event.
func (c *Clusters) missing(ctx context.Context, key types.NamespacedName, view ClusterView) (ClusterView, error) {
	c.mu.Lock()
	said, known := c.answers[key]
	before := c.events
	c.mu.Unlock()
	if asked := c.clock.Now(); !known || !said.stands(asked) {
		gone, err := ConfirmAbsent(ctx, c.reader, c.gvk, key)
		if err != nil {
			view.RetryAfter = AbsenceRetry
			return view, err
		}
		if said = (answer{at: asked, gone: gone}); !gone {
			said.at = c.clock.Now() // a slow server least of all is asked for each Machine
		}
		c.remember(key, said, before)
	}
	if said.gone {
		view.Presence = Absent
	} else {
		view.RetryAfter = AbsenceRetry // its event is on the way
	}
	return view, nil
}

// remember keeps an answer, unless there was news of Clusters while it was under way.
func (c *Clusters) remember(key types.NamespacedName, said answer, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events != before {
		return
	}
	if len(c.answers) >= maxAnswers {
		clear(c.answers)
	}
	c.answers[key] = said
}

// ensure watches Clusters and reports whether their first list is here. If it is not, every object of the Cluster is woken when
// it comes. A kind that is not served is looked for again once in a while, however many ask.
func (c *Clusters) ensure(ctx context.Context, key types.NamespacedName) (synced bool, err error) {
	c.mu.Lock()
	informer, refused, again := c.informer, c.refused, c.again
	if c.since.IsZero() {
		c.since = c.clock.Now()
	}
	c.mu.Unlock()
	if informer == nil {
		if refused != nil && c.clock.Now().Before(again) {
			return false, refused
		}
		if informer, err = c.watch(ctx); err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if informer.HasSynced() {
		return true, nil
	}
	c.waiting[key] = struct{}{}
	return false, nil
}

func (c *Clusters) watch(ctx context.Context) (cache.Informer, error) {
	informer, err := c.cache.GetInformer(ctx, c.empty(), cache.BlockUntilSynced(false)) // may ask discovery: not under the lock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.informer != nil {
		return c.informer, nil
	}
	if err == nil {
		_, err = informer.AddEventHandler(c.handler())
	}
	c.refused = err
	if err != nil {
		c.again = c.clock.Now().Add(NotServedRetry)
		return nil, err
	}
	c.informer = informer
	for s := range c.sinks {
		go c.tellWhenSynced(s.ctx, informer)
	}
	return informer, nil
}

func (c *Clusters) lookedSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since
}
