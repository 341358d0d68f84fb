//go:build e2e

package e2e_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	replicas     = 6
	minAvailable = 5
)

// workload is a Deployment behind a budget, and everything that happened to its pods and to the machines meanwhile.
type workload struct {
	deployment *appsv1.Deployment
	budget     *policyv1.PodDisruptionBudget

	mu     sync.Mutex
	pods   []watch.Event
	infras []watch.Event
}

func clientKey(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// runWorkload starts a Deployment and waits until its pods are spread over all the Nodes, then records.
func (w *world) runWorkload(name string, nodes []string) *workload {
	w.t.Helper()
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	run := &workload{
		deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](replicas), Selector: selector,
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector,
					}},
				}},
			},
		},
		budget: &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(minAvailable)), Selector: selector},
		},
	}
	w.eventually("Nodes without taints", func() string { return w.untainted(nodes) })
	require.NoError(w.t, w.client.Create(w.t.Context(), run.deployment))
	require.NoError(w.t, w.client.Create(w.t.Context(), run.budget))
	w.eventually("pods on every Node", func() string { return w.spread(name, nodes) })
	w.record(run, labels)
	return run
}

// untainted: a Node that has just become Ready is tainted until the node lifecycle controller has seen it.
func (w *world) untainted(nodes []string) string {
	for _, name := range nodes {
		var node corev1.Node
		require.NoError(w.t, w.client.Get(w.t.Context(), clientKey("", name), &node))
		if len(node.Spec.Taints) > 0 {
			return fmt.Sprintf("%s has %v", name, node.Spec.Taints)
		}
	}
	return ""
}

func (w *world) spread(name string, nodes []string) string {
	var pods corev1.PodList
	require.NoError(w.t, w.client.List(w.t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": name}))
	on, available := map[string]int{}, 0
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName]++
		// A kubelet can report a pod Ready before Running, and the API server evicts a Pending one against any budget.
		if isAvailable(&pods.Items[i]) && pods.Items[i].Status.Phase == corev1.PodRunning {
			available++
		}
	}
	for _, node := range nodes {
		if on[node] == 0 {
			return fmt.Sprintf("none on %s: %v", node, on)
		}
	}
	var budget policyv1.PodDisruptionBudget
	require.NoError(w.t, w.client.Get(w.t.Context(), clientKey("default", name), &budget))
	if available < replicas || budget.Status.CurrentHealthy < replicas {
		return fmt.Sprintf("%d available, the budget counts %d", available, budget.Status.CurrentHealthy)
	}
	return ""
}

func (w *world) record(run *workload, labels map[string]string) {
	w.t.Helper()
	pods, err := w.client.Watch(w.t.Context(), &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels(labels))
	require.NoError(w.t, err)
	go run.keep(pods, &run.pods)
	for _, kind := range []string{"FakeMachine", "LegacyFakeMachine"} {
		version := map[string]string{"FakeMachine": "v1beta2", "LegacyFakeMachine": "v1beta1"}[kind]
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("infrastructure.cluster.x-k8s.io/" + version)
		list.SetKind(kind + "List")
		infras, err := w.client.Watch(w.t.Context(), list, client.InNamespace("default"))
		require.NoError(w.t, err)
		go run.keep(infras, &run.infras)
	}
}

func (r *workload) keep(from watch.Interface, into *[]watch.Event) {
	for e := range from.ResultChan() {
		r.mu.Lock()
		*into = append(*into, e)
		r.mu.Unlock()
	}
}

// seesTheEnd waits until the watches have told of the end of all pods that were on a Node, and of some objects of the provider. They may be
// late.
func (w *world) seesTheEnd(r *workload, node string, infras ...*unstructured.Unstructured) {
	w.t.Helper()
	w.eventually("the events of the end of "+node, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		there := map[types.UID]bool{}
		for _, e := range r.pods {
			if pod, is := e.Object.(*corev1.Pod); is && pod.Spec.NodeName == node {
				there[pod.UID] = e.Type != watch.Deleted
			}
		}
		for uid, is := range there {
			if is {
				return "no end of pod " + string(uid)
			}
		}
		for _, obj := range infras {
			if deletionAsked(r.infras, obj.GetUID()) == "0" {
				return "no deletion of " + obj.GetName()
			}
		}
		return map[bool]string{true: "no pod has been seen on it"}[len(there) == 0]
	})
}

// podsOn are the names of all pods that were ever seen on a Node.
func (r *workload) podsOn(node string) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for _, e := range r.pods {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Spec.NodeName == node {
			names[pod.Name] = true
		}
	}
	return names
}

func isAvailable(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// check replays what happened: the budget held at every moment, and the pods had left before the machine went. Resource
// versions order events of different kinds, because one etcd numbers them all.
func (r *workload) check(t *testing.T, node string, infra *unstructured.Unstructured) {
	t.Helper()
	lastLeft := r.left(t, node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked := deletionAsked(r.infras, infra.GetUID()); compare(t, lastLeft, asked) >= 0 {
		t.Errorf("the machine was deleted at resourceVersion %s, the last pod left at %s", asked, lastLeft)
	}
}

// left checks that the budget held at every moment, and returns the resourceVersion at which the last pod left a Node.
func (r *workload) left(t *testing.T, node string) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	available, settled, evicted := map[types.UID]bool{}, false, 0
	lastLeft := "0"
	for _, e := range r.pods {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("the watch ended: %v", e)
		}
		available[pod.UID] = e.Type != watch.Deleted && isAvailable(pod)
		n := 0
		for _, is := range available {
			if is {
				n++
			}
		}
		settled = settled || n == replicas
		if settled && n < minAvailable {
			t.Errorf("only %d pods were available at resourceVersion %s, the budget demands %d", n, pod.ResourceVersion, minAvailable)
		}
		if e.Type == watch.Deleted && pod.Spec.NodeName == node {
			evicted++
			lastLeft = pod.ResourceVersion
		}
	}
	if evicted == 0 {
		t.Errorf("no pod left Node %s", node)
	}
	return lastLeft
}

// deletionAsked is the resourceVersion at which the deletion of an object was asked for.
func deletionAsked(events []watch.Event, uid types.UID) string {
	for _, e := range events {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if ok && obj.GetUID() == uid && (obj.GetDeletionTimestamp() != nil || e.Type == watch.Deleted) {
			return obj.GetResourceVersion()
		}
	}
	return "0"
}

func compare(t *testing.T, a, b string) int {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	require.NoError(t, err)
	return order
}
