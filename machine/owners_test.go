package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

func ownerNames(u *unstructured.Unstructured) []string {
	names := []string{}
	for _, ref := range u.GetOwnerReferences() {
		names = append(names, ref.Kind+"/"+ref.Name)
	}
	slices.Sort(names)
	return names
}

func withOwner(refs ...metav1.OwnerReference) fake.Option {
	return func(u *unstructured.Unstructured) { u.SetOwnerReferences(append(u.GetOwnerReferences(), refs...)) }
}

// owner creates an object and returns a reference to it. The garbage collector takes what has made-up owners.
func (w *world) owner(name string) metav1.OwnerReference {
	w.t.Helper()
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	config.SetNamespace("default")
	config.SetName(name)
	w.Create(config)
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: config.GetUID()}
}

// Edge-case matrix: "owner refs". An owner that is no controller keeps nothing from being collected by itself.
func TestAStandaloneMachineIsAdoptedByItsClusterAndOthersAreNot(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true})
	cluster := w.cluster("demo")
	other := w.owner("other")
	controller := other
	controller.Controller = new(true)
	machines := map[string]*unstructured.Unstructured{
		"alone":      w.machineWith("alone", withOwner(other)),
		"of-a-set":   w.machineWith("of-a-set", fake.WithLabels(map[string]string{contract.SetNameLabel: "s"})),
		"controlled": w.machineWith("controlled", withOwner(controller)),
	}
	for _, m := range machines {
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	}
	for name, want := range map[string][]string{
		"alone": {"Cluster/demo", "ConfigMap/other"}, "of-a-set": {}, "controlled": {"ConfigMap/other"},
	} {
		fresh := w.Get(machines[name])
		require.Empty(t, cmp.Diff(want, ownerNames(fresh)), "owners of %s", name)
		require.Equal(t, "demo", fresh.GetLabels()[contract.ClusterNameLabel])
	}
	want := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "demo", UID: cluster.GetUID()}
	if refs := w.Get(machines["alone"]).GetOwnerReferences(); !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool {
		return cmp.Equal(want, r)
	}) {
		t.Errorf("the Cluster owns the Machine, without controlling it; got %+v", refs)
	}
}

// lateCache shows objects as they were when it was told to hold them, until a write that was decided on that has been refused.
type lateCache struct {
	cache.Cache
	w *world

	mu   sync.Mutex
	held map[schema.GroupVersionKind]*unstructured.Unstructured
}

// hold returns the object as it is shown from now on.
func (c *lateCache) hold(obj *unstructured.Unstructured) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[obj.GroupVersionKind()] = c.w.Get(obj)
	return obj
}

func (c *lateCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	gvk := into.GetObjectKind().GroupVersionKind()
	old := c.held[gvk]
	if u, ok := into.(*unstructured.Unstructured); ok && old != nil && client.ObjectKeyFromObject(old) == key && !c.w.refused()[gvk.Kind] {
		old.DeepCopyInto(u)
		return nil
	}
	return c.Cache.Get(ctx, key, into, o...)
}

// refused are the kinds of which a write was refused because it was decided on an old read.
func (w *world) refused() map[string]bool {
	kinds := map[string]bool{}
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.Code == http.StatusConflict {
			kinds[r.GVK.Kind] = true
		}
	}
	return kinds
}

// Defect 17 of Cluster API: a patch of a list without a lock removes an owner that another client added meanwhile.
func TestAnOwnerThatIsAddedMeanwhileIsKept(t *testing.T) {
	var first, second sync.Once
	var w *world
	var meanwhile metav1.OwnerReference
	late := &lateCache{held: map[schema.GroupVersionKind]*unstructured.Unstructured{}} // the pass that goes on does not know of the new owners
	steps := machine.Steps().InsertBefore(machine.StepFinalizer, machine.Step{
		Name: "meanwhile", On: engine.InRunning, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			if s.State.Key.Name != "m1" {
				return machine.Result{}, nil
			}
			first.Do(func() { w.Change(fake.Machine("m1"), withOwner(meanwhile)) })
			if len(s.State.Finalizers) > 0 { // from here on, this pass takes its objects on
				second.Do(func() {
					w.Change(late.hold(fake.InfraMachine(contract.V1Beta2, "m1")), withOwner(meanwhile))
					w.Change(late.hold(fake.BootstrapConfig(contract.V1Beta2, "m1")), withOwner(meanwhile))
				})
			}
			return machine.Result{}, nil
		},
	})
	w = newWorld(t, worldOptions{clusters: true, machine: machine.Options{Steps: steps}, before: func(made *world) { late.w = made },
		ports: func(_ ctrl.Manager, p *machine.Ports) { late.Cache, p.Cache = p.Cache, late }})
	w.cluster("demo")
	w.conditionIs(w.machineWith("m0"), contract.ConditionReady, contract.ReasonReady) // by now the caches are there
	keep := w.owner("already")
	meanwhile = w.owner("meanwhile")
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m1", withOwner(keep)), fake.InfraMachine(contract.V1Beta2, "m1", withOwner(keep)))
	m := fake.Machine("m1", withOwner(keep))
	w.Create(m)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.Empty(t, cmp.Diff([]string{"Cluster/demo", "ConfigMap/already", "ConfigMap/meanwhile"}, ownerNames(w.Get(m))))
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")} {
		require.Empty(t, cmp.Diff([]string{"ConfigMap/already", "ConfigMap/meanwhile", "Machine/m1"}, ownerNames(w.Get(obj))))
	}
	require.Empty(t, cmp.Diff(map[string]bool{"Machine": true, "FakeMachine": true, "FakeConfig": true}, w.refused()))
}

// ownedBefore has the objects of a Machine name it by a UID of before it was restored from a backup.
func (w *world) ownedBefore(name string) {
	w.t.Helper()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, name), fake.BootstrapConfig(contract.V1Beta2, name)} {
		w.Change(obj, func(u *unstructured.Unstructured) {
			refs := u.GetOwnerReferences()
			for i := range refs {
				refs[i].UID = "from-before"
			}
			u.SetOwnerReferences(refs)
		})
	}
}

// isOwnedNow waits until the objects of a Machine name it by its UID.
func (w *world) isOwnedNow(m *unstructured.Unstructured) {
	w.t.Helper()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, m.GetName()),
		fake.BootstrapConfig(contract.V1Beta2, m.GetName())} {
		w.Eventually(obj.GetKind()+" to be owned", func() string {
			refs := w.Get(obj).GetOwnerReferences()
			if len(refs) != 1 || refs[0].UID != m.GetUID() {
				return fmt.Sprintf("its owners are %v; conditions: %s", refs, describe(w.Get(m)))
			}
			return ""
		})
	}
}

func TestAMachineThatWasRestoredFromABackupTakesItsObjectsBack(t *testing.T) {
	w := newWorld(t, worldOptions{noCollector: true, machine: atOnce}) // the garbage collector would have taken them already
	m := w.ready("m1")
	w.ownedBefore("m1")
	w.isOwnedNow(m)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}

func TestAMachineThatWasRestoredFromABackupIsDrained(t *testing.T) {
	w := newWorld(t, worldOptions{noCollector: true, machine: atOnce})
	hook := contract.PreTerminateHook + "/look"
	m := w.ready("m1", fake.WithAnnotations(map[string]string{hook: ""}))
	w.annotate(m, map[string]any{contract.PausedAnnotation: ""})
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	w.ownedBefore("m1")
	w.Delete(m)
	w.annotate(m, map[string]any{contract.PausedAnnotation: nil})
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.True(t, w.node("m1").Spec.Unschedulable, "its Node was drained")
	w.isOwnedNow(m)
	w.annotate(m, map[string]any{hook: nil})
	w.Gone(m, fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1"))
	require.Nil(t, w.node("m1"))
}

// anHourAgo is the clock of a store whose objects are older than what another controller says of them.
type anHourAgo struct{ clock.RealClock }

func (anHourAgo) Now() time.Time { return time.Now().Add(-time.Hour) }

// handOver creates a Machine as Cluster API v1.13 leaves it in the middle of its deletion: its Node is cordoned and drained, and a pod that
// tolerates that came since. A volume is still attached.
func (w *world) handOver(m *unstructured.Unstructured) {
	w.t.Helper()
	infra, config := fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")
	m.SetFinalizers([]string{"machine.cluster.x-k8s.io"})
	w.Create(m)
	owner := *metav1.NewControllerRef(m, m.GroupVersionKind())
	for _, obj := range []client.Object{infra, config} {
		obj.SetOwnerReferences([]metav1.OwnerReference{owner})
		obj.SetLabels(map[string]string{contract.ClusterNameLabel: "demo"})
		w.Create(obj)
	}
	id := fake.ProviderID(infra)
	w.Change(infra, func(u *unstructured.Unstructured) {
		fake.WithField(id, "spec", "providerID")(u)
		fake.WithField(true, "status", "initialization", "provisioned")(u)
	})
	node := fake.Node("m1", id)
	node.Spec.Unschedulable = true
	w.Create(node, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"},
		Spec:       corev1.PodSpec{NodeName: "m1", Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
	})
	w.attach("data", "m1")
	w.Delete(m)
	before, done := time.Now().Add(-30*time.Minute).UTC().Format(time.RFC3339), time.Now().Add(-20*time.Minute).UTC().Format(time.RFC3339)
	said := func(kind, status, reason string) map[string]any {
		c := map[string]any{"type": kind, "status": status, "lastTransitionTime": done}
		if reason != "" {
			c["reason"], c["severity"] = reason, "Info"
		}
		return c
	}
	old := []any{
		said("Ready", "False", "Deleting"), said("DrainingSucceeded", "True", ""), said("PreDrainDeleteHookSucceeded", "True", ""),
		said("VolumeDetachSucceeded", "False", "WaitingForVolumeDetach"),
	}
	now := []any{map[string]any{
		"type": "Deleting", "status": "True", "reason": "WaitingForVolumeDetach", "message": "Waiting for Node volumes to be detached",
		"lastTransitionTime": before, "observedGeneration": int64(1),
	}}
	w.Change(m, func(u *unstructured.Unstructured) {
		fake.WithField(id, "spec", "providerID")(u)
		fake.WithField("m1", "spec", "bootstrap", "dataSecretName")(u)
		status := map[string]any{
			"phase": "Deleting", "nodeRef": map[string]any{"name": "m1"},
			"deletion": map[string]any{"nodeDrainStartTime": before, "waitForNodeVolumeDetachStartTime": done},
		}
		if u.GroupVersionKind().Version == "v1beta1" {
			status["nodeRef"] = map[string]any{"kind": "Node", "apiVersion": "v1", "name": "m1", "uid": string(node.UID)}
			status["bootstrapReady"], status["infrastructureReady"] = true, true
			status["conditions"], status["v1beta2"] = old, map[string]any{"conditions": now}
		} else {
			status["initialization"] = map[string]any{"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true}
			status["conditions"], status["deprecated"] = now, map[string]any{"v1beta1": map[string]any{"conditions": old}}
		}
		u.Object["status"] = status
	})
}

// providersAreDone waits for the last write of the providers: an object that changes while its deletion is requested is deleted again.
func (w *world) providersAreDone() {
	w.t.Helper()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")} {
		w.Until("write of "+obj.GetKind(), func() bool {
			return testenv.Condition(w.Get(obj), contract.ConditionReady).Status == metav1.ConditionTrue
		})
	}
}

// refersTo writes a reference as v1beta1 does.
func refersTo(gvk schema.GroupVersionKind, path ...string) fake.Option {
	return fake.WithField(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "namespace": "default", "name": "m1",
	}, path...)
}

func TestAMachineThatClusterAPIHandsOverInItsDeletionGoes(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			kind, m := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), fake.Machine("m1")
			if version == "v1beta1" {
				kind = contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion(version), contract.LayoutsOf(contract.V1Beta1).Machine)
				refersTo(fake.InfraMachineGVK(contract.V1Beta2), "spec", "infrastructureRef")(m)
				refersTo(fake.BootstrapConfigGVK(contract.V1Beta2), "spec", "bootstrap", "configRef")(m)
			}
			m.SetGroupVersionKind(kind.GVK)
			w := newWorld(t, worldOptions{
				kind: kind, store: fake.Options{Clock: anHourAgo{}}, infrastructure: fake.Infrastructure{NoNode: true},
				before:   func(w *world) { w.handOver(m) },
				provided: (*world).providersAreDone,
			})
			w.waitsForVolumes(m, "default/data")
			w.Delete(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-data"}})
			w.Gone(m)
			w.recorded(machine.EventNodeDrained, 1)
			var deleted []string
			for _, r := range w.store.Requests() {
				if r.UserAgent == userAgent && r.Verb == "delete" {
					deleted = append(deleted, r.GVK.Kind)
				}
			}
			want := []string{fake.InfraMachineGVK(contract.V1Beta2).Kind, fake.BootstrapConfigGVK(contract.V1Beta2).Kind, "Node"}
			require.True(t, slices.Equal(want, deleted))
		})
	}
}
