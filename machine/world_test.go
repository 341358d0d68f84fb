package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// world is a store with providers and the reconciler under test, all running.
type world struct {
	t      *testing.T
	store  *fake.Store
	client client.WithWatch
}

type worldOptions struct {
	store          fake.Options
	machine        machine.Options
	infrastructure fake.Infrastructure
	bootstrap      fake.Bootstrap
	noCRDs         bool
	noCollector    bool // no garbage collector
	before         func(*world)
	// ports changes the ports that the manager has by default.
	ports func(ctrl.Manager, *machine.Ports)
	// clusters has Clusters served and read.
	clusters bool
	// kind is the kind of Machine; by default that of cluster.x-k8s.io/v1beta2.
	kind contract.Kind
}

// silence has what has no logger of its own say nothing. Worlds are made in parallel.
var silence = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) })

const userAgent = "machinist-under-test"

func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	silence()
	if o.kind.Adapter == nil {
		o.kind = contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	}
	o.infrastructure.Machine, o.bootstrap.Machine = o.kind.GVK, o.kind.GVK
	o.store.Kinds = append(o.store.Kinds, fake.ServedKind{GVK: o.kind.GVK, Status: o.kind.StatusSubresource})
	if o.clusters {
		o.store.Kinds = append(o.store.Kinds, fake.ServedKind{GVK: fake.ClusterGVK(), Status: true})
	}
	store := fake.NewStore(o.store)
	w := &world{t: t, store: store, client: store.Client()}
	if !o.noCRDs {
		w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
		w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	}
	if o.before != nil {
		o.before(w)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends in Cleanup, after the test's own context
	loops := fake.AllLoops()
	loops.GarbageCollector = !o.noCollector
	settled := store.Start(ctx, loops)
	providers, ours := w.manager("provider"), w.manager(userAgent)
	if !o.noCRDs {
		require.NoError(t, o.infrastructure.SetupWithManager(providers))
		require.NoError(t, o.bootstrap.SetupWithManager(providers))
	}
	if o.machine.StatusDelay == 0 {
		o.machine.StatusDelay = 300 * time.Millisecond
	}
	o.setup(ctx, t, ours)
	done := make(chan error, 2)
	for _, mgr := range []ctrl.Manager{providers, ours} {
		go func() { done <- mgr.Start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("manager: %v", err)
			}
		}
		settled()
	})
	return w
}

func (o worldOptions) setup(ctx context.Context, t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	if o.ports == nil && !o.clusters {
		_, err := machine.SetupWithManager(ctx, mgr, o.kind, o.machine)
		require.NoError(t, err)
		return
	}
	ports, err := machine.PortsFromManager(ctx, mgr, o.machine.Matching)
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

func (w *world) manager(agent string) ctrl.Manager {
	w.t.Helper()
	options := w.store.ManagerOptions(ctrl.Options{
		Logger:     logr.Discard(),
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 4},
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

// cluster creates a Cluster with its status.
func (w *world) cluster(name string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	c := fake.Cluster(name, options...)
	status := c.Object["status"]
	w.create(c)
	w.change(c, func(u *unstructured.Unstructured) { u.Object["status"] = status })
	return c
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

// machineWith creates a Machine with everything it refers to.
func (w *world) machineWith(name string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	m := fake.Machine(name, options...)
	w.create(fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachine(contract.V1Beta2, name), m)
	return m
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

// waitLimit bounds every wait, so that what never comes ends a test by itself. Only how busy the machine is says how long what does come
// may take: dozens of worlds run beside each other.
const waitLimit = 2 * time.Minute

// eventually polls until check says nothing any more, and fails with what it said last.
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(w.t.Context(), 20*time.Millisecond, waitLimit, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		w.t.Fatalf("%s: %s", what, last)
	}
}

func (w *world) reaches(m *unstructured.Unstructured, phase string) {
	w.t.Helper()
	w.eventually("reach "+phase, func() string {
		fresh := w.get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		if got, _, _ := unstructured.NestedString(fresh.Object, "status", "phase"); got != phase {
			return fmt.Sprintf("phase %q; conditions: %s", got, describe(fresh))
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

// conditionIs waits for a condition of the Machine to have a reason, and returns its message.
func (w *world) conditionIs(m *unstructured.Unstructured, kind, reason string) string {
	w.t.Helper()
	return w.conditionSays(m, kind, reason)
}

// conditionSays waits for a condition of the Machine to have a reason and to say all parts, and returns its message. A reason may come
// with other words first, while something has yet to be read.
func (w *world) conditionSays(m *unstructured.Unstructured, kind, reason string, parts ...string) string {
	w.t.Helper()
	message := ""
	w.eventually(fmt.Sprintf("%s to say %s: %q", kind, reason, parts), func() string {
		fresh := w.get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		c := conditionOf(fresh, kind)
		message = c.Message
		if c.Reason != reason || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(message, part) }) {
			return "it does not: " + describe(fresh)
		}
		return ""
	})
	return message
}

func conditionOf(m *unstructured.Unstructured, kind string) metav1.Condition {
	c, _, _ := contract.ConditionsAt("status", "conditions").Find(m.Object, kind)
	return c
}

func describe(m *unstructured.Unstructured) string {
	if m == nil {
		return "the Machine is gone"
	}
	all, _ := contract.ConditionsAt("status", "conditions").Get(m.Object, nil)
	text := ""
	for _, c := range all {
		text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

func (w *world) events(reason string) []eventsv1.Event {
	w.t.Helper()
	var list eventsv1.EventList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	var found []eventsv1.Event
	for _, e := range list.Items {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
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
	quiet := 0
	w.eventually("make no request", func() string {
		time.Sleep(150 * time.Millisecond)
		for _, r := range w.store.Requests() {
			if r.UserAgent == userAgent && r.Verb != "watch" {
				quiet = 0
				w.store.ResetRequests()
				return fmt.Sprintf("it still makes them: %+v", r)
			}
		}
		if quiet++; quiet < 6 {
			return "not quiet for long enough"
		}
		return ""
	})
}

// isQuietFor fails when the reconciler writes anything for a while, events aside: the recorder sends them when it suits it.
func (w *world) isQuietFor(what string, d time.Duration) {
	w.t.Helper()
	w.store.ResetRequests()
	time.Sleep(d)
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.IsWrite() && r.GVK.Kind != "Event" {
			w.t.Errorf("%s: want no write, got %+v", what, r)
		}
	}
}
