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
	t.Parallel()
	w := newWorld(t, worldOptions{store: fake.Options{CacheLagFunc: func(schema.GroupKind, types.NamespacedName) time.Duration {
		return 60 * time.Millisecond
	}}})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.IsWrite() && r.Code >= 300 && r.GVK.Kind != "Event" { // two of a kind at once, the recorder tries again
			t.Errorf("a write was rejected: %+v", r)
		}
	}
	counts := w.writes()
	for _, once := range []string{"FakeMachine", "FakeConfig", "Node"} {
		if counts[once] != 1 {
			t.Errorf("want one write to the %s, got %d", once, counts[once])
		}
	}
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
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
			m := w.machineWith("m1")
			w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
			w.store.LoseNext(func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == kind
			})
			require.NoError(t, w.client.Delete(t.Context(), m))
			w.goes(m, fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1"))
			if w.node("m1") != nil {
				t.Error("the Node is still there")
			}
		})
	}
}

func TestAWatcherSeesEveryPhaseInOrderWhenStagesTakeTime(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, machine.Options{})
	// How long it takes until a kind is listed for the first time, or an object of it is read, may be worth a status, too.
	w.create(fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1"))
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
	w.create(m)
	w.reaches(m, "Pending")
	w.setConfig("m1", dataCreated("m1"))
	w.reaches(m, "Provisioning")
	w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/1")
	w.reaches(m, "Provisioned")
	node := fake.Node("m1", "fake://x/1")
	node.Status.Conditions = conditionsOf(corev1.ConditionTrue) // or how long its kubelet takes may be worth a write
	w.create(node)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	if diff := cmp.Diff([]string{"", "Pending", "Provisioning", "Provisioned", "Running"}, phasesSeen(t, events, "m1")); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
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
			if !ok {
				t.Fatalf("watch ended: %v", e)
			}
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
		require.NoError(t, w.client.Delete(t.Context(), m))
	}
	for i, m := range machines {
		name := fmt.Sprintf("m%d", i)
		w.goes(m)
		w.goesIfOwned(fake.InfraMachine(contract.V1Beta2, name))
		w.goesIfOwned(fake.BootstrapConfig(contract.V1Beta2, name))
	}
}

// goesIfOwned: what the Machine never took on, because it was deleted before its finalizer was written, is still its user's.
func (w *world) goesIfOwned(obj *unstructured.Unstructured) {
	w.t.Helper()
	w.eventually("deletion of "+obj.GetKind()+" "+obj.GetName(), func() string {
		if fresh := w.get(obj); fresh != nil && len(fresh.GetOwnerReferences()) > 0 {
			return "it is owned and still there"
		}
		return ""
	})
}

func TestAPausedMachineIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1", fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""}))
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	if diff := cmp.Diff([]string{contract.MachineFinalizer}, w.get(m).GetFinalizers()); diff != "" {
		t.Errorf("without a finalizer it could vanish while it is paused (-want +got):\n%s", diff)
	}
	if infra := w.get(fake.InfraMachine(contract.V1Beta2, "m1")); len(infra.GetOwnerReferences()) > 0 {
		t.Error("a paused Machine took its infrastructure on")
	}
	if generation, found, _ := unstructured.NestedInt64(w.get(m).Object, "status", "observedGeneration"); found {
		t.Errorf("a paused Machine was not looked at, and says that generation %d was", generation)
	}
	fresh := w.get(m)
	base := fresh.DeepCopy()
	fresh.SetAnnotations(nil)
	require.NoError(t, w.client.Patch(t.Context(), fresh, client.MergeFrom(base)))
	w.reaches(m, "Running")
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonNotPaused)
}

func TestAMachineThatWasPausedFromBirthDoesNotVanish(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1", fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""}))
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.isQuiet()
	fresh := w.get(m)
	require.NotNil(t, fresh, "it was deleted while it was paused")
	base := fresh.DeepCopy()
	fresh.SetAnnotations(nil)
	require.NoError(t, w.client.Patch(t.Context(), fresh, client.MergeFrom(base)))
	w.goes(m)
}

func TestAnObjectOfAnotherMachineIsNeitherUsedNorDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	owner := w.machineWith("m1")
	w.conditionIs(owner, contract.ConditionReady, contract.ReasonReady)
	id := w.node("m1").Spec.ProviderID
	thief := fake.Machine("m2", fake.WithField("m1", "spec", "infrastructureRef", "name"), fake.WithField(id, "spec", "providerID"))
	w.create(fake.BootstrapConfig(contract.V1Beta2, "m2"), thief)
	w.conditionIs(thief, contract.ConditionInfrastructureReady, contract.ReasonOwnedByAnother)
	require.NoError(t, w.client.Delete(t.Context(), thief))
	w.goes(thief)
	if infra := w.get(fake.InfraMachine(contract.V1Beta2, "m1")); infra == nil || infra.GetDeletionTimestamp() != nil {
		t.Error("the other Machine's infrastructure was deleted")
	}
	if node := w.node("m1"); node == nil || node.Spec.Unschedulable || node.Annotations["cluster.x-k8s.io/machine"] != "m1" {
		t.Error("the other Machine's Node was touched")
	}
	if n := w.writes()["Node"]; n != 1 {
		t.Errorf("want the one write of the Machine that owns the Node, got %d", n)
	}
}

func TestAMachineWaitsForObjectsThatAreCreatedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := fake.Machine("m1")
	w.create(m)
	w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonDoesNotExist)
	w.isQuiet()
	w.create(fake.BootstrapConfig(contract.V1Beta2, "m1"), fake.InfraMachine(contract.V1Beta2, "m1"))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}
