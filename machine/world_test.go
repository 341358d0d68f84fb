package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

// world is a store with providers and the reconciler under test, all running.
type world struct {
	*testenv.Env

	t      *testing.T
	store  *fake.Store
	client client.WithWatch
}

// worldIn returns the world of a store without a reconciler.
func worldIn(t *testing.T, e *testenv.Env) *world {
	t.Helper()
	return &world{Env: e, t: t, store: e.Store, client: e.Client}
}

type worldOptions struct {
	store          fake.Options
	machine        machine.Options
	infrastructure fake.Infrastructure
	bootstrap      fake.Bootstrap
	noCRDs         bool
	noCollector    bool // no garbage collector
	before         func(*world)
	provided       func(*world) // when the providers run, and the reconciler does not yet
	// ports changes the ports that the manager has by default.
	ports func(ctrl.Manager, *machine.Ports)
	// clusters has Clusters served and read.
	clusters bool
	// logger gets what the reconciler logs; by default nothing does.
	logger logr.Logger
	// kind is the kind of Machine; by default that of cluster.x-k8s.io/v1beta2.
	kind contract.Kind
}

const userAgent = "machinist-under-test"

// newWorld starts a world. The test runs beside others from here on.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	t.Parallel()
	if o.kind.Adapter == nil {
		o.kind = contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	}
	o.infrastructure.Machine, o.bootstrap.Machine = o.kind.GVK, o.kind.GVK
	o.store.Kinds = append(o.store.Kinds, fake.ServedKind{GVK: o.kind.GVK, Status: o.kind.StatusSubresource})
	if o.clusters {
		o.store.Kinds = append(o.store.Kinds, fake.ServedKind{GVK: fake.ClusterGVK(), Status: true})
	}
	loops := fake.AllLoops()
	loops.GarbageCollector = !o.noCollector
	var w *world
	testenv.Start(t, o.store, loops, func(e *testenv.Env) {
		w = worldIn(t, e)
		if !o.noCRDs {
			w.Create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
			w.Create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
		}
		if o.before != nil {
			o.before(w)
		}
	})
	providers, ours := w.manager("provider"), w.Manager(userAgent, ctrl.Options{Logger: o.logger})
	if !o.noCRDs {
		require.NoError(t, o.infrastructure.SetupWithManager(providers))
		require.NoError(t, o.bootstrap.SetupWithManager(providers))
	}
	if o.machine.StatusDelay == 0 {
		o.machine.StatusDelay = 300 * time.Millisecond
	}
	o.setup(t.Context(), t, ours)
	w.Run(providers)
	if o.provided != nil {
		o.provided(w)
	}
	w.Run(ours)
	return w
}

func (o worldOptions) setup(ctx context.Context, t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	if o.ports == nil && !o.clusters {
		_, err := machine.SetupWithManager(ctx, mgr, o.kind, o.machine)
		require.NoError(t, err)
		return
	}
	ports, err := machine.PortsFromManager(ctx, mgr, o.machine)
	require.NoError(t, err)
	if o.machine.Recorder == nil {
		o.machine.Recorder = mgr.GetEventRecorder("machine")
	}
	if o.clusters {
		clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
		require.NoError(t, err)
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	}
	if o.ports != nil {
		o.ports(mgr, &ports)
	}
	r, err := machine.New(o.kind, ports, o.machine)
	require.NoError(t, err)
	require.NoError(t, r.AddToManager(ctx, mgr))
}

func (w *world) manager(agent string) ctrl.Manager { return w.Manager(agent, ctrl.Options{}) }

// conditionIs waits for a condition of the Machine to have a reason and a message with all parts, and returns the message.
func (w *world) conditionIs(m *unstructured.Unstructured, kind, reason string, parts ...string) string {
	w.t.Helper()
	return w.AwaitCondition(m, kind, reason, parts...).Message
}

func conditionOf(m *unstructured.Unstructured, kind string) metav1.Condition {
	return testenv.Condition(m, kind)
}

func describe(m *unstructured.Unstructured) string { return testenv.Describe(m) }

// cluster creates a Cluster with its status.
func (w *world) cluster(name string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	c := fake.Cluster(name, options...)
	status := c.Object["status"]
	w.Create(c)
	w.Change(c, func(u *unstructured.Unstructured) { u.Object["status"] = status })
	return c
}

// machineWith creates a Machine with everything it refers to.
func (w *world) machineWith(name string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	m := fake.Machine(name, options...)
	w.Create(fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachine(contract.V1Beta2, name), m)
	return m
}

// ready creates a Machine with everything it refers to, and waits until it is Ready.
func (w *world) ready(name string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	m := w.machineWith(name, options...)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	return m
}

func (w *world) reaches(m *unstructured.Unstructured, phase string) {
	w.t.Helper()
	w.Eventually("reach "+phase, func() string {
		fresh := w.Get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		if got, _, _ := unstructured.NestedString(fresh.Object, "status", "phase"); got != phase {
			return fmt.Sprintf("phase %q; conditions: %s", got, describe(fresh))
		}
		return ""
	})
}

// tooLate: a pass whose cache does not know yet that its Machine is gone lets it go once more.
func tooLate(r fake.Request) bool { return r.Verb == "patch" && r.Code == http.StatusNotFound }

// writes counts the writes of the reconciler, by kind.
func (w *world) writes() map[string]int {
	counts := map[string]int{}
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.IsWrite() && !tooLate(r) {
			name := r.GVK.Kind
			if r.Subresource != "" {
				name += "/" + r.Subresource
			}
			counts[name]++
		}
	}
	return counts
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	var node corev1.Node
	err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return &node
}

// isQuiet waits until the reconciler makes no request for several status delays.
func (w *world) isQuiet() {
	w.t.Helper()
	w.Quiet(userAgent, 900*time.Millisecond)
	w.store.ResetRequests()
}

// isQuietFor fails when the reconciler writes anything for a while, events aside.
func (w *world) isQuietFor(what string, d time.Duration) {
	w.t.Helper()
	w.store.ResetRequests()
	w.Never(what, d, func() string {
		if writes := w.Writes(userAgent); len(writes) > 0 {
			return fmt.Sprintf("want no write, got %+v", writes[0])
		}
		return ""
	})
}

func TestMain(m *testing.M) { testenv.Main(m) }

// Until polls until a condition is met, and describes the Machines when it never is.
func (w *world) Until(what string, met func() bool) {
	w.t.Helper()
	defer func() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
		if !w.t.Failed() || w.client.List(context.WithoutCancel(w.t.Context()), list) != nil {
			return
		}
		for i := range list.Items {
			w.t.Log(list.Items[i].GetName(), testenv.Describe(&list.Items[i]))
		}
	}()
	w.Env.Until(what, met)
}
