package remediation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

const userAgent = "machinist-under-test"

// world is a store with Machines that nothing reconciles, and their Nodes.
type world struct {
	*testenv.Env

	t       testing.TB
	version contract.Version
	kinds   contract.Kinds
	// ports changes the ports of the reconciler under test.
	ports func(*remediation.Ports)
}

func newWorld(t testing.TB, version contract.Version) *world {
	t.Helper()
	return newWorldWith(t, version, fake.Options{})
}

func newWorldWith(t testing.TB, version contract.Version, options fake.Options) *world {
	t.Helper()
	kinds, err := contract.ClusterAPI(version)
	require.NoError(t, err)
	options.Kinds = []fake.ServedKind{{GVK: kinds.Check.GVK, Status: true}, {GVK: kinds.Machine.GVK, Status: true}, {GVK: fake.ClusterGVK(),
		Status: true}}
	env := testenv.Start(t, options, fake.Loops{GarbageCollector: true}, nil)
	return &world{Env: env, t: t, version: version, kinds: kinds}
}

// reconciler returns a reconciler in a manager that is not started.
func (w *world) reconciler(options remediation.Options) (*remediation.Reconciler, ctrl.Manager) {
	w.t.Helper()
	mgr := w.Manager(userAgent, ctrl.Options{})
	if options.StatusDelay == 0 {
		options.StatusDelay = -1
	}
	if options.Recorder == nil {
		options.Recorder = mgr.GetEventRecorder(userAgent)
	}
	nodes, err := cluster.WorkloadOptions{}.FromManager(w.t.Context(), mgr)
	require.NoError(w.t, err)
	ports := remediation.Ports{Ports: engine.PortsFromManager(mgr), Workload: nodes}
	if w.ports != nil {
		w.ports(&ports)
	}
	r, err := remediation.New(w.kinds, ports, options)
	require.NoError(w.t, err)
	return r, mgr
}

// run starts the reconciler under test.
func (w *world) run(options remediation.Options) (stop func()) {
	w.t.Helper()
	r, mgr := w.reconciler(options)
	require.NoError(w.t, r.AddToManager(w.t.Context(), mgr))
	return w.Run(mgr)
}

// check returns a check of all Machines that are workers.
func (w *world) check(name string, options ...fake.Option) *unstructured.Unstructured {
	u := fake.MachineHealthCheck(name, map[string]string{"role": "worker"}, 5*time.Minute, options...)
	if w.version == contract.V1Beta1 {
		u.SetGroupVersionKind(w.kinds.Check.GVK)
		spec := u.Object["spec"].(map[string]any)
		delete(spec, "checks")
		spec["unhealthyConditions"] = []any{map[string]any{"type": "Ready", "status": "Unknown", "timeout": "5m"},
			map[string]any{"type": "Ready", "status": "False", "timeout": "5m"}}
	}
	return u
}

func limited(to any) fake.Option {
	return fake.WithField(to, "spec", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo")
}

func (w *world) ref(name string) *unstructured.Unstructured {
	return testenv.Object(w.kinds.Machine.GVK, name)
}

// machine creates a Machine of a set, with a Node that has been ready for an hour.
func (w *world) machine(name, zone string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	node := fake.Node(name, "fake://"+name)
	w.Create(node)
	fake.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, time.Now().Add(-time.Hour))
	require.NoError(w.t, w.Client.Status().Update(w.t.Context(), node))

	u := fake.Machine(name, append([]fake.Option{
		fake.WithLabels(map[string]string{"role": "worker", contract.ClusterNameLabel: "demo"}), owned("set", "set-uid"),
	}, options...)...)
	u.SetGroupVersionKind(w.kinds.Machine.GVK)
	w.Create(u)
	w.update(u, contract.MachineUpdate{
		Node: contract.SetTo(contract.NodeRef{Name: name, UID: node.UID}), ProviderID: contract.SetTo("fake://" + name),
		FailureDomain: contract.SetTo(zone), Phase: contract.SetTo("Running"),
	})
	return u
}

func owned(name, uid string) fake.Option {
	return func(u *unstructured.Unstructured) {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: name, UID: types.UID(uid),
			Controller: new(true)}})
	}
}

// update writes to a Machine what its own reconciler would.
func (w *world) update(ref *unstructured.Unstructured, u contract.MachineUpdate) {
	w.t.Helper()
	w.Change(ref, func(obj *unstructured.Unstructured) { require.NoError(w.t, w.kinds.Machine.Adapter.Write(obj, u)) })
}

// becomes gives the Node of a Machine a Ready condition.
func (w *world) becomes(name string, status corev1.ConditionStatus, since time.Duration) {
	w.t.Helper()
	var node corev1.Node
	require.NoError(w.t, w.Client.Get(w.t.Context(), types.NamespacedName{Name: name}, &node))
	fake.SetNodeCondition(&node, corev1.NodeReady, status, time.Now().Add(-since))
	require.NoError(w.t, w.Client.Status().Update(w.t.Context(), &node))
}

func (w *world) state(name string) contract.MachineState {
	w.t.Helper()
	var state contract.MachineState
	require.NoError(w.t, w.kinds.Machine.Adapter.Read(w.Get(w.ref(name)), &state))
	return state
}

// health is the conditions of a Machine about its health, as one line.
func (w *world) health(name string) string {
	w.t.Helper()
	state := w.state(name)
	var all []string
	for _, kind := range []string{contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated,
		contract.ConditionExternallyRemediated} {
		if c, found := engine.Find(state.Conditions, kind); found {
			all = append(all, fmt.Sprintf("%s=%s/%s", kind, c.Status, c.Reason))
		}
	}
	return strings.Join(all, " ")
}

// The conditions of a Machine that is healthy, marked, or unhealthy and held.
const (
	healthy = "HealthCheckSucceeded=True/HealthCheckSucceeded"
	held    = "HealthCheckSucceeded=False/UnhealthyNode"
	marked  = held + " OwnerRemediated=False/WaitingForRemediation"
)

// reports waits until Machines have these conditions.
func (w *world) reports(want string, names ...string) {
	w.t.Helper()
	w.Eventually("report "+want, func() string {
		for _, name := range names {
			if got := w.health(name); got != want {
				return name + " has " + got
			}
		}
		return ""
	})
}

// status waits until a check counts Machines.
func (w *world) status(check *unstructured.Unstructured, expected, current, allowed int32) {
	w.t.Helper()
	want := fmt.Sprint(expected, current, allowed)
	w.Until("count "+want, func() bool {
		s := w.checkState(check)
		got := fmt.Sprint(s.ExpectedMachines.Or(-1), s.CurrentHealthy.Or(-1), s.RemediationsAllowed.Or(-1))
		return got == want
	})
}

func (w *world) checkState(check *unstructured.Unstructured) (s contract.HealthCheckState) {
	w.t.Helper()
	require.NoError(w.t, w.kinds.Check.Adapter.Read(w.Get(check), &s))
	return s
}

// condition waits until a check has a condition.
func (w *world) condition(check *unstructured.Unstructured, kind, want string, parts ...string) {
	w.t.Helper()
	w.Eventually("say "+kind+" "+want, func() string {
		c, found := engine.Find(w.checkState(check).Conditions, kind)
		got := fmt.Sprintf("%s/%s", c.Status, c.Reason)
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return c.Message
			}
		}
		if found && got != want || !found && want != "" {
			return got + ": " + c.Message
		}
		return ""
	})
}

func keyOf(node string) types.NamespacedName { return types.NamespacedName{Name: node} }

type (
	ctxOf   = context.Context
	queueOf = workqueue.TypedRateLimitingInterface[reconcile.Request]
)

// liveReader finds Nodes that are gone or not ready, and they are ready.
type liveReader struct {
	client.Reader

	has map[string]bool
}

func (l liveReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if node, ok := obj.(*corev1.Node); ok && l.has[key.Name] {
		*node = *fake.Node(key.Name, "fake://"+key.Name)
		fake.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, time.Now())
		return nil
	}
	return l.Reader.Get(ctx, key, obj, opts...)
}

// recorded waits until there are so many events with a reason: they are recorded beside the passes.
func (w *world) recorded(reason string, times int) {
	w.t.Helper()
	w.Until(fmt.Sprintf("record %s %d times", reason, times), func() bool { return len(w.Events(reason)) == times })
}

func TestMain(m *testing.M) { testenv.Main(m) }

// BenchmarkPass measures a pass over 300 Machines that are all healthy.
func BenchmarkPass(b *testing.B) {
	w := newWorld(b, contract.V1Beta2)
	for i := range 300 {
		w.machine(fmt.Sprintf("m%03d", i), fmt.Sprintf("zone-%d", i%3))
	}
	check := w.check("workers")
	w.Create(check)
	r, mgr := w.reconciler(remediation.Options{})
	require.NoError(b, r.Index(b.Context()))
	w.Run(mgr)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)}
	w.Until("be healthy", func() bool {
		_, err := r.Reconcile(b.Context(), request)
		got := w.checkState(check).CurrentHealthy.Or(0)
		return err == nil && got == 300
	})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.Reconcile(b.Context(), request)
	}
}
