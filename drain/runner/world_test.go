package runner_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

const drainMe = "example.com/drain-me"

var web = map[string]string{"app": "web"}

// world is a simulated cluster.
type world struct {
	t      *testing.T
	store  *fake.Store
	client client.WithWatch
}

func newWorld(t *testing.T, nodes ...string) *world {
	t.Helper()
	w := &world{t: t, store: fake.NewStore(fake.Options{})}
	w.client = w.store.Client()
	ctx, cancel := context.WithCancel(t.Context())
	loops := fake.AllLoops()
	loops.StartPod, loops.StopPod = 5*time.Millisecond, 5*time.Millisecond
	ended := w.store.Start(ctx, loops)
	t.Cleanup(func() { cancel(); ended() })
	for _, name := range nodes {
		node := fake.Node(name, "fake:///"+name)
		node.Spec.Taints = nil
		w.create(node)
	}
	return w
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		require.NoError(w.t, w.client.Create(w.t.Context(), obj))
	}
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	var node corev1.Node
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &node))
	return &node
}

func (w *world) webPods() []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	require.NoError(w.t, w.client.List(w.t.Context(), &list, client.InNamespace("default"), client.MatchingLabels(web)))
	return list.Items
}

// budget creates a budget of the web pods, and waits until it has counted them.
func (w *world) budget(spec policyv1.PodDisruptionBudgetSpec, pods int32) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	spec.Selector = &metav1.LabelSelector{MatchLabels: web}
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: spec}
	w.create(pdb)
	poll(w.t, "the budget has counted all pods", func() bool {
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(pdb), pdb))
		return pdb.Status.CurrentHealthy == pods && pdb.Status.ObservedGeneration == pdb.Generation
	})
	return pdb
}

func (w *world) patch(obj client.Object, change string) {
	w.t.Helper()
	require.NoError(w.t, w.client.Patch(w.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(change))))
}

func (w *world) evictor() runner.Evictor {
	w.t.Helper()
	clients, err := kubernetes.NewForConfig(w.store.RESTConfig())
	require.NoError(w.t, err)
	return runner.NewRESTEvictor(clients)
}

func isEviction(r fake.Request) bool { return r.Verb == "create" && r.Subresource == "eviction" }

func isAccepted(r fake.Request) bool { return isEviction(r) && r.Code < 300 }

// cluster is a real manager with a drain controller over the in-memory store.
type cluster struct {
	*world
	runner *runner.Runner

	mu      sync.Mutex
	results map[string]runner.Result
	errs    map[string]error
	waits   map[string]runner.VolumesResult
}

func newCluster(t *testing.T, options ctrl.Options, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{
		world: newWorld(t, nodes...), results: map[string]runner.Result{}, errs: map[string]error{}, waits: map[string]runner.VolumesResult{},
	}
	options.Controller = config.Controller{SkipNameValidation: new(true)}
	mgr, err := c.store.NewManager(options)
	require.NoError(t, err)
	c.runner, err = runner.NewForCluster(mgr, nil)
	require.NoError(t, err)
	c.runner.Configure(func(cfg *runner.Config) {
		cfg.Debounce, cfg.Settle = 5*time.Millisecond, 50*time.Millisecond
	})
	require.NoError(t, mgr.Add(c.runner))
	require.NoError(t, ctrl.NewControllerManagedBy(mgr).Named("drain").For(&corev1.Node{}).WatchesRawSource(c.runner.Source()).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			return c.reconcile(ctx, mgr.GetClient(), req)
		})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return c
}

func (c *cluster) reconcile(ctx context.Context, nodes client.Client, req reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := nodes.Get(ctx, req.NamespacedName, &node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if _, wanted := node.Annotations[drainMe]; !wanted {
		return reconcile.Result{}, nil
	}
	result, err := c.runner.Step(ctx, runner.Request{Node: &node, Owner: req.NamespacedName})
	var volumes runner.VolumesResult
	if err == nil && result.Done {
		volumes, err = c.runner.StepVolumes(ctx, runner.Request{Node: &node, Owner: req.NamespacedName}, 0)
		result.RequeueAfter = volumes.RequeueAfter
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results[node.Name], c.errs[node.Name], c.waits[node.Name] = result, err, volumes
	return reconcile.Result{RequeueAfter: result.RequeueAfter}, err
}

func (c *cluster) drain(node string) {
	c.t.Helper()
	c.patch(c.node(node), `{"metadata":{"annotations":{"`+drainMe+`":""}}}`)
}

func (c *cluster) last(node string) (runner.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results[node], c.errs[node]
}

func (c *cluster) volumes(node string) runner.VolumesResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits[node]
}

func (c *cluster) drained(node string) {
	c.t.Helper()
	poll(c.t, node+" is drained", func() bool { r, err := c.last(node); return err == nil && r.Done })
}

func (c *cluster) on(node string) int {
	n := 0
	for _, pod := range c.webPods() {
		if pod.Spec.NodeName == node {
			n++
		}
	}
	return n
}

func available(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return pod.DeletionTimestamp == nil
		}
	}
	return false
}

// deploy runs web pods behind a budget and waits until all are available and the budget has counted them.
func (c *cluster) deploy(replicas, maxUnavailable int32) *policyv1.PodDisruptionBudget {
	c.t.Helper()
	c.create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: web},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: bound("", "").Spec},
		},
	})
	return c.budget(policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(maxUnavailable))}, replicas)
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return ok(), nil })
	require.NoError(t, err, "waiting until %s", what)
}

func bound(node, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}
