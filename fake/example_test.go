package fake_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

// A Store is used through ordinary clients.
func ExampleStore() {
	ctx := context.Background()
	store := fake.NewStore(fake.Options{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: "test://one"}}
	fmt.Println(store.Client().Create(ctx, node))
	node.Spec.ProviderID = "test://two"
	fmt.Println(store.Client().Update(ctx, node))
	// Output:
	// <nil>
	// Node "node-1" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from "" to valid
}

// Loops that a test drives: a pod waits until the scheduler acts, and then for its kubelet.
func ExampleStore_Step() {
	ctx := context.Background()
	store := fake.NewStore(fake.Options{})
	loops := store.Step(fake.Loops{Scheduler: true, Kubelet: true})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
	fmt.Println(store.Client().Create(ctx, node), store.Client().Create(ctx, pod))
	for range 100 {
		tasks := loops.Tasks()
		if len(tasks) == 0 {
			break
		}
		loops.Do(tasks[0])
	}
	fmt.Println(store.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod), pod.Spec.NodeName, pod.Status.Phase)
	// Output:
	// <nil> <nil>
	// <nil> node-1 Running
}

// A lost answer: the write happened, but the client cannot know.
func ExampleStore_LoseNext() {
	ctx := context.Background()
	store := fake.NewStore(fake.Options{})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}}
	store.LoseNext(fake.Match("create", corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "settings"))
	fmt.Println(store.Client().Create(ctx, config) != nil)
	fmt.Println(store.Client().Get(ctx, client.ObjectKeyFromObject(config), config))
	// Output:
	// true
	// <nil>
}

// A cache that is behind: what a reconciler has just created is not there when it looks again.
func Example_staleCache() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := fake.NewStore(fake.Options{CacheLagFunc: func(kind schema.GroupKind, _ types.NamespacedName) time.Duration {
		return map[string]time.Duration{"ConfigMap": time.Hour}[kind.Kind]
	}})
	mgr, err := store.NewManager(ctrl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}}
	go func() { _ = mgr.GetCache().Start(ctx) }()
	mgr.GetCache().WaitForCacheSync(ctx)
	fmt.Println(mgr.GetCache().List(ctx, &corev1.ConfigMapList{}), mgr.GetClient().Create(ctx, config))
	fmt.Println(apierrors.IsNotFound(mgr.GetClient().Get(ctx, client.ObjectKeyFromObject(config), config)))
	// Output:
	// <nil> <nil>
	// true
}
