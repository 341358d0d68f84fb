package runner_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// clusterWith returns a simulated cluster, which refuses nothing, that has these Nodes with a Pod each.
func clusterWith(ctx context.Context, nodes ...string) *fake.Store {
	store := fake.NewStore(fake.Options{})
	store.Start(ctx, fake.AllLoops())
	for _, name := range nodes {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-on-" + name},
			Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		for _, obj := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, pod} {
			_ = store.Client().Create(ctx, obj)
		}
	}
	return store
}

// A reconciler of Nodes drains those that have an annotation. One line in main gives it a Runner.
func addDrains(mgr manager.Manager, drained func(node string)) error {
	drains, err := runner.AddToManager(mgr)
	if err != nil {
		return err
	}
	reconciler := func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		var node corev1.Node
		if err := mgr.GetClient().Get(ctx, req.NamespacedName, &node); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if node.Annotations["example.com/drain"] == "" {
			drains.Release(node.Name)
			return reconcile.Result{}, nil
		}
		result, err := drains.Step(ctx, runner.Request{Node: &node})
		if result.Done {
			drained(node.Name)
		}
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("drains").For(&corev1.Node{}).WatchesRawSource(drains.Source()).
		Complete(reconcile.Func(reconciler))
}

// An operator drains Nodes in its reconciler, without blocking a worker.
func ExampleAddToManager() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store := clusterWith(ctx, "node-1")
	mgr, err := store.NewManager(ctrl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan string, 10)
	if err := addDrains(mgr, func(node string) { done <- node }); err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = mgr.Start(ctx) }()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"annotations":{"example.com/drain":"please"}}}`))
	if err := store.Client().Patch(ctx, node, patch); err != nil {
		fmt.Println(err)
		return
	}
	select {
	case name := <-done:
		fmt.Println(name, "is drained")
	case <-ctx.Done():
	}
	// Output: node-1 is drained
}

// A program drains two Nodes, prints what is in the way, and gives them back.
func ExampleDrain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	restConfig := clusterWith(ctx, "node-1", "node-2").RESTConfig() // that of any cluster
	results, err := runner.Drain(ctx, restConfig, runner.DrainOptions{
		Timeout: time.Minute,
		Progress: func(r runner.NodeResult) {
			for _, b := range r.Blockers {
				fmt.Println(r.Node, "waits:", b.Message)
			}
		},
	}, "node-1", "node-2")
	for _, r := range results {
		fmt.Println(r.Node, "done:", r.Done)
	}
	fmt.Println("error:", err)
	// Output:
	// node-1 done: true
	// node-2 done: true
	// error: <nil>
}

// Plans a drain without a Runner: what would go, what stays, and why.
func ExampleLook() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := clusterWith(ctx, "node-1").Client()
	pods, facts, err := runner.Look(ctx, c, "node-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := drain.Planner{}.Plan(pods, facts)
	fmt.Println(plan.Summary()) // and plan.Permanent() has what waiting does not remove
	// Output: * Pod default/web-on-node-1: to be evicted
}
