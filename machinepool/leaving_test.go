package machinepool_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// writeNode sends a Node a merge patch.
func (w *world) writeNode(name, body string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(w.t, w.client.Patch(w.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(body))))
}

const (
	markLeaving = `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":""}}}`
	markStaying = `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":null}}}`
)

// nodeIs waits for a Node to be cordoned or not, and to say that it was drained or not.
func (w *world) nodeIs(name string, cordoned, drained bool) {
	w.t.Helper()
	w.eventually("what becomes of Node "+name, func() string {
		var node corev1.Node
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &node))
		_, says := node.Annotations[contract.DrainedAnnotation]
		_, begun := node.Annotations[contract.DrainStartedAnnotation]
		if node.Spec.Unschedulable != cordoned || says != drained || (begun && !cordoned) {
			return "it is something else: " + node.String()
		}
		return ""
	})
}

func TestANodeThatStaysAfterAllServesAgainAndIsDrainedAgainWhenItLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	w.writeNode("pool-0", markLeaving)
	w.nodeIs("pool-0", true, true)
	w.writeNode("pool-0", markStaying)
	w.nodeIs("pool-0", false, false)
	w.isQuiet()
	w.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "pool-0", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	w.writeNode("pool-0", markLeaving)
	w.nodeIs("pool-0", true, true)
	if !slices.ContainsFunc(w.store.Requests(), func(r fake.Request) bool { return r.Subresource == "eviction" && r.Name == "app" }) {
		t.Error("the Node says that it was drained, and its pod was not evicted")
	}
}

func TestANodeThatIsUncordonedWhileItLeavesIsDrainedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.poolOf("p://1")
	w.writeNode("n-0", markLeaving)
	w.nodeIs("n-0", true, true)
	w.guarded("n-0")
	w.isQuiet()
	w.writeNode("n-0", `{"spec":{"unschedulable":null}}`)
	w.nodeIs("n-0", true, false)
	for _, obj := range guardedPod("n-0")[1:] {
		require.NoError(t, w.client.Delete(t.Context(), obj))
	}
	w.nodeIs("n-0", true, true)
	require.Error(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "app"}, &corev1.Pod{}), "its pod was not evicted")
}

func TestANodeThatAnotherCordonedStaysCordoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.writeNode("pool-0", `{"spec":{"unschedulable":true}}`)
	w.isQuiet()
	w.writeNode("pool-0", markLeaving)
	w.nodeIs("pool-0", true, true)
	w.writeNode("pool-0", markStaying)
	w.nodeIs("pool-0", true, false)
	w.isQuiet()
	w.nodeIs("pool-0", true, false)
}

func TestTheLimitOfADrainCountsFromItsBeginInEveryProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1, fake.WithField(map[string]any{"nodeDrainTimeoutSeconds": int64(3600)}, "spec", "template", "spec", "deletion"))
	w.reports(pool, "Running", 1, 1)
	w.guarded("pool-0")
	w.writeNode("pool-0", markLeaving)
	w.nodeIs("pool-0", true, false)
	w.restart(func() {
		w.writeNode("pool-0", `{"metadata":{"annotations":{"`+contract.DrainStartedAnnotation+`":"2020-01-01T00:00:00Z"}}}`)
	})
	w.nodeIs("pool-0", true, true)
}

func TestAPoolWhoseNodesAreNotToBeDrainedHoldsNoInstanceUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{RequestDrain: true}})
	pool := w.poolWith(2, fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""}))
	w.reports(pool, "Running", 2, 2)
	for _, node := range w.nodes() {
		w.create(guardedPodNamed("app-"+node.Name, node.Name)...)
	}
	w.change(pool, set(int64(1), "spec", "replicas"))
	w.reports(pool, "Running", 1, 1)
}

func TestThatANodeWasDrainedIsReportedUntilItIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.store.FailNext(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.GVK.Kind == "Node" && r.PatchType == types.MergePatchType
	}, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "pool-0", nil))
	w.writeNode("pool-0", markLeaving)
	w.nodeIs("pool-0", true, true)
}

func TestNoMachineIsRetiredByAListThatIsOlderThanTheAPIServers(t *testing.T) {
	t.Parallel()
	// The cache of a process that has just begun may be behind what the one before it has seen.
	var ahead atomic.Bool
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		ports.APIReader = newer{ports.APIReader, &ahead}
	}})
	pool := w.poolWith(3)
	w.reports(pool, "Running", 3, 3)
	ahead.Store(true)
	w.change(pool, set(int64(1), "spec", "replicas"))
	w.eventually("the list has one ID", func() string {
		list, _, _ := unstructured.NestedStringSlice(w.get(pool).Object, "spec", "providerIDList")
		if len(list) != 1 {
			return "it has others"
		}
		return ""
	})
	w.reports(pool, "Running", 1, 1)
	for _, node := range w.nodes() {
		if node.Spec.Unschedulable {
			t.Errorf("Node %s is being drained", node.Name)
		}
	}
	if n := len(w.nodes()); n != 3 {
		t.Errorf("Nodes were deleted, %d are left", n)
	}
	ahead.Store(false)
	w.eventually("the Nodes go", func() string {
		if n := len(w.nodes()); n != 1 {
			return "there are still others"
		}
		return ""
	})
}

func TestUncordonIsConfirmed(t *testing.T) {
	t.Parallel()
	// The provider may have read already that the Node was drained.
	var ahead atomic.Bool
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		ports.APIReader = newer{ports.APIReader, &ahead}
	}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.writeNode("pool-0", markLeaving)
	w.nodeIs("pool-0", true, true)
	ahead.Store(true)
	w.store.ResetRequests()
	w.writeNode("pool-0", markStaying)
	w.eventually("the API server is asked", func() string {
		if w.store.CountRequests(func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.Verb == "list" && r.GVK.Kind == "FakeMachinePool"
		}) == 0 {
			return "it is not"
		}
		return ""
	})
	w.nodeIs("pool-0", true, true)
	ahead.Store(false)
	w.nodeIs("pool-0", false, false)
}

// newer reads objects in a version that no cache has yet, when a test says so.
type newer struct {
	client.Reader
	ahead *atomic.Bool
}

func (n newer) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := n.Reader.List(ctx, list, opts...)
	if all, ok := list.(*metav1.PartialObjectMetadataList); ok && n.ahead.Load() {
		for i := range all.Items {
			all.Items[i].SetResourceVersion("1000000")
		}
	}
	return err
}

func TestAPausedPoolHasNoPodEvicted(t *testing.T) {
	t.Parallel()
	released := &releases{}
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		released.Drainer = ports.Workload.Drainer
		ports.Workload.Drainer = released
	}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	w.guarded("pool-0")
	w.writeNode("pool-0", markLeaving)
	w.eventually("the drain", func() string {
		if !released.has("step pool-0") {
			return "it has not begun"
		}
		return ""
	})
	w.change(pool, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{contract.PausedAnnotation: ""}) })
	w.conditionIs(pool, contract.ConditionPaused, contract.ReasonPaused)
	if !released.has("release pool-0") {
		t.Error("what is queued is still evicted")
	}
}

func TestAPoolThatIsAnotherControllersNowHasNoPodEvicted(t *testing.T) {
	t.Parallel()
	released := &releases{}
	w := newWorld(t, worldOptions{
		provider: &fake.PoolInfrastructure{}, pool: machinepool.Options{Options: pass.Options{WatchFilter: "mine"}},
		ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
			released.Drainer = ports.Workload.Drainer
			ports.Workload.Drainer = released
		},
	})
	pool := w.poolWith(1, fake.WithLabels(map[string]string{contract.WatchFilterLabel: "mine"}))
	w.reports(pool, "Running", 1, 1)
	w.guarded("pool-0")
	w.writeNode("pool-0", markLeaving)
	w.eventually("the drain", func() string {
		if !released.has("step pool-0") {
			return "it has not begun"
		}
		return ""
	})
	w.change(pool, func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{contract.WatchFilterLabel: "others"})
	})
	w.eventually("the release", func() string {
		if !released.has("release pool-0") {
			return "what is queued is still evicted"
		}
		return ""
	})
}

// releases records what a Drainer is asked for.
type releases struct {
	cluster.Drainer
	mu   sync.Mutex
	seen []string
}

func (r *releases) record(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, what)
}

func (r *releases) has(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.seen, what)
}

func (r *releases) Step(ctx context.Context, request runner.Request) (runner.Result, error) {
	result, err := r.Drainer.Step(ctx, request)
	r.record("step " + request.Node.Name)
	return result, err
}

func (r *releases) Release(node string) {
	r.Drainer.Release(node)
	r.record("release " + node)
}

func TestADrainPolicyThatIsWrongIsReportedAtOnce(t *testing.T) {
	_, err := machinepool.New(machinepool.Kinds{}, machinepool.Ports{}, machinepool.Options{
		Policy: machinepool.Policy{DrainPolicy: &drain.Policy{GracePeriod: new(int64(0))}},
	})
	require.ErrorContains(t, err, "drain policy: GracePeriod must be at least 1")
}

// A person takes the mark off a drained Node, and the provider changes the form of its IDs before the pool has uncordoned the Node.
func TestADrainedNodeThatStaysIsNotDeletedForAListOfAnotherForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1", "p://2")
	w.change(pool, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""}) })
	w.isQuiet()
	for _, node := range w.nodes() {
		drained := node.DeepCopy()
		drained.Annotations[contract.DrainedAnnotation] = string(node.UID)
		require.NoError(t, w.client.Patch(t.Context(), drained, client.MergeFrom(&node)))
	}
	w.listed(infra, "p:///zone/1", "p:///zone/2")
	w.change(pool, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.conditionIs(pool, contract.ConditionInfrastructureReady, machinepool.ReasonInstancesHeld)
	w.isQuiet()
	require.Len(t, w.nodes(), 2)
}
