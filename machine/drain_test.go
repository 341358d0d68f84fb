package machine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
			},
		},
	}
}

func budget(name string, minAvailable int) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt(minAvailable)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}
}

// running creates Machines and waits for them, then a Deployment behind a budget, and waits for its pods.
func (w *world) running(names []string, replicas int32, minAvailable int) []*unstructured.Unstructured {
	w.t.Helper()
	machines := make([]*unstructured.Unstructured, 0, len(names))
	for _, name := range names {
		machines = append(machines, w.machineWith(name))
	}
	for _, m := range machines {
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	}
	w.create(deployment("web", replicas), budget("web", minAvailable))
	w.eventually("pods to be ready", func() string {
		if n := len(w.readyPods("web")); n != int(replicas) {
			return "not all are ready"
		}
		var pdb policyv1.PodDisruptionBudget
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &pdb))
		if int(pdb.Status.CurrentHealthy) != int(replicas) {
			return "the budget has not counted them"
		}
		return ""
	})
	return machines
}

func (w *world) readyPods(app string) []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	require.NoError(w.t, w.client.List(w.t.Context(), &list, client.MatchingLabels{"app": app}))
	var ready []corev1.Pod
	for _, pod := range list.Items {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready = append(ready, pod)
			}
		}
	}
	return ready
}

func TestADrainWaitsForTheBudgetAndTheMachineForTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	machines := w.running([]string{"m1", "m2"}, 4, 3)
	require.NoError(t, w.client.Delete(t.Context(), machines[0]))
	infra := fake.InfraMachine(contract.V1Beta2, "m1")
	w.eventually("deletion", func() string {
		if n := len(w.readyPods("web")); n < 3 {
			t.Fatalf("only %d pods are ready: the budget was violated", n)
		}
		found := w.get(infra) // before the pods are counted: they may all leave between two reads
		gone := found == nil || found.GetDeletionTimestamp() != nil
		left := 0
		for _, pod := range w.readyPods("web") {
			if pod.Spec.NodeName == "m1" {
				left++
			}
		}
		if gone && left > 0 {
			t.Fatalf("the infrastructure went while %d pods were on the Node", left)
		}
		if m := w.get(machines[0]); m != nil {
			return "it is still there: " + describe(m)
		}
		return ""
	})
	if len(w.readyPods("web")) == 0 || w.node("m1") != nil || w.node("m2") == nil {
		t.Error("the wrong things are gone")
	}
	w.recorded(machine.EventNodeDrained, 1)
}

func TestABudgetThatNeverOpensIsNamedAndTheDrainGoesOnWhenItIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	machines := w.running([]string{"m1", "m2"}, 4, 4)
	require.NoError(t, w.client.Delete(t.Context(), machines[0]))
	w.eventually("the budget to be named", func() string {
		c := conditionOf(w.get(machines[0]), contract.ConditionDeleting)
		if c.Reason != contract.ReasonDrainingNode || !strings.Contains(c.Message, "web") || !strings.Contains(c.Message, "budget") {
			return c.Reason + ": " + c.Message
		}
		return ""
	})
	w.isQuiet() // the other Pods are asked for once, too
	var pdb policyv1.PodDisruptionBudget
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &pdb))
	pdb.Spec.MinAvailable = new(intstr.FromInt(3))
	require.NoError(t, w.client.Update(t.Context(), &pdb))
	w.goes(machines[0])
}

func TestADrainThatIsExcludedOrOutOfTimeIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]fake.Option{
		"excluded":    fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""}),
		"out of time": fake.WithField(int64(1), "spec", "deletion", "nodeDrainTimeoutSeconds"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			w.running([]string{"m2"}, 2, 2)
			m := w.machineWith("m1", option)
			w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
			w.create(deployment("late", 4), budget("late", 4))
			w.eventually("pods", func() string {
				if len(w.readyPods("late")) != 4 {
					return "not all are ready"
				}
				return ""
			})
			require.NoError(t, w.client.Delete(t.Context(), m))
			w.goes(m)
		})
	}
}

func TestHooksHoldADeletionUntilTheyAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	before, after := contract.PreDrainHook+"/backup", contract.PreTerminateHook+"/etcd"
	m := w.machineWith("m1", fake.WithAnnotations(map[string]string{before: "", after: ""}))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.NoError(t, w.client.Delete(t.Context(), m))
	for _, hook := range []struct{ reason, key string }{
		{machine.ReasonWaitingForPreDrainHook, before}, {machine.ReasonWaitingForPreTerminateHook, after},
	} {
		if message := w.conditionIs(m, contract.ConditionDeleting, hook.reason); !strings.Contains(message, hook.key) {
			t.Errorf("the hook %s is not named: %s", hook.key, message)
		}
		if w.get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp() != nil {
			t.Error("the infrastructure was deleted before the hooks were done")
		}
		fresh := w.get(m)
		base := fresh.DeepCopy()
		annotations := fresh.GetAnnotations()
		delete(annotations, hook.key)
		fresh.SetAnnotations(annotations)
		require.NoError(t, w.client.Patch(t.Context(), fresh, client.MergeFrom(base)))
	}
	w.goes(m)
}
