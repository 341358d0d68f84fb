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

	"github.com/machinist-dev/machinist/contract"
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

// A lost answer: the write happened, but the client gets no response.
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

// A unit test of what reads the object of any provider: the same instance in each contract version.
func ExampleInfraMachine() {
	for _, v := range []contract.Version{contract.V1Alpha3, contract.V1Beta1, contract.V1Beta2} {
		infra := fake.InfraMachine(v, "worker-1", fake.Provisioned("aws:///eu-1a/i-1"),
			fake.Addresses(contract.Address{Type: "InternalIP", Address: "10.0.0.1"}))
		var state contract.InfraMachineState
		err := contract.LayoutsOf(v).InfraMachine.Read(infra, &state)
		fmt.Println(infra.GetAPIVersion(), state.Provisioned, state.ProviderID, state.Addresses, err)
	}
	// Output:
	// infrastructure.cluster.x-k8s.io/v1alpha3 true aws:///eu-1a/i-1 [{InternalIP 10.0.0.1}] <nil>
	// infrastructure.cluster.x-k8s.io/v1beta1 true aws:///eu-1a/i-1 [{InternalIP 10.0.0.1}] <nil>
	// infrastructure.cluster.x-k8s.io/v1beta2 true aws:///eu-1a/i-1 [{InternalIP 10.0.0.1}] <nil>
}

// A Machine, its infrastructure and its Node, that belong together.
func ExampleRunning() {
	node := fake.Node("ip-10-0-0-1", "aws:///eu-1a/i-1")
	machine := fake.Machine("worker-1", fake.WithContract(contract.V1Beta1), fake.Running(node))
	var state contract.MachineState
	err := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine).Adapter.Read(machine, &state)
	fmt.Println(state.Infrastructure.Kind, state.ProviderID, state.Node.Name, state.Phase, err)
	// Output: LegacyFakeMachine aws:///eu-1a/i-1 ip-10-0-0-1 Running <nil>
}

// The states of a BootstrapConfig and of a pool.
func ExampleBootstrapConfig() {
	v := contract.V1Beta2
	for _, option := range []fake.Option{
		fake.WithLabels(nil), fake.DataSecret("worker-1-data"), fake.Failed("InvalidConfig", "files[0] has no path"),
	} {
		var state contract.BootstrapConfigState
		err := contract.LayoutsOf(v).BootstrapConfig.Read(fake.BootstrapConfig(v, "worker-1", option), &state)
		fmt.Printf("%v %q %q %v\n", state.DataSecretCreated, state.DataSecretName.Or(""), state.FailureReason, err)
	}
	var pool contract.InfraMachinePoolState
	instances := fake.Instances("aws:///i-1", "aws:///i-2")
	err := contract.LayoutsOf(v).InfraMachinePool.Read(fake.InfraMachinePool(v, "workers", instances), &pool)
	fmt.Println(pool.Provisioned, pool.ProviderIDList, err)
	// Output:
	// false "" "" <nil>
	// true "worker-1-data" "" <nil>
	// false "" "InvalidConfig" <nil>
	// true [aws:///i-1 aws:///i-2] <nil>
}
