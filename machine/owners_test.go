package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
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
	w.create(config)
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: config.GetUID()}
}

// Edge-case matrix: "owner refs". An owner that is no controller keeps nothing from being collected by itself.
func TestAStandaloneMachineIsAdoptedByItsClusterAndOthersAreNot(t *testing.T) {
	t.Parallel()
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
		fresh := w.get(machines[name])
		if diff := cmp.Diff(want, ownerNames(fresh)); diff != "" {
			t.Errorf("owners of %s (-want +got):\n%s", name, diff)
		}
		if got := fresh.GetLabels()[contract.ClusterNameLabel]; got != "demo" {
			t.Errorf("%s has the cluster label %q", name, got)
		}
	}
	want := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "demo", UID: cluster.GetUID()}
	if refs := w.get(machines["alone"]).GetOwnerReferences(); !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool {
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
	c.held[obj.GroupVersionKind()] = c.w.get(obj)
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
	t.Parallel()
	var first, second sync.Once
	var w *world
	var meanwhile metav1.OwnerReference
	late := &lateCache{held: map[schema.GroupVersionKind]*unstructured.Unstructured{}} // the pass that goes on does not know of the new owners
	steps := machine.Steps().InsertBefore(machine.StepFinalizer, machine.Step{
		Name: "meanwhile", On: engine.InRunning, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			if s.State.Key.Name != "m1" {
				return machine.Result{}, nil
			}
			first.Do(func() { w.change(fake.Machine("m1"), withOwner(meanwhile)) })
			if len(s.State.Finalizers) > 0 { // from here on, this pass takes its objects on
				second.Do(func() {
					w.change(late.hold(fake.InfraMachine(contract.V1Beta2, "m1")), withOwner(meanwhile))
					w.change(late.hold(fake.BootstrapConfig(contract.V1Beta2, "m1")), withOwner(meanwhile))
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
	w.create(fake.BootstrapConfig(contract.V1Beta2, "m1", withOwner(keep)), fake.InfraMachine(contract.V1Beta2, "m1", withOwner(keep)))
	m := fake.Machine("m1", withOwner(keep))
	w.create(m)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	if diff := cmp.Diff([]string{"Cluster/demo", "ConfigMap/already", "ConfigMap/meanwhile"}, ownerNames(w.get(m))); diff != "" {
		t.Errorf("owners of the Machine (-want +got):\n%s", diff)
	}
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")} {
		if diff := cmp.Diff([]string{"ConfigMap/already", "ConfigMap/meanwhile", "Machine/m1"}, ownerNames(w.get(obj))); diff != "" {
			t.Errorf("owners of the %s (-want +got):\n%s", obj.GetKind(), diff)
		}
	}
	if diff := cmp.Diff(map[string]bool{"Machine": true, "FakeMachine": true, "FakeConfig": true}, w.refused()); diff != "" {
		t.Errorf("writes that were refused, or else nothing was put to the test (-want +got):\n%s", diff)
	}
}

// ownedBefore has the objects of a Machine name it by a UID of before it was restored from a backup.
func (w *world) ownedBefore(name string) {
	w.t.Helper()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, name), fake.BootstrapConfig(contract.V1Beta2, name)} {
		w.change(obj, func(u *unstructured.Unstructured) {
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
		w.eventually(obj.GetKind()+" to be owned", func() string {
			refs := w.get(obj).GetOwnerReferences()
			if len(refs) != 1 || refs[0].UID != m.GetUID() {
				return fmt.Sprintf("its owners are %v; conditions: %s", refs, describe(w.get(m)))
			}
			return ""
		})
	}
}

func TestAMachineThatWasRestoredFromABackupTakesItsObjectsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{noCollector: true, machine: atOnce}) // the garbage collector would have taken them already
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.ownedBefore("m1")
	w.isOwnedNow(m)
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}

func TestAMachineThatWasRestoredFromABackupIsDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{noCollector: true, machine: atOnce})
	hook := contract.PreTerminateHook + "/look"
	m := w.machineWith("m1", fake.WithAnnotations(map[string]string{hook: ""}))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.annotate(m, map[string]any{contract.PausedAnnotation: ""})
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	w.ownedBefore("m1")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.annotate(m, map[string]any{contract.PausedAnnotation: nil})
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	require.True(t, w.node("m1").Spec.Unschedulable, "its Node was drained")
	w.isOwnedNow(m)
	w.annotate(m, map[string]any{hook: nil})
	w.goes(m, fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1"))
	require.Nil(t, w.node("m1"))
}
