package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

const drainMe = "example.com/drain-me"

var web = map[string]string{"app": "web"}

// cluster is a real manager with a drain controller over the in-memory store.
type cluster struct {
	t      *testing.T
	store  *fake.Store
	client client.WithWatch
	runner *runner.Runner

	mu      sync.Mutex
	results map[string]runner.Result
	errs    map[string]error
	waits   map[string]runner.VolumesResult
}

func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, store: fake.NewStore(fake.Options{}),
		results: map[string]runner.Result{}, errs: map[string]error{}, waits: map[string]runner.VolumesResult{},
	}
	c.client = c.store.Client()
	ctx, cancel := context.WithCancel(t.Context())
	loops := fake.AllLoops()
	loops.StartPod, loops.StopPod = 20*time.Millisecond, 20*time.Millisecond
	loopsEnded := c.store.Start(ctx, loops)
	for _, name := range nodes {
		node := fake.Node(name, "fake:///"+name)
		node.Spec.Taints = nil
		require.NoError(t, c.client.Create(ctx, node))
	}

	mgr, err := c.store.NewManager(ctrl.Options{Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	c.runner, err = runner.NewForCluster(mgr, nil)
	require.NoError(t, err)
	c.runner.Configure(func(cfg *runner.Config) {
		runner.SetBackoff(cfg.Pods, 10*time.Millisecond, 10*time.Second)
		cfg.Debounce, cfg.Settle = 5*time.Millisecond, 50*time.Millisecond
	})
	require.NoError(t, mgr.Add(c.runner))
	require.NoError(t, ctrl.NewControllerManagedBy(mgr).Named("drain").For(&corev1.Node{}).WatchesRawSource(c.runner.Source()).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			return c.reconcile(ctx, mgr.GetClient(), req)
		})))
	managerEnded := make(chan error, 1)
	go func() { managerEnded <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-managerEnded)
		loopsEnded()
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
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+drainMe+`":""}}}`))
	require.NoError(c.t, c.client.Patch(c.t.Context(), object, patch))
}

func (c *cluster) last(node string) (runner.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results[node], c.errs[node]
}

func (c *cluster) volumes(node string) (runner.VolumesResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits[node], c.errs[node]
}

func (c *cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), 5*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return ok(), nil })
	require.NoError(c.t, err, "waiting until %s; results: %+v, errors: %v", what, c.results, c.errs)
}

func (c *cluster) webPods() []corev1.Pod {
	c.t.Helper()
	var list corev1.PodList
	require.NoError(c.t, c.client.List(c.t.Context(), &list, client.InNamespace("default"), client.MatchingLabels(web)))
	return list.Items
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
func (c *cluster) deploy(replicas int32, budget policyv1.PodDisruptionBudgetSpec) {
	c.t.Helper()
	budget.Selector = &metav1.LabelSelector{MatchLabels: web}
	require.NoError(c.t, c.client.Create(c.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: budget.Selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: web},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}))
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: budget}
	require.NoError(c.t, c.client.Create(c.t.Context(), pdb))
	c.eventually("the budget has counted all pods", func() bool {
		require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKeyFromObject(pdb), pdb))
		return pdb.Status.CurrentHealthy == replicas && pdb.Status.ObservedGeneration == pdb.Generation
	})
}

// guard follows every change of the web pods and returns a function that ends it and names the fewest available ones.
func (c *cluster) guard() (fewest func() int) {
	c.t.Helper()
	var list corev1.PodList
	require.NoError(c.t, c.client.List(c.t.Context(), &list, client.InNamespace("default")))
	now := map[types.UID]bool{}
	count := func() int {
		n := 0
		for _, ok := range now {
			if ok {
				n++
			}
		}
		return n
	}
	for i := range list.Items {
		now[list.Items[i].UID] = available(&list.Items[i])
	}
	low := count()
	w, err := c.client.Watch(c.t.Context(), &corev1.PodList{}, client.InNamespace("default"),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	require.NoError(c.t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			now[pod.UID] = event.Type != watch.Deleted && available(pod)
			low = min(low, count())
		}
	}()
	return func() int {
		w.Stop()
		<-ended
		return low
	}
}

func isEviction(r fake.Request) bool { return r.Verb == "create" && r.Subresource == "eviction" }

func TestStore_ADeploymentBehindABudgetDrainsToTheLastPod(t *testing.T) {
	c := newCluster(t, "n1", "n2", "n3")
	c.deploy(8, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(2))})
	fewest := c.guard()
	before := map[string]int{"n1": c.on("n1"), "n2": c.on("n2")}
	c.store.ResetRequests()
	c.drain("n1")
	c.drain("n2")
	for _, node := range []string{"n1", "n2"} {
		c.eventually(node+" is drained", func() bool { r, _ := c.last(node); return r.Done })
		require.Zero(t, c.on(node))
	}
	require.GreaterOrEqual(t, fewest(), 6, "the budget was violated")

	evicted, accepted := map[string]int{}, 0
	for _, r := range c.store.Requests() {
		if isEviction(r) && r.Code < 300 {
			evicted[r.Name]++
			accepted++
		}
	}
	require.Len(t, evicted, accepted, "one accepted request per pod")
	require.GreaterOrEqual(t, accepted, before["n1"]+before["n2"], "a pod that takes one's place may come to n2 before its cordon")
	cordons := c.store.CountRequests(fake.Match("patch", schema.GroupKind{Kind: "Node"}, ""))
	require.GreaterOrEqual(t, cordons, 4, "one cordon per Node, and one annotation of the test")
	require.LessOrEqual(t, cordons, 10, "a Node is cordoned again only until it is shown cordoned")
	require.Zero(t, c.store.CountRequests(fake.Match("get", schema.GroupKind{Kind: "Pod"}, "")), "no pod is read one by one")
	refused := c.store.CountRequests(func(r fake.Request) bool { return isEviction(r) && r.Code == 429 })
	require.LessOrEqual(t, refused, accepted, "refused requests must stay few")
	t.Logf("accepted %d, refused %d", accepted, refused)
}

func TestStore_ABudgetThatCanNeverOpenIsNamed(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	c.deploy(2, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0))})
	c.drain("n1")
	c.eventually("the budget is named", func() bool {
		r, _ := c.last("n1")
		return len(r.Blockers) == 1 && r.Blockers[0].Reason == drain.ReasonBudgetNeverAllows
	})
	r, _ := c.last("n1")
	require.Equal(t, []types.NamespacedName{{Namespace: "default", Name: "web"}}, r.Blockers[0].Budgets)
	require.False(t, r.Blockers[0].Since.IsZero())
	require.False(t, r.Done)
	c.eventually("each pod was asked for", func() bool { return c.store.CountRequests(isEviction) == r.Blockers[0].Count })

	// Mending the budget wakes the drain.
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	require.NoError(t, c.client.Patch(t.Context(), pdb, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxUnavailable":1}}`))))
	c.eventually("n1 is drained", func() bool { r, _ := c.last("n1"); return r.Done })
}

func TestStore_ASourceThatCannotListIsAnErrorAndNeverDone(t *testing.T) {
	c := newCluster(t, "n1")
	podReads := func(r fake.Request) bool { return (r.Verb == "list" || r.Verb == "watch") && r.GVK.Kind == "Pod" }
	mend := c.store.Inject(fake.Fault{
		Match: podReads, Times: -1, Err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no access")),
	})
	c.drain("n1")
	c.eventually("the failure is reported", func() bool {
		_, err := c.last("n1")
		return err != nil && apierrors.IsForbidden(err)
	})
	r, _ := c.last("n1")
	require.False(t, r.Done)
	mend()
	c.eventually("n1 is drained once pods can be listed", func() bool { r, err := c.last("n1"); return err == nil && r.Done })
}

func TestStore_LostAnswersAndOutagesDoNotStopTheDrain(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	c.deploy(6, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(3))})
	fewest := c.guard()
	for range 2 {
		c.store.LoseNext(isEviction)
	}
	c.store.FailNext(isEviction, apierrors.NewGenericServerResponse(429, "POST", schema.GroupResource{Resource: "pods"}, "", "busy", 1, true))
	c.store.FailNext(fake.Match("watch", schema.GroupKind{Kind: "Pod"}, ""), errors.New("connection refused"))
	c.drain("n1")
	c.eventually("n1 is drained", func() bool { r, _ := c.last("n1"); return r.Done })
	require.GreaterOrEqual(t, fewest(), 3, "the budget was violated")
	require.Zero(t, c.on("n1"))
}

func TestStore_EvictorsSpareAPodOfAnotherUID(t *testing.T) {
	c := newCluster(t, "n1")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	require.NoError(t, c.client.Create(t.Context(), pod))
	key := client.ObjectKeyFromObject(pod)
	clientset, err := kubernetes.NewForConfig(c.store.RESTConfig())
	require.NoError(t, err)
	overREST := runner.NewRESTEvictor(clientset)

	for i, evictor := range []runner.Evictor{overREST} {
		t.Run(fmt.Sprintf("%T %d", evictor, i), func(t *testing.T) {
			before := runner.PodRef{Namespace: "default", Name: "db-0", UID: "the-one-before"}
			err := evictor.Evict(t.Context(), before, nil)
			require.Equal(t, drain.ReasonGone, drain.Classify(err, false).Reason, "answer: %v", err)
			require.NoError(t, c.client.Get(t.Context(), key, pod))
			require.Nil(t, pod.DeletionTimestamp)
		})
	}
	require.NoError(t, overREST.Evict(t.Context(), drain.RefOf(pod), nil))
	c.eventually("the pod is gone", func() bool { return apierrors.IsNotFound(c.client.Get(t.Context(), key, pod)) })
	err = overREST.Evict(t.Context(), drain.RefOf(pod), nil)
	require.Equal(t, drain.ReasonGone, drain.Classify(err, false).Reason, "answer: %v", err)
}

func TestStore_TwoBudgetsOverOnePodAreARefusalAndNoSuccess(t *testing.T) {
	c := newCluster(t, "n1")
	c.deploy(1, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))})
	second := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "second"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: web},
		},
	}
	require.NoError(t, c.client.Create(t.Context(), second))
	clients, err := kubernetes.NewForConfig(c.store.RESTConfig())
	require.NoError(t, err)
	evictor := runner.NewRESTEvictor(clients)
	pod := c.webPods()[0]
	err = evictor.Evict(t.Context(), drain.RefOf(&pod), nil)
	if reason := drain.Classify(err, true).Reason; reason != drain.ReasonMultipleBudgets {
		t.Errorf("want %v, got %v of %v", drain.ReasonMultipleBudgets, reason, err)
	}
}
