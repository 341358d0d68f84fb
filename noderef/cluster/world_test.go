package cluster

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	keyA = types.NamespacedName{Namespace: "default", Name: "a"}
	keyB = types.NamespacedName{Namespace: "default", Name: "b"}
)

// nodes is the Value of a connection in the tests: the Node informer.
type nodes struct {
	informer cache.Informer
	reader   client.Reader
}

func setupNodes(ctx context.Context, c *Connection) (*nodes, error) {
	informer, err := c.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	return &nodes{informer: informer, reader: c.GetClient()}, err
}

// world is a Clusters with a fake clock, and an Access that reads a table.
type world struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	clusters *Clusters[*nodes]
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request]
	stop     context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	targets map[types.NamespacedName]Target
	errs    map[types.NamespacedName]error
	asked   int
	changed func(types.NamespacedName)
	mapped  func(types.NamespacedName) bool
}

// Target implements Access.
func (w *world) Target(_ context.Context, cluster types.NamespacedName) (Target, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if err := w.errs[cluster]; err != nil {
		return Target{}, err
	}
	target, ok := w.targets[cluster]
	if !ok {
		return Target{}, ErrNoKubeconfig
	}
	return target, nil
}

// notify implements notifier.
func (w *world) notify(_ context.Context, changed func(types.NamespacedName)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = changed
	return nil
}

// set changes the target of a cluster and reports the change.
func (w *world) set(cluster types.NamespacedName, target Target, err error) {
	w.mu.Lock()
	w.targets[cluster], w.errs[cluster] = target, err
	changed := w.changed
	w.mu.Unlock()
	if changed != nil {
		changed(cluster)
	}
}

func newWorld(t *testing.T, options Options[*nodes]) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), done: make(chan struct{}),
		targets: map[types.NamespacedName]Target{}, errs: map[types.NamespacedName]error{},
		mapped: func(types.NamespacedName) bool { return true },
	}
	options.Clock = w.clock
	options.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 30 * time.Second}
	if options.Access == nil {
		options.Access = w
	}
	if options.Setup == nil {
		options.Setup = setupNodes
	}
	var err error
	w.clusters, err = New(options)
	require.NoError(t, err)
	w.queue = newQueue(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	require.NoError(t, w.clusters.Source(func(cluster types.NamespacedName) []reconcile.Request {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.mapped(cluster) {
			return nil
		}
		return []reconcile.Request{{NamespacedName: cluster}}
	}).Start(ctx, w.queue))
	go func() {
		defer close(w.done)
		if err := w.clusters.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

// reach sets a server as the target of a cluster.
func (w *world) reach(cluster types.NamespacedName, s *apiServer) {
	w.t.Helper()
	w.set(cluster, Target{Config: s.config("t1"), Version: "1"}, nil)
}

// reached returns a world that is connected to a server with the Node n1, and waits for the watch of Nodes.
func reached(t *testing.T, options Options[*nodes]) (*world, *apiServer, View[*nodes]) {
	t.Helper()
	w, s := newWorld(t, options), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	view := w.connected(keyA)
	w.eventually("the watch runs", func() bool { return s.pending("WATCH") == 1 })
	return w, s, view
}

func (w *world) get(cluster types.NamespacedName) View[*nodes] {
	view, err := w.clusters.Get(cluster)
	if (view.Reason == "") != (err == nil) {
		w.t.Errorf("the reason is %q, and the error %v", view.Reason, err)
	}
	return view
}

// connected waits for a cluster to be connected and to have its Nodes.
func (w *world) connected(cluster types.NamespacedName) View[*nodes] {
	w.t.Helper()
	var view View[*nodes]
	w.eventually(cluster.Name+" is connected", func() bool {
		view = w.get(cluster)
		return view.Reason == "" && view.Synced
	})
	return view
}

// reconnected waits for a cluster whose connection a step of the clock may have cut, with small steps: the next attempt waits for the clock.
func (w *world) reconnected(cluster types.NamespacedName) {
	w.t.Helper()
	w.stepUntil(100*time.Millisecond, cluster.Name+" is connected again", func() bool {
		view := w.get(cluster)
		return view.Reason == "" && view.Synced
	})
}

// becomes waits for a reason.
func (w *world) becomes(cluster types.NamespacedName, reason Reason) error {
	w.t.Helper()
	var err error
	w.eventually(cluster.Name+" becomes "+string(reason), func() bool {
		var view View[*nodes]
		view, err = w.clusters.Get(cluster)
		return view.Reason == reason
	})
	return err
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	if !poll(ok) {
		w.t.Fatalf("timed out: %s", what)
	}
}

// holds requires that something is true for some milliseconds, while the goroutines of the Clusters work.
func (w *world) holds(what string, ok func() bool) {
	w.t.Helper()
	if pollFor(10*time.Millisecond, func() bool { return !ok() }) {
		w.t.Fatalf("does not hold: %s", what)
	}
}

func poll(ok func() bool) bool { return pollFor(2*time.Minute, ok) }

// pollFor reports whether something became true within a time.
func pollFor(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// stepUntil moves the clock in small steps until something has happened, and returns how many it took.
func (w *world) stepUntil(step time.Duration, what string, ok func() bool) int {
	w.t.Helper()
	n := 0
	w.eventually(what, func() bool {
		if ok() {
			return true
		}
		w.clock.Step(step)
		n++
		for range 5 { // let the woken goroutines work
			if ok() {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	})
	return n
}

// woken waits until the queue has had a request for a cluster.
func (w *world) woken(cluster types.NamespacedName) {
	w.t.Helper()
	w.eventually(cluster.Name+" is woken", func() bool {
		if w.queue.Len() == 0 {
			return false
		}
		request, _ := w.queue.Get()
		w.queue.Done(request)
		return request.NamespacedName == cluster
	})
}

// rest empties the queue until it stays empty: a new state is visible a moment before its request is in the queue.
func (w *world) rest() {
	for quiet := 0; quiet < 100; quiet++ {
		for w.queue.Len() > 0 {
			request, _ := w.queue.Get()
			w.queue.Done(request)
			quiet = 0
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (n *nodes) has(t *testing.T, name string) bool {
	t.Helper()
	err := n.reader.Get(t.Context(), types.NamespacedName{Name: name}, &corev1.Node{})
	return err == nil
}

// requireNoGoroutines waits until no goroutine of this package, and none of an informer, is left.
func requireNoGoroutines(t *testing.T) {
	t.Helper()
	var left string
	ended := poll(func() bool {
		buf := make([]byte, 4<<20)
		left = ""
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			for _, suspect := range []string{
				"noderef/cluster.(*", "tools/cache.(*Reflector)", "net/http.(*http2ClientConn)", "http2.(*ClientConn)",
			} {
				if strings.Contains(stack, suspect) && !strings.Contains(stack, "cluster.(*apiServer)") && !strings.Contains(stack, "testing.tRunner") {
					left += stack + "\n\n"
				}
			}
		}
		return left == ""
	})
	if !ended {
		t.Fatalf("goroutines are left:\n%s", left)
	}
}

func raw(obj any) apiruntime.RawExtension {
	data, _ := json.Marshal(obj)
	return apiruntime.RawExtension{Raw: data}
}

// certificatePEM is the certificate that every httptest server shows; it signs itself.
func certificatePEM(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
