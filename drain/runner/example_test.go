package runner_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

// Drains a Node in a plain loop. In an operator, the manager starts the Runner, a reconciler calls Step once per pass, and
// Runner.Source wakes it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	store := fake.NewStore(fake.Options{})
	store.Start(ctx, fake.AllLoops())
	c := store.Client()

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	for _, obj := range []client.Object{node, pod} {
		if err := c.Create(ctx, obj); err != nil {
			fmt.Println(err)
			return
		}
	}

	pods, _ := runner.NewScopedPodSource(c)
	clientset, _ := kubernetes.NewForConfig(store.RESTConfig())
	evictor, _ := runner.NewRESTEvictor(clientset)
	r, err := runner.New(runner.Config{Nodes: c, Pods: pods, Evictor: evictor, Budgets: c, Settle: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = r.Start(ctx) }()

	for ctx.Err() == nil {
		if err := c.Get(ctx, client.ObjectKey{Name: "node-1"}, node); err != nil {
			fmt.Println(err)
			return
		}
		result, err := r.Step(ctx, runner.Request{Node: node})
		if err != nil {
			fmt.Println(err)
			return
		}
		if result.Done {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.Release("node-1")
	err = c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	fmt.Println("unschedulable:", node.Spec.Unschedulable, "pod gone:", client.IgnoreNotFound(err) == nil && err != nil)
	// Output: unschedulable: true pod gone: true
}

// patiently lets Pods leave by eviction for ten minutes before they are deleted.
func patiently(opts runner.DrainOptions) runner.DrainOptions {
	opts.Timeout = 20 * time.Second
	opts.Policy = &drain.Policy{DeleteAfter: 10 * time.Minute}
	opts.Progress = func(r runner.NodeResult) { _ = r.Message } // print what is left to do
	return opts
}

// Drains two Nodes without a manager, as a command would, and prints how each of them ended.
func ExampleDrain() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	store := fake.NewStore(fake.Options{})
	store.Start(ctx, fake.AllLoops())
	for _, name := range []string{"node-1", "node-2"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-on-" + name},
			Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		for _, obj := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, pod} {
			if err := store.Client().Create(ctx, obj); err != nil {
				fmt.Println(err)
				return
			}
		}
	}

	cfg, opts, err := runner.Standalone(store.RESTConfig()) // the rest.Config of any cluster
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg.Settle = 10 * time.Millisecond
	results, err := runner.Drain(ctx, cfg, patiently(opts), "node-1", "node-2")
	for _, r := range results {
		fmt.Println(r.Node, "done:", r.Done)
	}
	fmt.Println("error:", err)
	// Output:
	// node-1 done: true
	// node-2 done: true
	// error: <nil>
}

// Plans a drain without a Runner: what would be evicted now, and what has to wait.
func ExampleLook() {
	ctx := context.Background()
	c := fake.NewStore(fake.Options{}).Client()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	if err := c.Create(ctx, pod); err != nil {
		fmt.Println(err)
		return
	}

	pods, facts, err := runner.Look(ctx, c, time.Now(), "node-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := drain.Planner{}.Plan(pods, facts)
	fmt.Println(len(plan.Evictable()), "Pod can be evicted, done:", plan.Done())
	// Output: 1 Pod can be evicted, done: false
}
