package machinepool_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func TestAPoolRunsAndItsNodesGetOnePatchEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Disorder: 7}})
	pool := w.poolWith(5,
		fake.WithField(map[string]any{
			"labels":      map[string]any{"node.cluster.x-k8s.io/team": "a", "private": "b"},
			"annotations": map[string]any{"node.cluster.x-k8s.io/note": "c"},
		}, "spec", "template", "metadata"),
		fake.WithField([]any{map[string]any{"key": "gpu", "value": "yes", "effect": "NoSchedule", "propagation": "Always"}}, "spec", "template",
			"spec", "taints"))
	w.reports(pool, "Running", 5, 5)
	for _, node := range w.nodes() {
		want := map[string]string{
			propagate.ClusterNameAnnotation: "demo", propagate.ClusterNamespaceAnnotation: "default",
			propagate.OwnerKindAnnotation: "MachinePool", propagate.OwnerNameAnnotation: "pool", "node.cluster.x-k8s.io/note": "c",
		}
		for key, value := range want {
			if node.Annotations[key] != value {
				t.Errorf("Node %s: annotation %s is %q, want %q", node.Name, key, node.Annotations[key], value)
			}
		}
		if _, private := node.Labels["private"]; private || node.Labels["node.cluster.x-k8s.io/team"] != "a" {
			t.Errorf("Node %s: labels %v", node.Name, node.Labels)
		}
		// which others take away
		taints := slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		if len(taints) != 1 || taints[0].Key != "gpu" {
			t.Errorf("Node %s: taints %v", node.Name, node.Spec.Taints)
		}
	}
	accepted := w.store.CountRequests(func(r fake.Request) bool { // a Node that has changed meanwhile is patched again
		return r.UserAgent == userAgent && fake.Match("patch", schema.GroupKind{Kind: "Node"}, "")(r) && r.Code == http.StatusOK
	})
	require.Equal(t, 5, accepted, "5 Nodes joined, with one PATCH each")
	w.isQuiet()
	w.store.ResetRequests()
	w.change(fake.InfraMachinePool(contract.V1Beta2, "pool"), func(u *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "providerIDList")
		slices.Reverse(list)
		require.NoError(t, unstructured.SetNestedStringSlice(u.Object, append(list, list[0]), "spec", "providerIDList"))
	})
	w.isQuiet()
	if got := w.writes(); len(got) > 0 {
		t.Errorf("the same instances in another order are no news, got %v", got)
	}
	fresh := w.get(pool)
	if refs, _, _ := unstructured.NestedSlice(fresh.Object, "status", "nodeRefs"); len(refs) != 5 {
		t.Errorf("want 5 references, got %v", refs)
	}
	for _, kind := range []string{"Available", "BootstrapConfigReady", "InfrastructureReady", "MachinesReady", "MachinesUpToDate"} {
		if c := conditionOf(fresh, kind); c.Status != metav1.ConditionTrue {
			t.Errorf("want %s, got %s", kind, describe(fresh))
		}
	}
}

func TestAPoolOwnsWhatItRefersToAndIsItsClusters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, clusters: true})
	cluster := fake.Cluster("demo")
	status := cluster.Object["status"]
	w.create(cluster)
	w.change(cluster, func(u *unstructured.Unstructured) { u.Object["status"] = status })
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	fresh := w.get(pool)
	if refs := fresh.GetOwnerReferences(); len(refs) != 1 || refs[0].UID != w.get(cluster).GetUID() {
		t.Errorf("the pool: got owners %v", refs)
	}
	for _, obj := range []*unstructured.Unstructured{fake.BootstrapConfig(contract.V1Beta2, "pool"),
		fake.InfraMachinePool(contract.V1Beta2, "pool")} {
		owned := w.get(obj)
		if ref := metav1.GetControllerOf(owned); ref == nil || ref.UID != fresh.GetUID() ||
			owned.GetLabels()[contract.ClusterNameLabel] != "demo" {
			t.Errorf("%s: got owners %v, labels %v", owned.GetKind(), owned.GetOwnerReferences(), owned.GetLabels())
		}
	}
	w.change(cluster, set(true, "spec", "paused"))
	w.conditionIs(pool, contract.ConditionPaused, contract.ReasonPaused)
	w.change(pool, set(int64(3), "spec", "replicas"))
	w.change(cluster, set(false, "spec", "paused"))
	w.reports(pool, "Running", 3, 3)
}

func TestANodeThatGoesNotReadyLowersTheCountersWithinOneEvent(t *testing.T) {
	t.Parallel()
	// Cluster API looks at no Node any more once all replicas were ready, and says that all instances are ready in any case.
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(3)
	w.reports(pool, "Running", 3, 3)
	w.isQuiet()
	w.store.ResetRequests()
	w.setReady("pool-1", corev1.ConditionFalse)
	w.reports(pool, "ScalingUp", 2, 2)
	if got := w.writes(); got["patch MachinePool/status"] != 1 || len(got) != 1 {
		t.Errorf("one event is one write, got %v", got)
	}
	if message := w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonNotReady); !strings.Contains(message, "pool-1") {
		t.Errorf("the condition must name the Node: %s", message)
	}
	w.setReady("pool-1", corev1.ConditionTrue)
	w.reports(pool, "Running", 3, 3)
}

func TestANodeBecomesAvailableByItselfAfterMinReadySeconds(t *testing.T) {
	t.Parallel()
	// Cluster API counts once, when the Node is ready but too young, and never again.
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, pool: machinepool.Options{
		Options: pass.Options{Clock: clock, StatusDelay: -1},
	}})
	pool := w.poolWith(1, fake.WithField(int64(1), "spec", "template", "spec", "minReadySeconds"))
	w.reports(pool, "Running", 1, 0)
	clock.SetTime(time.Now().Add(time.Minute))
	w.reports(pool, "Running", 1, 1)
}

func TestANodeThatWasReplacedUnderItsNameIsRecordedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	old := w.nodes()[0]
	require.NoError(t, w.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: old.Name}}))
	w.reports(pool, "ScalingUp", 0, 0)
	w.create(fake.Node(old.Name, old.Spec.ProviderID))
	w.reports(pool, "Running", 1, 1)
	refs, _, _ := unstructured.NestedSlice(w.get(pool).Object, "status", "nodeRefs")
	if ref, _ := refs[0].(map[string]any); len(refs) != 1 || ref["uid"] == string(old.UID) {
		t.Errorf("got %v", refs)
	}
}

func TestAFailureComesAndGoesWithTheProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	failure := func(field string) string {
		text, _, _ := unstructured.NestedString(w.get(pool).Object, "status", "deprecated", "v1beta1", field)
		return text
	}
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachinePool(contract.V1Beta2, "pool"),
		fake.BootstrapConfig(contract.V1Beta2, "pool")} {
		w.change(obj, func(u *unstructured.Unstructured) {
			set("CreateError", "status", "failureReason")(u)
			set("no quota", "status", "failureMessage")(u)
		})
		w.reports(pool, "Failed", 1, 1)
		require.Equal(t, "CreateError", failure("failureReason"), "of the %s", obj.GetKind())
		require.Equal(t, "Failure detected from referenced resource "+obj.GetAPIVersion()+", Kind="+obj.GetKind()+` with name "pool": no quota`,
			failure("failureMessage"))
		w.change(obj, func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "status", "failureReason")
			unstructured.RemoveNestedField(u.Object, "status", "failureMessage")
		})
		w.reports(pool, "Running", 1, 1)
		require.Empty(t, failure("failureReason")+failure("failureMessage"), "the failure is over")
	}
}

func TestReplicasThatAreManagedElsewhereAreNeverWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2, fake.WithAnnotations(map[string]string{"cluster.x-k8s.io/replicas-managed-by": "autoscaler"}))
	w.reports(pool, "Running", 2, 2)
	w.setReady("pool-0", corev1.ConditionFalse)
	w.reports(pool, "Scaling", 1, 1)
	w.setReady("pool-0", corev1.ConditionTrue)
	w.change(pool, set(int64(4), "spec", "replicas"))
	w.reports(pool, "Running", 4, 4)
	if n, _, _ := unstructured.NestedInt64(w.get(pool).Object, "spec", "replicas"); n != 4 {
		t.Errorf("two writers fight about replicas: %d", n)
	}
}

func TestInstancesThatLeaveAreDrainedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{RequestDrain: true}})
	pool := w.poolWith(3)
	w.reports(pool, "Running", 3, 3)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: "pool-0", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	w.create(pod)
	w.store.ResetRequests()
	w.change(pool, set(int64(1), "spec", "replicas"))
	w.reports(pool, "Running", 1, 1)
	w.eventually("the Nodes go", func() string {
		if n := len(w.nodes()); n != 1 {
			return "there are still several"
		}
		return ""
	})
	evicted := slices.ContainsFunc(w.store.Requests(), func(r fake.Request) bool { return r.Subresource == "eviction" && r.Name == "app" })
	if !evicted {
		t.Error("the pod was not evicted")
	}
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind != "Node" {
			t.Errorf("nothing but Nodes may be deleted, got %+v", r)
		}
	}
}

func TestANodeThatIsMarkedIsDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pool-0"}}
	require.NoError(t, w.client.Patch(t.Context(), node, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":""}}}`))))
	w.eventually("the drain", func() string {
		for _, node := range w.nodes() {
			if node.Name == "pool-0" && node.Spec.Unschedulable && node.Annotations[contract.DrainedAnnotation] == string(node.UID) {
				return ""
			}
		}
		return "the Node does not say that it was drained"
	})
}

func TestAPoolThatIsDeletedTakesItsNodesAlong(t *testing.T) {
	t.Parallel()
	// Cluster API leaves those alone whose IDs are listed, which are all, and has no time left for them anyway.
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(3)
	w.reports(pool, "Running", 3, 3)
	w.create(fake.Node("stranger", "fake://of-no-pool"))
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"), fake.BootstrapConfig(contract.V1Beta2, "pool"))
	if nodes := w.nodes(); len(nodes) != 1 || nodes[0].Name != "stranger" {
		t.Errorf("want the stranger alone, got %d Nodes", len(nodes))
	}
}

func TestTheUsersOwnDataSecretIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := fake.MachinePool("pool", 1, fake.WithField(map[string]any{"dataSecretName": "mine"}, "spec", "template", "spec", "bootstrap"))
	w.create(fake.InfraMachinePool(contract.V1Beta2, "pool"), pool)
	w.reports(pool, "Running", 1, 1)
	name, _, _ := unstructured.NestedString(w.get(pool).Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
	if diff := cmp.Diff("mine", name); diff != "" {
		t.Error(diff)
	}
}

func TestTheUsersOwnDataSecretIsLeftAloneAlsoBesideAConfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1, set("mine", "spec", "template", "spec", "bootstrap", "dataSecretName"))
	w.reports(pool, "Running", 1, 1)
	w.isQuiet()
	name, _, _ := unstructured.NestedString(w.get(pool).Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
	require.Equal(t, "mine", name)
}

func TestASecretThatTheConfigNamesAnewIsNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(1)
	w.reports(pool, "Running", 1, 1)
	secret := func() string {
		name, _, _ := unstructured.NestedString(w.get(pool).Object, "spec", "template", "spec", "bootstrap", "dataSecretName")
		return name
	}
	require.Equal(t, "pool", secret(), "the template names none")
	w.change(fake.BootstrapConfig(contract.V1Beta2, "pool"), set("rotated", "status", "dataSecretName"))
	w.isQuiet()
	require.Equal(t, "pool", secret())
}

func TestAnInstanceThatTwoPoolsNameStaysWithTheOneThatHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.create(fake.Node("n", "p://1"))
	named := func(name string) *unstructured.Unstructured {
		pool := fake.MachinePool(name, 1, fake.WithField(map[string]any{"dataSecretName": "mine"}, "spec", "template", "spec", "bootstrap"))
		infra := fake.InfraMachinePool(contract.V1Beta2, name)
		w.create(infra, pool)
		w.change(infra, func(u *unstructured.Unstructured) {
			set([]any{"p://1"}, "spec", "providerIDList")(u)
			set(int64(1), "status", "replicas")(u)
			set(true, "status", "initialization", "provisioned")(u)
		})
		return pool
	}
	first := named("first")
	w.reports(first, "Running", 1, 1)
	second := named("second")
	w.conditionIs(second, contract.ConditionMachinesReady, contract.ReasonNodeClaimed)
	w.reports(first, "Running", 1, 1)
	require.NoError(t, w.client.Delete(t.Context(), second))
	w.goes(second)
	if n := len(w.nodes()); n != 1 {
		t.Error("the Node of another pool was deleted")
	}
	w.reports(first, "Running", 1, 1)
}

func TestAPoolWhoseClusterIsChangedActsOnNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}})
	pool := w.poolWith(2)
	w.reports(pool, "Running", 2, 2)
	w.change(pool, set("other", "spec", "clusterName"))
	require.Contains(t, w.conditionIs(pool, contract.ConditionPaused, contract.ReasonClusterChanged),
		`MachinePool default/pool has the Cluster "other" and had "demo": the name of a Cluster cannot be changed: change it back`)
	require.Len(t, w.nodes(), 2)
	require.Equal(t, "demo", w.get(pool).GetLabels()[contract.ClusterNameLabel])
	w.change(pool, set("demo", "spec", "clusterName"))
	w.conditionIs(pool, contract.ConditionPaused, contract.ReasonNotPaused)
	w.reports(pool, "Running", 2, 2)
}
