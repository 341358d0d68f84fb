package fake

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// defaultHistory is the number of watch events that a Store retains per kind.
const defaultHistory = 10000

// Options configures a Store. The zero value is a store with the built-in kinds, the real clock and no lag.
type Options struct {
	// Scheme is the scheme of Client and of managers without their own; default client-go's. A custom type in a scheme is not served
	// automatically: its kind must be in Kinds, be registered, or have a CustomResourceDefinition.
	Scheme *runtime.Scheme
	// Kinds are custom kinds that are served from the start, as if their CustomResourceDefinitions were installed.
	Kinds []ServedKind
	// Clock is used for creation and deletion times, the lag and the delays of loops; default the real clock.
	Clock clock.WithTicker
	// CacheLagFunc, if set, delays the watch events of clients from RESTConfig, so that caches are stale for that time. Lists, and the watches
	// of Client, are never delayed. Events of one watch keep their order: a delayed event delays the following ones. It is called with the
	// store locked and must not use the store.
	CacheLagFunc func(kind schema.GroupKind, key types.NamespacedName) time.Duration
	// OnEvent, if set, is called for every write, in order, with the object in the version that its kind was first served in. removed is true
	// if this was its last state. It is called with the store locked, and must neither use the store nor change the object; it may retain it.
	OnEvent func(object *unstructured.Unstructured, removed bool)
	// Admit, if set, may change each object before it is stored, as a mutating webhook does. It is called with the store locked and must not
	// use the store.
	Admit func(object *unstructured.Unstructured)
	// Seed determines UIDs and generated names.
	Seed uint64
	// History is how many watch events are retained per kind; default 10000. A watch from an older version gets 410, and so does a watcher
	// that is further behind.
	History int
}

// Store is an in-memory API server: it stores objects and answers API requests in process, without a network. It is safe for concurrent
// use. It starts no goroutine unless Start or Runnable is used.
type Store struct {
	scheme   *runtime.Scheme
	client   client.WithWatch
	clock    clock.WithTicker
	lag      func(schema.GroupKind, types.NamespacedName) time.Duration
	onEvent  func(*unstructured.Unstructured, bool)
	admit    func(*unstructured.Unstructured)
	history  int
	requests requestLog

	mu        sync.RWMutex
	rand      *rand.Rand
	version   uint64
	registry  registry
	owned     map[types.UID]map[*record]struct{}
	podsOn    map[string]map[types.NamespacedName]*record
	listeners map[*listener]struct{}
}

// NewStore returns a Store with the namespaces default, kube-system, kube-public and kube-node-lease. If Options.Kinds has a kind that
// cannot be served (see Register), every request fails with that error as a connection failure.
func NewStore(o Options) *Store {
	s := &Store{
		scheme:    cmp.Or(o.Scheme, clientgoscheme.Scheme),
		clock:     cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{}),
		lag:       o.CacheLagFunc,
		onEvent:   o.OnEvent,
		admit:     o.Admit,
		history:   o.History,
		rand:      rand.New(rand.NewPCG(o.Seed, 0x6d616368696e6973)),
		registry:  newRegistry(),
		owned:     map[types.UID]map[*record]struct{}{},
		podsOn:    map[string]map[types.NamespacedName]*record{},
		listeners: map[*listener]struct{}{},
	}
	if s.admit == nil {
		s.admit = func(*unstructured.Unstructured) {}
	}
	if s.history <= 0 {
		s.history = defaultHistory
	}
	if s.lag == nil {
		s.lag = func(schema.GroupKind, types.NamespacedName) time.Duration { return 0 }
	}
	s.registry.err = s.Register(o.Kinds...)
	s.client, _ = client.NewWithWatch(s.config(false), client.Options{Scheme: s.scheme}) // it fails only without a valid transport
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		s.createNamespace(name)
	}
	return s
}

// Client returns a live client whose reads and watches are never delayed. It is controller-runtime's own client, so
// retries, error types and decoding are those of a real cluster. All calls return the same client.
func (s *Store) Client() client.WithWatch { return s.client }

// RESTConfig returns a new configuration for any client-go or controller-runtime client. Its requests are answered in
// process; its watch events are delayed by CacheLagFunc. It sets no client-side rate limit. The caller may change it.
func (s *Store) RESTConfig() *rest.Config { return s.config(true) }

func (s *Store) config(lagged bool) *rest.Config {
	return &rest.Config{
		Host: "http://fake-store.invalid",
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeJSON,
			AcceptContentTypes: runtime.ContentTypeJSON,
		},
		QPS:            -1,
		Transport:      &transport{store: s, lagged: lagged},
		WarningHandler: rest.NoWarnings{},
	}
}

// ManagerOptions sets the options of a manager over the store that the caller did not set: the scheme, metrics and health servers that do
// not listen, and queues that end with the manager.
func (s *Store) ManagerOptions(o ctrl.Options) ctrl.Options {
	o.Scheme = cmp.Or(o.Scheme, s.scheme)
	o.Metrics.BindAddress = cmp.Or(o.Metrics.BindAddress, "0")
	o.HealthProbeBindAddress = cmp.Or(o.HealthProbeBindAddress, "0")
	// A priority queue can hang when it is shut down: kubernetes-sigs/controller-runtime#3538.
	o.Controller.UsePriorityQueue = cmp.Or(o.Controller.UsePriorityQueue, new(false))
	return o
}

// NewManager creates an ordinary controller-runtime manager over the store: cache, client, API reader, REST mapper, event recorders and
// leader election send their requests to the store.
func (s *Store) NewManager(o ctrl.Options) (ctrl.Manager, error) {
	return ctrl.NewManager(s.RESTConfig(), s.ManagerOptions(o))
}

// Runnable returns the loops as a manager.Runnable; they end with the manager.
func (s *Store) Runnable(l Loops) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		wait := s.Start(ctx, l)
		<-ctx.Done()
		wait()
		return nil
	})
}
