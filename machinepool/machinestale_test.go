package machinepool_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machinepool"
)

// hasMachines waits until there are so many Machines.
func (w *world) hasMachines(n int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d Machines", n), func() string {
		if have := len(w.machines()); have != n {
			return fmt.Sprintf("there are %d", have)
		}
		return ""
	})
}

// isSeen waits until a pass has seen a pool as it is now.
func (w *world) isSeen(pool *unstructured.Unstructured) {
	w.t.Helper()
	w.eventually("the pool was looked at", func() string {
		fresh := w.get(pool)
		if seen, _, _ := unstructured.NestedInt64(fresh.Object, "status", "observedGeneration"); seen != fresh.GetGeneration() {
			return "it was not"
		}
		return ""
	})
}

// quietMachine returns a pool of one instance at rest, and its Machine.
func quietMachine(t *testing.T) (*world, unstructured.Unstructured) {
	t.Helper()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	w.poolWith(1)
	w.hasMachines(1)
	w.isQuiet()
	return w, w.machines()[0]
}

func TestAMachineThatLostTheLabelOfItsPoolGetsItBack(t *testing.T) {
	t.Parallel()
	w, m := quietMachine(t)
	w.change(&m, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	w.eventually("the label", func() string {
		return map[bool]string{true: "there is none"}[w.get(&m).GetLabels()[contract.PoolNameLabel] != "pool"]
	})
}

func TestAMachineThatLostTheLabelOfItsPoolGoesWithItsInstance(t *testing.T) {
	t.Parallel()
	w, m := quietMachine(t)
	w.restart(func() {
		w.change(&m, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
		require.NoError(t, w.client.Delete(t.Context(), fake.InfraMachine(contract.V1Beta2, "pool-0")))
	})
	w.eventually("the Machine goes", func() string { return map[bool]string{true: "it does not"}[w.get(&m) != nil] })
}

func TestAnInfraMachineThatLostItsLabelsIsNotLookedForAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.hasMachines(1)
	w.isQuiet()
	w.change(fake.InfraMachine(contract.V1Beta2, "pool-0"), func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	for _, label := range []string{"a", "b"} { // passes that see that
		w.change(pool, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, label, "spec", "template", "metadata", "labels", "node.cluster.x-k8s.io/some")
		})
		w.isSeen(pool)
	}
	if n := w.store.CountRequests(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "get" && r.GVK.Kind == "FakeMachine"
	}); n > 0 {
		t.Errorf("the API server was asked %d times for what the cache has", n)
	}
	w.hasMachines(1)
}

// The first list of a process may be older than what the one before it has seen, and a Machine without its labels is in no list.
func TestAMachineOfAnotherWithTheLabelOfThePoolIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.hasMachines(1)
	owner := fake.BootstrapConfig(contract.V1Beta2, "other") // whatever its kind
	w.create(owner)
	theirs, nobodys := fake.Machine("theirs"), fake.Machine("nobodys")
	theirs.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true),
	}})
	for _, m := range []*unstructured.Unstructured{theirs, nobodys} {
		m.SetLabels(map[string]string{contract.PoolNameLabel: "pool", contract.ClusterNameLabel: "demo"})
		w.create(m)
	}
	w.change(pool, fake.WithAnnotations(map[string]string{"look": "again"}))
	w.isSeen(pool)
	w.isQuiet()
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool)
	for _, m := range []*unstructured.Unstructured{theirs, nobodys} {
		require.NotNil(t, w.get(m), m.GetName())
	}
}

func TestAMachineThatNoCacheShowsGoesBeforeTheInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.hasMachines(1)
	held := w.machines()[0]
	w.restart(func() {
		w.change(&held, func(u *unstructured.Unstructured) {
			u.SetLabels(nil)
			u.SetFinalizers([]string{"test.machinist.dev/hook"})
		})
		require.NoError(t, w.client.Delete(t.Context(), pool))
	})
	w.eventually("the Machine is on its way out", func() string {
		return map[bool]string{true: "it is not"}[w.get(&held).GetDeletionTimestamp() == nil]
	})
	w.conditionIs(pool, "Deleting", machinepool.ReasonWaitingForMachineDeletion)
	if infra := w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")); infra == nil || infra.GetDeletionTimestamp() != nil {
		t.Error("the instances go before it was drained")
	}
	w.change(&held, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
}

// The instances cannot be looked at, so that nothing says whether Machines stand for them.
func TestNodesAreNotDrainedBehindTheBackOfAMachineThatNoCacheShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.hasMachines(1)
	held := w.machines()[0]
	crd := fake.CRD(fake.InfraMachinePoolGVK(contract.V1Beta2), contract.V1Beta2)
	labels := crd.GetLabels()
	w.restart(func() {
		w.change(&held, func(u *unstructured.Unstructured) {
			u.SetLabels(nil)
			u.SetFinalizers([]string{"test.machinist.dev/hook"})
		})
		w.change(crd, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
		require.NoError(t, w.client.Delete(t.Context(), pool))
	})
	w.eventually("the Machine is on its way out", func() string {
		return map[bool]string{true: "it is not"}[w.get(&held).GetDeletionTimestamp() == nil]
	})
	w.conditionIs(pool, "Deleting", machinepool.ReasonWaitingForMachineDeletion)
	for _, node := range w.nodes() {
		if node.Spec.Unschedulable {
			t.Errorf("Node %s is drained before the hooks of its Machine were waited for", node.Name)
		}
	}
	w.change(&held, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.change(crd, func(u *unstructured.Unstructured) { u.SetLabels(labels) })
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
}

// recovery has something happen right before the first Machine is deleted.
type recovery struct {
	client.Client
	meanwhile func()
}

func (r recovery) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if obj.GetObjectKind().GroupVersionKind().Kind == "Machine" {
		r.meanwhile()
	}
	return r.Client.Delete(ctx, obj, opts...)
}

func TestAMachineThatRecoveredIsNotReplacedOnAnOldRead(t *testing.T) {
	t.Parallel()
	var w *world
	recovers := sync.OnceFunc(func() {
		w.lead(&w.machines()[0], is("HealthCheckSucceeded", "True"), is("OwnerRemediated", "True"))
	})
	w = newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}, ports: func(_ ctrl.Manager, ports *machinepool.Ports) {
		ports.Client = recovery{ports.Client, recovers}
	}})
	w.poolWith(1)
	w.hasMachines(1)
	m := w.machines()[0]
	w.lead(&m, is("HealthCheckSucceeded", "False"), is("OwnerRemediated", "False"))
	w.eventually("it recovers", func() string {
		fresh := w.get(&m)
		if fresh == nil {
			return "it is gone"
		}
		return map[bool]string{true: "not yet"}[conditionOf(fresh, "HealthCheckSucceeded").Status != metav1.ConditionTrue]
	})
	w.isQuiet()
	if fresh := w.get(&m); fresh == nil || fresh.GetUID() != m.GetUID() || fresh.GetDeletionTimestamp() != nil {
		t.Error("it was deleted")
	}
}

func TestMachinesThatNameThePoolFromBeforeARestoreAreAdoptedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}, noGarbage: true}) // or it would have taken them
	pool := w.poolWith(2)
	w.eventually("two Machines", func() string {
		return map[bool]string{false: "there are others"}[len(w.machines()) == 2]
	})
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}
	w.restart(func() {
		for _, m := range w.machines() {
			w.change(&m, func(u *unstructured.Unstructured) {
				dead := *metav1.GetControllerOf(u)
				dead.UID = "of-the-old-cluster"
				u.SetOwnerReferences([]metav1.OwnerReference{dead, other})
			})
		}
		w.store.ResetRequests()
	})
	w.eventually("the Machines are the pool's", func() string {
		for _, m := range w.machines() {
			owners := m.GetOwnerReferences()
			if len(owners) != 2 || owners[0].UID != w.get(pool).GetUID() || owners[1].UID != other.UID {
				return fmt.Sprint(owners)
			}
		}
		return ""
	})
	w.settles()
	require.Len(t, w.machines(), 2)
	require.Zero(t, w.writes()["create Machine"])
	require.Zero(t, w.writes()["delete Machine"])
	require.NotEqual(t, contract.ReasonInternalError, conditionOf(w.get(pool), contract.ConditionMachinesReady).Reason)
}

// Velero restores objects without their owner references.
func TestMachinesWithoutOwnersAfterARestoreAreAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(2)
	w.hasMachines(2)
	nobodys := fake.Machine("nobodys") // stands for no instance of the pool
	w.restart(func() {
		for _, m := range w.machines() {
			w.change(&m, func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })
		}
		nobodys.SetLabels(w.machines()[0].GetLabels())
		w.create(nobodys)
		w.store.ResetRequests()
	})
	owned := func(m *unstructured.Unstructured) string {
		return map[bool]string{false: m.GetName() + " is not the pool's"}[metav1.IsControlledBy(w.get(m), pool)]
	}
	for _, name := range []string{"pool-0", "pool-1"} {
		w.eventually("it is the pool's", func() string { return owned(fake.Machine(name)) })
	}
	w.isQuiet()
	w.change(fake.Machine("pool-0"), func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }) // its event wakes the pool
	w.eventually("it is the pool's again", func() string { return owned(fake.Machine("pool-0")) })
	require.Zero(t, w.writes()["create Machine"])
	require.Zero(t, w.writes()["delete Machine"])
	require.Empty(t, w.get(nobodys).GetOwnerReferences())
}

func TestDeletionOfAMachineWithoutAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{Machines: true}})
	pool := w.poolWith(1)
	w.hasMachines(1)
	held := w.machines()[0]
	restored := func() {
		w.change(&held, func(u *unstructured.Unstructured) {
			u.SetOwnerReferences(nil)
			u.SetFinalizers([]string{"test.machinist.dev/hook"})
		})
		require.NoError(t, w.client.Delete(t.Context(), pool))
	}
	for _, meanwhile := range []func(){restored, func() {}} {
		w.restart(meanwhile)
		w.eventually("the Machine is on its way out", func() string {
			return map[bool]string{true: "it is not"}[w.get(&held).GetDeletionTimestamp() == nil]
		})
		w.conditionIs(pool, "Deleting", machinepool.ReasonWaitingForMachineDeletion)
		w.settles()
		infra := w.get(fake.InfraMachinePool(contract.V1Beta2, "pool"))
		require.True(t, infra != nil && infra.GetDeletionTimestamp() == nil, "the instances go before it was drained")
	}
	require.Empty(t, w.get(&held).GetOwnerReferences(), "nothing that is being deleted is adopted")
	w.change(&held, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.goes(pool, fake.InfraMachinePool(contract.V1Beta2, "pool"))
}

// Its instance left before it got a Machine, or its Machine left it because two Machines had the ID.
func TestANodeWithoutAMachineGoesAfterItsInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool := w.poolWith(2)
	infra := fake.InfraMachinePool(contract.V1Beta2, "pool")
	lists := func(ids ...any) {
		w.change(infra, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, ids, "spec", "providerIDList")
			_ = unstructured.SetNestedMap(u.Object, map[string]any{
				"replicas": int64(len(ids)), "ready": true, "infrastructureMachineKind": "FakeMachine",
				"initialization": map[string]any{"provisioned": true},
			}, "status")
		})
	}
	w.create(fake.Node("stays", "fake:///1"), fake.Node("leaves", "fake:///2"), fake.Node("machine", "fake:///3"))
	w.create(fake.InfraMachine(contract.V1Beta2, "represented", fake.WithField("fake:///3", "spec", "providerID"),
		func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{contract.PoolNameLabel: "pool", contract.ClusterNameLabel: "demo"})
		}))
	lists("fake:///1", "fake:///2", "fake:///3")
	w.eventually("all Nodes are recorded", func() string {
		refs, _, _ := unstructured.NestedSlice(w.get(pool).Object, "status", "nodeRefs")
		return map[bool]string{true: fmt.Sprint(refs)}[len(refs) != 3]
	})
	lists("fake:///1")
	w.eventually("the Node without a Machine is drained, and goes", func() string {
		return map[bool]string{true: "there are three"}[len(w.nodes()) == 3]
	})
	w.recorded(machinepool.EventNodeDrained, "Normal success draining Node leaves")
	for _, name := range []string{"stays", "machine"} {
		w.setReady(name, corev1.ConditionUnknown)
	}
	w.settles()
	var left []string
	for _, node := range w.nodes() {
		left = append(left, node.Name)
	}
	require.ElementsMatch(t, []string{"stays", "machine"}, left)
}
