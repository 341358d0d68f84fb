package machinepool_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

const userAgent = "machinist-under-test"

// world is a store with providers and the reconciler under test, all running.
type world struct {
	*testenv.Env

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
	// unread shortens the time for which a deletion waits for Nodes that cannot be read.
	unread time.Duration
	// noStatus has pools without the status subresource.
	noStatus bool
}

func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	if o.version == "" {
		o.version = contract.V1Beta2
	}
	kinds, err := machinepool.ClusterAPI(o.version)
	require.NoError(t, err)
	if o.kinds != nil {
		o.kinds(&kinds)
	}
	loops := fake.AllLoops()
	loops.GarbageCollector = !o.noGarbage
	env := testenv.Start(t, fake.Options{CacheLagFunc: o.lag, Kinds: []fake.ServedKind{
		{GVK: kinds.Pool.GVK, Status: !o.noStatus}, {GVK: kinds.Machine.GVK, Status: true}, {GVK: fake.ClusterGVK(), Status: true},
	}}, loops, func(e *testenv.Env) {
		e.Create(fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2),
			fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2),
			fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
	})
	w := &world{Env: env, t: t, store: env.Store, client: env.Client}
	providers := w.manager("provider")
	if o.provider != nil {
		require.NoError(t, o.provider.SetupWithManager(providers))
	}
	bootstrap := fake.Bootstrap{ProviderOptions: fake.ProviderOptions{Machine: kinds.Pool.GVK}}
	require.NoError(t, bootstrap.SetupWithManager(providers))
	w.Run(providers)
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
	nodes, err := cluster.WorkloadOptions{Matching: o.pool.Matching}.FromManager(ctx, ours)
	require.NoError(w.t, err)
	ports := machinepool.Ports{Ports: engine.PortsFromManager(ours), Workload: nodes}
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
	r.SetUnreadLimit(o.unread)
	require.NoError(w.t, r.AddToManager(ctx, ours))
	return w.Run(ours)
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
	return w.Manager(agent, ctrl.Options{Controller: config.Controller{UsePriorityQueue: new(false)}})
}

func (w *world) create(objects ...client.Object) { w.t.Helper(); w.Create(objects...) }

func (w *world) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	return w.Get(obj)
}

func (w *world) change(obj *unstructured.Unstructured, do func(*unstructured.Unstructured)) {
	w.t.Helper()
	w.Change(obj, do)
}

func (w *world) eventually(what string, check func() string) { w.t.Helper(); w.Eventually(what, check) }

func (w *world) goes(objects ...*unstructured.Unstructured) { w.t.Helper(); w.Gone(objects...) }

// conditionIs waits for a condition to have a reason, and returns its message.
func (w *world) conditionIs(obj *unstructured.Unstructured, kind, reason string) string {
	w.t.Helper()
	return w.AwaitCondition(obj, kind, reason).Message
}

func conditionOf(obj *unstructured.Unstructured, kind string) metav1.Condition {
	return testenv.Condition(obj, kind)
}

func describe(obj *unstructured.Unstructured) string { return testenv.Describe(obj) }

// poolWith creates a pool with everything it refers to.
func (w *world) poolWith(replicas int64, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	pool := fake.MachinePool("pool", replicas, options...)
	w.create(fake.BootstrapConfig(contract.V1Beta2, "pool"), fake.InfraMachinePool(contract.V1Beta2, "pool"), pool)
	return pool
}

func set(value any, path ...string) func(*unstructured.Unstructured) {
	return fake.WithField(value, path...)
}

// reports waits for a pool to have a phase and so many ready and available replicas.
func (w *world) reports(pool *unstructured.Unstructured, phase string, ready, available int64) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("report %s, %d ready, %d available", phase, ready, available), func() string {
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

func (w *world) nodes() []corev1.Node {
	w.t.Helper()
	var list corev1.NodeList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	return list.Items
}

// writes counts the writes of the reconciler, by kind, events aside.
func (w *world) writes() map[string]int {
	return testenv.Count(w.Writes(userAgent), func(r fake.Request) string {
		return strings.TrimSuffix(r.Verb+" "+r.GVK.Kind+"/"+r.Subresource, "/")
	})
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
	w.Quiet(userAgent, 600*time.Millisecond)
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
