package machinepool_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
)

const userAgent = "machinist-under-test"

// silence has what has no logger of its own say nothing. Worlds are made in parallel.
var silence = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) })

// world is a store with providers and the reconciler under test, all running.
type world struct {
	t      *testing.T
	store  *fake.Store
	client client.WithWatch
	// begin starts the reconciler in a process of its own, and end ends the one that runs.
	begin func() (end func())
	end   func()
}

type worldOptions struct {
	pool machinepool.Options
	// provider is nil where a test writes the infrastructure itself.
	provider *fake.PoolInfrastructure
	// ports changes the ports that the manager has by default.
	ports func(ctrl.Manager, *machinepool.Ports)
	// kinds changes the kinds that cluster.x-k8s.io has.
	kinds func(*machinepool.Kinds)
	// lag is how late the caches are.
	lag func(schema.GroupKind, types.NamespacedName) time.Duration
	// version is that of cluster.x-k8s.io; by default v1beta2.
	version contract.Version
	// clusters has Clusters read.
	clusters bool
	// noGarbage has no garbage collector run, as while it is behind.
	noGarbage bool
	// noStatus has pools without the status subresource.
	noStatus bool
}

func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	silence()
	if o.version == "" {
		o.version = contract.V1Beta2
	}
	kinds, err := machinepool.ClusterAPI(o.version)
	require.NoError(t, err)
	if o.kinds != nil {
		o.kinds(&kinds)
	}
	store := fake.NewStore(fake.Options{CacheLagFunc: o.lag, Kinds: []fake.ServedKind{
		{GVK: kinds.Pool.GVK, Status: !o.noStatus}, {GVK: kinds.Machine.GVK, Status: true}, {GVK: fake.ClusterGVK(), Status: true},
	}})
	w := &world{t: t, store: store, client: store.Client()}
	for _, gvk := range []*unstructured.Unstructured{
		fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2),
		fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2),
		fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2),
	} {
		w.create(gvk)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends in Cleanup, after the test's own context
	loops := fake.AllLoops()
	loops.GarbageCollector = !o.noGarbage
	settled := store.Start(ctx, loops)
	t.Cleanup(func() {
		cancel()
		settled()
	})
	providers := w.manager("provider")
	if o.provider != nil {
		require.NoError(t, o.provider.SetupWithManager(providers))
	}
	bootstrap := fake.Bootstrap{ProviderOptions: fake.ProviderOptions{Machine: kinds.Pool.GVK}}
	require.NoError(t, bootstrap.SetupWithManager(providers))
	w.start(providers)
	if o.pool.StatusDelay == 0 {
		o.pool.StatusDelay = 100 * time.Millisecond
	}
	w.begin = func() (end func()) { return w.reconcile(kinds, o) }
	w.end = w.begin()
	return w
}

// reconcile starts the reconciler under test, as a process of its own.
func (w *world) reconcile(kinds machinepool.Kinds, o worldOptions) (end func()) {
	w.t.Helper()
	ours := w.manager(userAgent)
	ctx := w.t.Context()
	o.pool.Recorder = ours.GetEventRecorder("machinepool")
	ports, err := machinepool.PortsFromManager(ctx, ours, o.pool.Matching)
	require.NoError(w.t, err)
	if o.clusters {
		clusters, err := external.ClustersFromManager(ours, external.ClusterOptions{})
		require.NoError(w.t, err)
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	}
	if o.ports != nil {
		o.ports(ours, &ports)
	}
	r, err := machinepool.New(kinds, ports, o.pool)
	require.NoError(w.t, err)
	require.NoError(w.t, r.AddToManager(ctx, ours))
	return w.start(ours)
}

// start runs a manager until the test, or somebody before, ends it.
func (w *world) start(mgr ctrl.Manager) (end func()) {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends in Cleanup, after the test's own context
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("manager: %v", err)
		}
	})
	w.t.Cleanup(end)
	return end
}

// restart ends the process with the reconciler, has something happen meanwhile, and begins another one.
func (w *world) restart(meanwhile func()) {
	w.t.Helper()
	w.end()
	meanwhile()
	w.end = w.begin()
}

func (w *world) manager(agent string) ctrl.Manager {
	w.t.Helper()
	options := w.store.ManagerOptions(ctrl.Options{
		Logger: logr.Discard(),
		Controller: config.Controller{
			SkipNameValidation: new(true), MaxConcurrentReconciles: 4, UsePriorityQueue: new(false),
		},
	})
	rest := w.store.RESTConfig()
	rest.UserAgent = agent
	mgr, err := ctrl.NewManager(rest, options)
	require.NoError(w.t, err)
	return mgr
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		require.NoError(w.t, w.client.Create(w.t.Context(), obj))
	}
}

// poolWith creates a pool with everything it refers to.
func (w *world) poolWith(replicas int64, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	pool := fake.MachinePool("pool", replicas, options...)
	w.create(fake.BootstrapConfig(contract.V1Beta2, "pool"), fake.InfraMachinePool(contract.V1Beta2, "pool"), pool)
	return pool
}

// get reads an object by its kind and name again, nil when it is gone.
func (w *world) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(obj.GroupVersionKind())
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), fresh)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return fresh
}

// change writes what a function does to an object, its status too. What it leaves as it is is not written: the first write may be
// what the object was held by.
func (w *world) change(obj *unstructured.Unstructured, do func(*unstructured.Unstructured)) {
	w.t.Helper()
	fresh := w.get(obj)
	require.NotNil(w.t, fresh)
	base := fresh.DeepCopy()
	do(fresh)
	status, statusBefore := fresh.DeepCopy(), base.Object["status"]
	delete(fresh.Object, "status")
	delete(base.Object, "status")
	if !equality.Semantic.DeepEqual(base, fresh) {
		require.NoError(w.t, w.client.Patch(w.t.Context(), fresh, client.MergeFrom(base)))
	}
	if !equality.Semantic.DeepEqual(statusBefore, status.Object["status"]) {
		base.Object["status"] = statusBefore
		require.NoError(w.t, w.client.Status().Patch(w.t.Context(), status, client.MergeFrom(base)))
	}
}

func set(value any, path ...string) func(*unstructured.Unstructured) {
	return fake.WithField(value, path...)
}

// waitLimit bounds every wait, so that what never comes ends a test by itself. Only how busy the machine is says how long what does come
// may take.
const waitLimit = 2 * time.Minute

// eventually polls until check says nothing any more, and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(w.t.Context(), 10*time.Millisecond, waitLimit, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		w.t.Fatalf("%s: %s", what, last)
	}
}

// says waits for a pool to have a phase and so many ready and available replicas.
func (w *world) says(pool *unstructured.Unstructured, phase string, ready, available int64) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("say %s, %d ready, %d available", phase, ready, available), func() string {
		fresh := w.get(pool)
		if fresh == nil {
			return "the pool is gone"
		}
		got, _, _ := unstructured.NestedString(fresh.Object, "status", "phase")
		r, _, _ := unstructured.NestedInt64(fresh.Object, "status", "readyReplicas")
		a, _, _ := unstructured.NestedInt64(fresh.Object, "status", "availableReplicas")
		if got != phase || r != ready || a != available {
			return fmt.Sprintf("%q, %d, %d; %s", got, r, a, describe(fresh))
		}
		return ""
	})
}

func (w *world) goes(objects ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, obj := range objects {
		w.eventually("deletion of "+obj.GetKind()+" "+obj.GetName(), func() string {
			if fresh := w.get(obj); fresh != nil {
				return "it is still there: " + describe(fresh)
			}
			return ""
		})
	}
}

// conditionIs waits for a condition to have a reason, and returns its message.
func (w *world) conditionIs(obj *unstructured.Unstructured, kind, reason string) string {
	w.t.Helper()
	message := ""
	w.eventually(kind+" to say "+reason, func() string {
		fresh := w.get(obj)
		if fresh == nil {
			return "it is gone"
		}
		c := conditionOf(fresh, kind)
		if message = c.Message; c.Reason != reason {
			return "it does not: " + describe(fresh)
		}
		return ""
	})
	return message
}

func conditionOf(obj *unstructured.Unstructured, kind string) metav1.Condition {
	c, _, _ := contract.ConditionsAt("status", "conditions").Find(obj.Object, kind)
	return c
}

func describe(obj *unstructured.Unstructured) string {
	all, _ := contract.ConditionsAt("status", "conditions").Get(obj.Object, nil)
	text := ""
	for _, c := range all {
		text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

func (w *world) nodes() []corev1.Node {
	w.t.Helper()
	var list corev1.NodeList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	return list.Items
}

// writes counts the writes of the reconciler, by kind, events aside: the recorder sends them when it suits it.
func (w *world) writes() map[string]int {
	counts := map[string]int{}
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.IsWrite() && r.GVK.Kind != "Event" {
			name := r.Verb + " " + r.GVK.Kind
			if r.Subresource != "" {
				name += "/" + r.Subresource
			}
			counts[name]++
		}
	}
	return counts
}

// isQuiet waits until the reconciler makes no request for several status delays.
func (w *world) isQuiet() {
	w.t.Helper()
	w.settles()
	w.store.ResetRequests()
}

// settles waits like isQuiet, and leaves the record of the requests alone.
func (w *world) settles() {
	w.t.Helper()
	quiet, before := 0, -1
	w.eventually("make no request", func() string {
		time.Sleep(100 * time.Millisecond)
		made := w.store.CountRequests(func(r fake.Request) bool { return r.UserAgent == userAgent && r.Verb != "watch" })
		if made != before {
			quiet, before = 0, made
			return fmt.Sprintf("it has made %d", made)
		}
		if quiet++; quiet < 6 {
			return "not quiet for long enough"
		}
		return ""
	})
}

// setReady makes a Node Ready or not, as its kubelet, or the lack of one, does.
func (w *world) setReady(name string, status corev1.ConditionStatus) {
	w.t.Helper()
	w.eventually("write Node "+name, func() string {
		var node corev1.Node
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &node))
		base := node.DeepCopy()
		for i := range node.Status.Conditions {
			if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
				c.Status, c.LastTransitionTime = status, metav1.Now()
			}
		}
		if err := w.client.Status().Patch(w.t.Context(), &node, client.MergeFrom(base)); err != nil {
			return err.Error()
		}
		return ""
	})
}
