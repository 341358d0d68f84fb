package describe

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// scene has a deployment with one set, a Machine that runs, and one whose drain a budget holds.
type scene struct {
	t     *testing.T
	store *fake.Store
	r     Reader
}

func newScene(t *testing.T) *scene {
	t.Helper()
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true}, {GVK: kinds.Machine.GVK, Status: true},
	}})
	s := &scene{t: t, store: store, r: Reader{Client: store.Client(), Kind: kinds.Machine, Now: time.Now()}}
	status := map[string]any{"replicas": int64(2), "availableReplicas": int64(1), "upToDateReplicas": int64(2)}
	d := s.object(kinds.Deployment.GVK, "workers", nil, map[string]any{"replicas": int64(2)}, status)
	set := s.object(kinds.Set.GVK, "workers-1", d, map[string]any{"replicas": int64(2)}, status)
	for _, name := range []string{"a", "b"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}, Spec: corev1.NodeSpec{Unschedulable: name == "b"},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		require.NoError(t, store.Client().Create(t.Context(), node))
		phase, kind, reason, message := "Running", "Available", "Available", ""
		if name == "b" {
			phase, kind, reason, message = "Deleting", "Deleting", "DrainingNode", "Drain not completed yet"
		}
		s.object(kinds.Machine.GVK, "workers-1-"+name, set, map[string]any{"clusterName": "demo"}, map[string]any{
			"phase": phase, "nodeRef": map[string]any{"name": node.Name},
			"conditions": []any{map[string]any{"type": kind, "status": "True", "reason": reason, "message": message,
				"lastTransitionTime": "2026-01-01T00:00:00Z"}},
		})
	}
	s.object(kinds.Machine.GVK, "of-others", nil, map[string]any{"clusterName": "demo"}, map[string]any{"phase": "Running"})
	labels := map[string]string{"app": "web"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-b", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("100%")),
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	for _, obj := range []client.Object{pod, budget} {
		require.NoError(t, store.Client().Create(t.Context(), obj))
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, DesiredHealthy: 1, CurrentHealthy: 1, ObservedGeneration: 1}
	for _, obj := range []client.Object{pod, budget} {
		require.NoError(t, store.Client().Status().Update(t.Context(), obj))
	}
	return s
}

func (s *scene) object(
	gvk schema.GroupVersionKind, name string, owner client.Object, spec, status map[string]any,
) *unstructured.Unstructured {
	s.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace("default")
	u.SetName(name)
	u.SetFinalizers([]string{"example.com/held"})
	if owner != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: gvk.GroupVersion().String(), Name: owner.GetName(), UID: owner.GetUID(),
			Kind: owner.GetObjectKind().GroupVersionKind().Kind, Controller: new(true)}})
	}
	require.NoError(s.t, s.store.Client().Create(s.t.Context(), u))
	u.Object["status"] = status
	require.NoError(s.t, s.store.Client().Status().Update(s.t.Context(), u))
	if status["phase"] == "Deleting" {
		require.NoError(s.t, s.store.Client().Delete(s.t.Context(), u))
	}
	return u
}

func TestADescriptionSaysWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	key := types.NamespacedName{Namespace: "default", Name: "workers-1-b"}
	m, err := s.r.Machine(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "MachineSet/workers-1", m.Owner)
	require.Equal(t, []string{"default/web"}, m.Holds[0].Budgets)
	var out bytes.Buffer
	require.NoError(t, m.Print(&out, s.r.Now))
	for _, want := range []string{"Node:", "node-b (Ready, cordoned)", "Waits for:", "Deleting DrainingNode", "Drain not completed yet",
		"Do: make room for the Pods", "default/web-0", "raise maxUnavailable, lower minAvailable or add replicas", "Conditions:"} {
		require.Contains(t, out.String(), want)
	}
	m, err = s.r.Machine(t.Context(), types.NamespacedName{Namespace: "default", Name: "workers-1-a"})
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, m.Print(&out, s.r.Now))
	require.Contains(t, out.String(), "It waits for nothing.")
}

// Unknown is not absent: a Node that cannot be read does not look like one that is gone.
func TestWhatCannotBeReadIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	key := types.NamespacedName{Namespace: "default", Name: "workers-1-b"}
	refused := errors.New("the line is down")
	s.store.FailNext(func(r fake.Request) bool { return r.GVK.Kind == "Node" }, refused)
	m, err := s.r.Machine(t.Context(), key)
	require.NoError(t, err)
	require.Contains(t, m.Node.Problem, "cannot be read: ")
	s.store.FailNext(func(r fake.Request) bool { return r.GVK.Kind == "PodDisruptionBudget" }, refused)
	m, err = s.r.Machine(t.Context(), key)
	require.NoError(t, err)
	require.Contains(t, m.Node.Problem, "its Pods cannot be read: ")
	require.Empty(t, m.Holds)
	s.store.FailNext(func(r fake.Request) bool { return r.GVK.Kind == "Event" }, refused)
	m, err = s.r.Machine(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "EventsUnread", m.Events[0].Reason)
	require.NoError(t, s.store.Client().Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}))
	m, err = s.r.Machine(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "does not exist", m.Node.Problem)
	_, err = s.r.Machine(t.Context(), types.NamespacedName{Namespace: "default", Name: "nope"})
	require.ErrorContains(t, err, "get machine default/nope")
}

func TestADescriptionHasTheNewestEvents(t *testing.T) {
	t.Parallel()
	var events []corev1.Event
	for i := range 20 {
		events = append(events, corev1.Event{Reason: "R", Message: strings.Repeat("x", 20-i),
			LastTimestamp: metav1.NewTime(noon.Add(time.Duration(20-i) * time.Minute))})
	}
	got := newest(events)
	require.Len(t, got, eventsShown)
	require.Equal(t, noon.Add(13*time.Minute), got[0].Time)
	require.Equal(t, noon.Add(20*time.Minute), got[7].Time)
}
