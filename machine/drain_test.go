package machine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
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
	w.Create(deployment("web", replicas), budget("web", minAvailable))
	w.Eventually("pods to be ready", func() string {
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
	w := newWorld(t, worldOptions{})
	machines := w.running([]string{"m1", "m2"}, 4, 3)
	w.Delete(machines[0])
	infra := fake.InfraMachine(contract.V1Beta2, "m1")
	w.Eventually("deletion", func() string {
		if n := len(w.readyPods("web")); n < 3 {
			t.Fatalf("only %d pods are ready: the budget was violated", n)
		}
		found := w.Get(infra) // before the pods are counted: they may all leave between two reads
		gone := found == nil || found.GetDeletionTimestamp() != nil
		left := 0
		for _, pod := range w.readyPods("web") {
			if pod.Spec.NodeName == "m1" {
				left++
			}
		}
		require.False(t, gone && left > 0, "the infrastructure went while %d pods were on the Node", left)
		if m := w.Get(machines[0]); m != nil {
			return "it is still there: " + describe(m)
		}
		return ""
	})
	require.False(t, len(w.readyPods("web")) == 0 || w.node("m1") != nil || w.node("m2") == nil, "the wrong things are gone")
	w.recorded(machine.EventNodeDrained, 1)
}

func TestABudgetThatNeverOpensIsNamedAndTheDrainGoesOnWhenItIsMended(t *testing.T) {
	w := newWorld(t, worldOptions{})
	machines := w.running([]string{"m1", "m2"}, 4, 4)
	w.Delete(machines[0])
	w.Until("the budget to be named", func() bool {
		c := conditionOf(w.Get(machines[0]), contract.ConditionDeleting)
		return c.Reason == contract.ReasonDrainingNode && strings.Contains(c.Message, "web") && strings.Contains(c.Message, "budget")
	})
	w.isQuiet() // the other Pods are asked for once, too
	var pdb policyv1.PodDisruptionBudget
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &pdb))
	pdb.Spec.MinAvailable = new(intstr.FromInt(3))
	require.NoError(t, w.client.Update(t.Context(), &pdb))
	w.Gone(machines[0])
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
			m := w.ready("m1", option)
			w.Create(deployment("late", 4), budget("late", 4))
			w.Until("pods", func() bool { return len(w.readyPods("late")) == 4 })
			w.Remove(m)
		})
	}
}

func TestHooksHoldADeletionUntilTheyAreRemoved(t *testing.T) {
	w := newWorld(t, worldOptions{})
	before, after := contract.PreDrainHook+"/backup", contract.PreTerminateHook+"/etcd"
	m := w.ready("m1", fake.WithAnnotations(map[string]string{before: "", after: ""}))
	w.Delete(m)
	for _, hook := range []struct{ reason, key string }{
		{machine.ReasonWaitingForPreDrainHook, before}, {machine.ReasonWaitingForPreTerminateHook, after},
	} {
		if message := w.conditionIs(m, contract.ConditionDeleting, hook.reason); !strings.Contains(message, hook.key) {
			t.Errorf("the hook %s is not named: %s", hook.key, message)
		}
		require.Nil(t, w.Get(fake.InfraMachine(contract.V1Beta2, "m1")).GetDeletionTimestamp())
		fresh := w.Get(m)
		base := fresh.DeepCopy()
		annotations := fresh.GetAnnotations()
		delete(annotations, hook.key)
		fresh.SetAnnotations(annotations)
		require.NoError(t, w.client.Patch(t.Context(), fresh, client.MergeFrom(base)))
	}
	w.Gone(m)
}

func TestBudgetsThatMayNotBeListedHoldADrainAndNothingElse(t *testing.T) {
	kind := policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget").GroupKind()
	var allow func()
	w := newWorld(t, worldOptions{before: func(w *world) {
		allow = w.store.Inject(fake.Fault{Times: -1, Match: fake.Match("", kind, ""), Err: apierrors.NewForbidden(
			schema.GroupResource{Group: kind.Group, Resource: "poddisruptionbudgets"}, "", errors.New("no such right"))})
	}})
	m := w.ready("m1")
	require.Zero(t, w.store.CountRequests(fake.Match("list", kind, "")), "nothing is drained")
	require.NoError(t, w.client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "m1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}))
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDrainingNode, "waiting for the list of PodDisruptionBudgets", "no such right")
	allow()
	w.Gone(m)
}

// asked is a Drainer that remembers what it was asked for, and answers what it is told to.
type asked struct {
	mu      sync.Mutex
	answer  runner.Result
	drains  []runner.Request
	volumes []runner.Request
}

func (a *asked) Step(_ context.Context, r runner.Request) (runner.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drains = append(a.drains, r)
	return a.answer, nil
}

func (a *asked) StepVolumes(_ context.Context, r runner.Request, _ time.Duration) (runner.VolumesResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.volumes = append(a.volumes, r)
	return runner.VolumesResult{Done: true}, nil
}

func (a *asked) Release(string) {}

// deletedBy has a Machine deleted by way of a, with a step that says something before the drain.
func deletedBy(t *testing.T, a *asked, says func(*machine.Scope)) *world {
	t.Helper()
	steps := machine.Steps().InsertBefore(machine.StepDrain, machine.Step{
		Name: "ask-the-provider", On: engine.InDeletion,
		Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			says(s)
			return machine.Result{}, nil
		},
	})
	o := worldOptions{machine: machine.Options{
		Options: engine.Options{StatusDelay: -1}, Steps: steps,
	}, ports: func(mgr ctrl.Manager, p *machine.Ports) {
		p.Workload.Drainer, p.Workload.Volumes = a, a
	}}
	w := newWorld(t, o)
	m := w.ready("m")
	w.Remove(m)
	return w
}

func TestADrainGetsItsPolicyAndWhatTheProviderReportsOfTheMachine(t *testing.T) {
	t.Parallel()
	type seen struct{ Drains, Volumes, Off bool }
	for name, tc := range map[string]struct {
		says func(*machine.Scope)
		want seen
	}{
		"nothing":   {func(*machine.Scope) {}, seen{Drains: true, Volumes: true}},
		"it is off": {func(s *machine.Scope) { s.PoweredOff = true }, seen{Drains: true, Volumes: true, Off: true}},
		"gone":      {func(s *machine.Scope) { s.InstanceGone = true }, seen{}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &asked{answer: runner.Result{Done: true}}
			deletedBy(t, a, tc.says)
			a.mu.Lock()
			defer a.mu.Unlock()
			got := seen{Drains: len(a.drains) > 0, Volumes: len(a.volumes) > 0}
			for _, r := range a.drains {
				got.Off = r.PoweredOff
				require.Empty(t, cmp.Diff(drain.DefaultPolicy(), r.Policy), "policy")
			}
			for _, r := range a.volumes {
				require.Equal(t, got.Off, r.PoweredOff)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestANodeThatOthersUncordonIsAnEvent(t *testing.T) {
	a := &asked{answer: runner.Result{Done: true, Event: &drain.Blocker{Message: "the Node was made schedulable again"}}}
	w := deletedBy(t, a, func(*machine.Scope) {})
	require.Contains(t, w.recorded(machine.EventNodeUncordoned, 1)[0].Note, "made schedulable again")
}

func TestADrainPolicyThatIsWrongIsReportedAtOnce(t *testing.T) {
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	_, err := machine.New(kind, machine.Ports{},
		machine.Options{Policy: machine.Policy{DrainPolicy: &drain.Policy{GracePeriod: new(int64(0))}}})
	require.ErrorContains(t, err, "drain policy: GracePeriod must be at least 1")
}
