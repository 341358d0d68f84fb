package machinepool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machinepool"
)

func noEvents(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// guardedPod is a pod on a Node, with a budget that never lets it go.
func guardedPod(node string) []client.Object { return guardedPodNamed("app", node) }

func guardedPodNamed(name, node string) []client.Object {
	labels := map[string]string{"app": name}
	none := intstr.FromInt32(0)
	return []client.Object{
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		},
	}
}

// guarded creates a pod that a budget never lets go, and waits until it runs: no budget guards one that is pending.
func (w *world) guarded(node string) {
	w.t.Helper()
	w.create(guardedPod(node)...)
	w.eventually("the pod runs", func() string {
		var pod corev1.Pod
		require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "app"}, &pod))
		if pod.Status.Phase != corev1.PodRunning {
			return "it does not"
		}
		return ""
	})
}

func (w *world) machines() []unstructured.Unstructured {
	w.t.Helper()
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(fake.MachineGVK().GroupVersion().WithKind("MachineList"))
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	return list.Items
}

// lead has a Machine say what its own controller would.
func (w *world) lead(m *unstructured.Unstructured, conditions ...metav1.Condition) {
	w.t.Helper()
	w.change(m, func(u *unstructured.Unstructured) {
		list := []any{}
		for _, c := range conditions {
			list = append(list, map[string]any{
				"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
			})
		}
		set(list, "status", "conditions")(u)
	})
}

func is(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Because"}
}

func TestEachInstanceWithAnInfraMachineGetsAMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(3, fake.WithField(map[string]any{"labels": map[string]any{"team": "a"}}, "spec", "template", "metadata"))
	w.eventually("three Machines", func() string {
		if n := len(w.machines()); n != 3 {
			return "there are others"
		}
		return ""
	})
	owner := w.get(pool).GetUID()
	for _, m := range w.machines() {
		ref := metav1.GetControllerOf(&m)
		if ref == nil || ref.UID != owner || m.GetLabels()[contract.PoolNameLabel] != "pool" || m.GetLabels()["team"] != "a" {
			t.Errorf("Machine %s: owners %v, labels %v", m.GetName(), m.GetOwnerReferences(), m.GetLabels())
		}
		name, _, _ := unstructured.NestedString(m.Object, "spec", "infrastructureRef", "name")
		secret, found, _ := unstructured.NestedString(m.Object, "spec", "bootstrap", "dataSecretName")
		if name != m.GetName() || secret != "" || !found {
			t.Errorf("Machine %s: %v", m.GetName(), m.Object["spec"])
		}
		w.lead(&m, is("Ready", "True"), is("Available", "True"))
	}
	w.reports(pool, "Running", 3, 3)
	if n := w.writes()["patch Node"]; n != 0 {
		t.Errorf("whoever leads the Machines writes their Nodes, got %d writes", n)
	}
	one := w.machines()[0]
	w.lead(&one, is("Ready", "False"))
	w.reports(pool, "Running", 2, 2)
	w.change(pool, set("b", "spec", "template", "metadata", "labels", "team"))
	w.eventually("the label reaches the Machines", func() string {
		for _, m := range w.machines() {
			if m.GetLabels()["team"] != "b" {
				return m.GetName() + " does not have it"
			}
		}
		return ""
	})
}

func TestAMachineThatCannotBeReadIsNotOverlooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.eventually("a Machine", func() string {
		if n := len(w.machines()); n != 1 {
			return "there is none"
		}
		return ""
	})
	odd := w.machines()[0]
	w.change(&odd, func(u *unstructured.Unstructured) {
		u.SetFinalizers([]string{"test.machinist.dev/hook"})
		set("nonsense", "spec", "infrastructureRef")(u)
	})
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, "Deleting", "WaitingForMachineDeletion")
	w.isQuiet()
	if w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetDeletionTimestamp() != nil {
		t.Error("its instance goes without it")
	}
	w.change(&odd, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.goes(pool)
}

func TestMachinesAreMadeAtTheSameTimeFromSeedsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}, kinds: func(kinds *machinepool.Kinds) {
		inner := kinds.NewMachine
		kinds.NewMachine = func(pool *contract.MachinePoolState, seed contract.MachineSeed) (contract.Object, error) {
			seed.Labels["made-as-"+seed.Key.Name] = ""
			return inner(pool, seed)
		}
	}})
	w.poolWith(8)
	w.eventually("eight Machines", func() string {
		if n := len(w.machines()); n != 8 {
			return "there are others"
		}
		return ""
	})
	for _, m := range w.machines() {
		if labels := m.GetLabels(); len(labels) != 3 {
			t.Errorf("Machine %s has what others were given: %v", m.GetName(), labels)
		}
	}
}

func TestAKindOfInfraMachinesThatIsNotServedHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.create(fake.Node("n", "p://1"))
	pool, infra := w.poolWith(1), fake.InfraMachinePool(contract.V1Beta2, "pool")
	w.change(infra, func(u *unstructured.Unstructured) {
		set([]any{"p://1"}, "spec", "providerIDList")(u)
		set(int64(1), "status", "replicas")(u)
		set("NoSuchMachine", "status", "infrastructureMachineKind")(u)
		set(true, "status", "initialization", "provisioned")(u)
	})
	if message := w.conditionIs(pool, contract.ConditionInfrastructureReady, external.ReasonVersionNotServed); !strings.Contains(message,
		"NoSuchMachine") {
		t.Errorf("the condition must name the kind: %s", message)
	}
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool, infra)
}

func TestWhoeverLeadsMachinesDoesSoWhileTheInfrastructureIsUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.eventually("a Machine", func() string {
		if n := len(w.machines()); n != 1 {
			return "there is none"
		}
		return ""
	})
	m := w.machines()[0]
	w.lead(&m, is("Ready", "False"))
	w.reports(pool, "Running", 0, 0)
	w.isQuiet()
	crd := fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2)
	w.change(crd, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	w.conditionIs(pool, contract.ConditionInfrastructureReady, external.ReasonContractLabelMissing)
	w.settles()
	w.reports(pool, "Running", 0, 0)
	if n := w.writes()["patch Node"]; n != 0 {
		t.Errorf("the Nodes of Machines are written: %d times", n)
	}
}

func TestAMachineGoesWithItsInfraMachineAndByItsUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	w.poolWith(2)
	w.eventually("two Machines", func() string {
		if n := len(w.machines()); n != 2 {
			return "there are others"
		}
		return ""
	})
	require.NoError(t, w.client.Delete(t.Context(), fake.InfraMachine(contract.V1Beta2, "pool-0")))
	w.eventually("its Machine goes", func() string {
		if n := len(w.machines()); n != 1 {
			return "it does not"
		}
		return ""
	})
	if name := w.machines()[0].GetName(); name != "pool-1" {
		t.Errorf("the wrong Machine went, %s is left", name)
	}
}

func TestAnUnhealthyMachineIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	w.poolWith(2)
	w.eventually("two Machines", func() string {
		if n := len(w.machines()); n != 2 {
			return "there are others"
		}
		return ""
	})
	for _, m := range w.machines() {
		w.change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"test.machinist.dev/lead"}) })
		w.lead(&m, is("HealthCheckSucceeded", "False"), is("OwnerRemediated", "False"))
	}
	going := func() (names []string) {
		for _, m := range w.machines() {
			if m.GetDeletionTimestamp() != nil {
				names = append(names, m.GetName())
			}
		}
		return names
	}
	w.eventually("one of them goes", func() string {
		if len(going()) != 1 {
			return "none does"
		}
		return ""
	})
	w.isQuiet()
	if names := going(); len(names) != 1 {
		t.Errorf("one at a time, got %v", names)
	}
	for _, m := range w.machines() {
		w.change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	}
}

func TestThePoolsMachinesGoBeforeItsInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(2)
	w.eventually("two Machines", func() string {
		if n := len(w.machines()); n != 2 {
			return "there are others"
		}
		return ""
	})
	held := w.machines()[0]
	w.change(&held, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"test.machinist.dev/hook"}) })
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.conditionIs(pool, "Deleting", "WaitingForMachineDeletion")
	w.isQuiet()
	if w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetDeletionTimestamp() != nil {
		t.Error("a hook of one Machine holds up what is behind the pool")
	}
	w.change(&held, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
}

func TestMachinesOfAPoolAreUpToDateWhenTheirKubeletsAre(t *testing.T) {
	t.Parallel()
	old := func(name, providerID string) *corev1.Node {
		node := fake.Node(name, providerID)
		node.Status.NodeInfo.KubeletVersion = "v1.35.2"
		return node
	}
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true, Node: old}})
	pool := w.poolWith(1, set("v1.36.0", "spec", "template", "spec", "version"))
	m := fake.Machine("pool-0")
	w.eventually("a Machine", func() string {
		return map[bool]string{true: "there is none"}[w.get(m) == nil]
	})
	w.change(m, set(map[string]any{"name": "pool-0"}, "status", "nodeRef")) // package machine does
	w.conditionIs(pool, contract.ConditionMachinesUpToDate, contract.ReasonNotUpToDate)
	node := &w.nodes()[0]
	changed := node.DeepCopy()
	changed.Status.NodeInfo.KubeletVersion = "v1.36.0"
	require.NoError(t, w.client.Status().Patch(t.Context(), changed, client.MergeFrom(node)))
	w.conditionIs(pool, contract.ConditionMachinesUpToDate, contract.ReasonUpToDate)
}

func TestAnInstanceOfAnotherOwnerUnderTheNameOfAnInfraMachineIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	foreign := fake.Machine("pool-2")
	w.create(foreign)
	pool := w.poolWith(3)
	w.eventually("the other Machines", func() string {
		if n := len(w.machines()); n != 3 {
			return fmt.Sprint(n, " are there")
		}
		return ""
	})
	for _, m := range w.machines() {
		if m.GetName() != foreign.GetName() {
			w.lead(&m, is("Ready", "True"), is("Available", "True"))
		}
	}
	w.eventually("it is reported", func() string {
		message := conditionOf(w.get(pool), contract.ConditionMachinesReady).Message
		if !strings.Contains(message, "* Without a Machine: create Machine default/pool-2: it exists and is not one of MachinePool pool: ") {
			return message
		}
		return ""
	})
	require.NoError(t, w.client.Delete(t.Context(), foreign))
	w.eventually("a Machine of its own", func() string {
		if m := w.get(foreign); m == nil || metav1.GetControllerOf(m) == nil {
			return "there is none"
		}
		return ""
	})
}
