package machine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine"
)

func TestAStaleCacheCausesNoRejectedAndNoRepeatedWrite(t *testing.T) {
	w := newWorld(t, worldOptions{store: fake.Options{CacheLagFunc: func(schema.GroupKind, types.NamespacedName) time.Duration {
		return 60 * time.Millisecond
	}}})
	m := w.ready("m1")
	for _, r := range w.store.Requests() {
		require.False(t, r.UserAgent == userAgent && r.IsWrite() && r.Code >= 300 && r.GVK.Kind != "Event", "a write was rejected: %+v", r)
	}
	counts := w.writes()
	for _, once := range []string{"FakeMachine", "FakeConfig", "Node"} {
		require.Equal(t, 1, counts[once])
	}
	w.Remove(m)
}

func TestALostResponseChangesNothingInTheEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Machine", "FakeMachine", "FakeConfig", "Node"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, worldOptions{before: func(w *world) {
				w.store.LoseNext(func(r fake.Request) bool {
					return r.UserAgent == userAgent && r.Verb == "patch" && r.GVK.Kind == kind
				})
			}})
			m := w.ready("m1")
			w.store.LoseNext(func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == kind
			})
			w.Delete(m)
			w.Gone(m, fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1"))
			require.Nil(t, w.node("m1"), "the Node is still there")
		})
	}
}

func TestAWatcherSeesEveryPhaseInOrderWhenStagesTakeTime(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	// How long it takes until a kind is listed for the first time, or an object of it is read, may be worth a status, too.
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1"))
	before := w.provisioned("before", "fake://x/0")
	w.conditionIs(before, contract.ConditionInfrastructureReady, contract.ReasonReady)
	w.conditionIs(before, contract.ConditionBootstrapConfigReady, contract.ReasonNotReady)
	w.isQuiet()
	w.store.ResetRequests()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fake.MachineGVK())
	events, err := w.client.Watch(t.Context(), list, client.InNamespace("default"))
	require.NoError(t, err)
	defer events.Stop()
	m := fake.Machine("m1")
	w.Create(m)
	w.reaches(m, "Pending")
	w.setConfig("m1", dataCreated("m1"))
	w.reaches(m, "Provisioning")
	w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/1")
	w.reaches(m, "Provisioned")
	node := fake.Node("m1", "fake://x/1")
	node.Status.Conditions = conditionsOf(corev1.ConditionTrue) // or how long its kubelet takes may be worth a write
	w.Create(node)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.Empty(t, cmp.Diff([]string{"", "Pending", "Provisioning", "Provisioned", "Running"}, phasesSeen(t, events, "m1")), "phases")
	counts := w.writes()
	t.Logf("writes: %v", counts)
	total := 0
	for _, n := range counts {
		total += n
	}
	// A machine that is slow lets a status go out between two stages, and not with the second one.
	if own := counts["Machine"] + counts["Machine/status"]; own > 11 || total > own+5 {
		t.Errorf("want at most 11 writes to the Machine and 5 others, got %d and %d: %v", own, total-own, counts)
	}
}

// phasesSeen returns the phases of one Machine until it runs.
func phasesSeen(t *testing.T, events watch.Interface, name string) []string {
	t.Helper()
	var seen []string
	for {
		select {
		case e := <-events.ResultChan():
			obj, ok := e.Object.(*unstructured.Unstructured)
			require.True(t, ok, "watch ended: %v", e)
			if obj.GetName() != name {
				continue
			}
			phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
			if len(seen) == 0 || seen[len(seen)-1] != phase {
				seen = append(seen, phase)
			}
			if phase == "Running" {
				return seen
			}
		case <-time.After(testenv.Limit):
			t.Fatalf("saw only %v", seen)
		}
	}
}

func TestAMachineDeletedAtAnyMomentLeavesNothingBehind(t *testing.T) {
	delay := fake.ProviderOptions{Delay: fake.Constant(50 * time.Millisecond)}
	w := newWorld(t, worldOptions{
		infrastructure: fake.Infrastructure{ProviderOptions: delay, NodeDelay: fake.Constant(50 * time.Millisecond)},
		bootstrap:      fake.Bootstrap{ProviderOptions: delay},
	})
	var machines []*unstructured.Unstructured
	for i := range 12 {
		machines = append(machines, w.machineWith(fmt.Sprintf("m%d", i)))
	}
	moments := time.NewTicker(25 * time.Millisecond)
	defer moments.Stop()
	for _, m := range machines {
		<-moments.C
		w.Delete(m)
	}
	for i, m := range machines {
		name := fmt.Sprintf("m%d", i)
		w.Gone(m)
		w.goesIfOwned(fake.InfraMachine(contract.V1Beta2, name))
		w.goesIfOwned(fake.BootstrapConfig(contract.V1Beta2, name))
	}
}

// goesIfOwned: what the Machine never took on, because it was deleted before its finalizer was written, is still its user's.
func (w *world) goesIfOwned(obj *unstructured.Unstructured) {
	w.t.Helper()
	w.Until("deletion of "+obj.GetKind()+" "+obj.GetName(), func() bool {
		fresh := w.Get(obj)
		return fresh == nil || len(fresh.GetOwnerReferences()) == 0
	})
}

// Without a finalizer it could vanish while it is paused.
func TestAPausedMachineIsLeftAlone(t *testing.T) {
	w := newWorld(t, worldOptions{})
	paused := fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""})
	m, deleted := w.machineWith("m1", paused), w.machineWith("m2", paused)
	for _, each := range []*unstructured.Unstructured{m, deleted} {
		w.conditionIs(each, contract.ConditionPaused, contract.ReasonPaused)
		require.Equal(t, []string{contract.MachineFinalizer}, w.Get(each).GetFinalizers())
	}
	w.Delete(deleted)
	w.isQuiet()
	require.NotNil(t, w.Get(deleted), "it was deleted while it was paused")
	require.Empty(t, w.Get(fake.InfraMachine(contract.V1Beta2, "m1")).GetOwnerReferences())
	_, observed, _ := unstructured.NestedInt64(w.Get(m).Object, "status", "observedGeneration")
	require.False(t, observed)
	w.annotate(m, map[string]any{contract.PausedAnnotation: nil})
	w.annotate(deleted, map[string]any{contract.PausedAnnotation: nil})
	w.reaches(m, "Running")
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonNotPaused)
	w.Gone(deleted)
}

func TestAnObjectOfAnotherMachineIsNeitherUsedNorDeleted(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.ready("m1")
	id := w.node("m1").Spec.ProviderID
	thief := fake.Machine("m2", fake.WithField("m1", "spec", "infrastructureRef", "name"), fake.WithField(id, "spec", "providerID"))
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m2"), thief)
	w.conditionIs(thief, contract.ConditionInfrastructureReady, contract.ReasonOwnedByAnother)
	w.Remove(thief)
	if infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m1")); infra == nil || infra.GetDeletionTimestamp() != nil {
		t.Error("the other Machine's infrastructure was deleted")
	}
	if node := w.node("m1"); node == nil || node.Spec.Unschedulable || node.Annotations["cluster.x-k8s.io/machine"] != "m1" {
		t.Error("the other Machine's Node was touched")
	}
	require.Equal(t, 1, w.writes()["Node"])
}

func TestAMachineWaitsForObjectsThatAreCreatedLater(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := fake.Machine("m1")
	w.Create(m)
	w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonDoesNotExist)
	w.isQuiet()
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1"))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}
