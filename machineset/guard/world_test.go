package guard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/safety"
)

const userAgent = "guard-under-test"

func clusterAPI() guard.Kinds {
	gvk := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}.WithKind
	return guard.Kinds{
		Deployment: contract.Unstructured(gvk("MachineDeployment"), contract.MachineDeploymentV1Beta2()),
		Set:        contract.Unstructured(gvk("MachineSet"), contract.MachineSetV1Beta2()),
		Machine:    contract.Unstructured(gvk("Machine"), contract.MachineV1Beta2()),
	}
}

func gardener() guard.Kinds {
	gvk := schema.GroupVersion{Group: safety.GardenerGroup, Version: "v1alpha1"}.WithKind
	return guard.Kinds{
		Deployment: contract.Unstructured(gvk("MachineDeployment"), contract.GardenerMachineDeployment()),
		Set:        contract.Unstructured(gvk("MachineSet"), contract.GardenerMachineSet()),
		Machine:    contract.Unstructured(gvk("Machine"), contract.GardenerMachine()),
	}
}

// world is a store with sets, whose Machines the tests make themselves.
type world struct {
	*testenv.Env

	t     *testing.T
	kinds guard.Kinds
	made  int
}

func newWorld(t *testing.T, kinds guard.Kinds, options ...func(*fake.Options)) *world {
	t.Helper()
	o := fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true}, {GVK: kinds.Machine.GVK, Status: true},
		{GVK: fake.ClusterGVK(), Status: true}, {GVK: fake.MachinePoolGVK(), Status: true},
	}}
	for _, option := range options {
		option(&o)
	}
	env := testenv.Start(t, o, fake.Loops{}, nil)
	return &world{Env: env, t: t, kinds: kinds}
}

// freezer starts a Freezer.
func (w *world) freezer(o guard.FreezerOptions) (stop func()) {
	w.t.Helper()
	mgr := w.Manager(userAgent, ctrl.Options{})
	if o.Period == 0 {
		o.Period = 100 * time.Millisecond
	}
	o.Recorder = mgr.GetEventRecorder("guard")
	f, err := guard.NewFreezer(w.kinds, engine.PortsFromManager(mgr), o)
	require.NoError(w.t, err)
	require.NoError(w.t, f.AddToManager(w.t.Context(), mgr))
	return w.Run(mgr)
}

func (w *world) deployment(name string, replicas int64, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	u := testenv.Object(w.kinds.Deployment.GVK, name)
	u.Object["spec"] = map[string]any{
		"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"pool": name}}, "spec": map[string]any{}},
	}
	for _, option := range options {
		option(u)
	}
	w.Create(u)
	return u
}

// set creates a set, of a deployment where there is one.
func (w *world) set(name string, replicas int64, of *unstructured.Unstructured, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	u := testenv.Object(w.kinds.Set.GVK, name)
	u.Object["spec"] = map[string]any{
		"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"set": name}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"set": name}}, "spec": map[string]any{}},
	}
	if of != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{controlledBy(of)})
	}
	for _, option := range options {
		option(u)
	}
	w.Create(u)
	return u
}

func controlledBy(u *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: new(true),
		BlockOwnerDeletion: new(true),
	}
}

// machines creates some that a set controls, and that it selects.
func (w *world) machines(set *unstructured.Unstructured, n int, options ...fake.Option) (all []*unstructured.Unstructured) {
	w.t.Helper()
	for range n {
		w.made++
		u := testenv.Object(w.kinds.Machine.GVK, fmt.Sprintf("m-%d", w.made))
		u.SetLabels(map[string]string{"set": set.GetName()})
		u.SetOwnerReferences([]metav1.OwnerReference{controlledBy(set)})
		u.Object["spec"] = map[string]any{}
		for _, option := range options {
			option(u)
		}
		w.Create(u)
		all = append(all, u)
	}
	return all
}

func (w *world) delete(all []*unstructured.Unstructured) {
	w.t.Helper()
	for _, u := range all {
		require.NoError(w.t, w.Client.Delete(w.t.Context(), u))
	}
}

// frozen waits until objects have the label and the condition, and thawed until they have neither.
func (w *world) frozen(reason string, all ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, u := range all {
		w.Eventually(u.GetName()+" to freeze", func() string {
			now := w.Get(u)
			if now.GetLabels()[safety.FreezeLabel] != "True" || w.condition(now).Reason != reason {
				return fmt.Sprint(now.GetLabels(), now.GetAnnotations(), now.Object["status"])
			}
			return ""
		})
	}
}

func (w *world) thawed(all ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, u := range all {
		w.Eventually(u.GetName()+" to thaw", func() string {
			now := w.Get(u)
			if len(now.GetLabels()) > 0 || len(now.GetAnnotations()) > 0 || w.condition(now).Reason != "" {
				return fmt.Sprint(now.GetLabels(), now.GetAnnotations(), now.Object["status"])
			}
			return ""
		})
	}
}

func (w *world) condition(u *unstructured.Unstructured) metav1.Condition {
	w.t.Helper()
	var conditions []metav1.Condition
	if u.GetKind() == w.kinds.Set.GVK.Kind {
		var s contract.MachineSetState
		require.NoError(w.t, w.kinds.Set.Adapter.Read(u, &s))
		conditions = s.Conditions
	} else {
		var d contract.MachineDeploymentState
		require.NoError(w.t, w.kinds.Deployment.Adapter.Read(u, &d))
		conditions = d.Conditions
	}
	c, _ := engine.Find(conditions, safety.ConditionFrozen)
	return c
}

// isAtWork waits until a Freezer has seen all that was written to sets before: it freezes a set that is new.
func (w *world) isAtWork() {
	w.t.Helper()
	canary := w.set(fmt.Sprintf("canary-%d", w.made), 1, nil)
	w.machines(canary, 6)
	w.frozen(safety.ReasonOverShooting, canary)
}

// stays waits until a Freezer has looked at an object a few times more, and wants it to have no label.
func (w *world) stays(u *unstructured.Unstructured) {
	w.t.Helper()
	w.Never(u.GetName()+" freezes", 400*time.Millisecond, func() string {
		if _, found := w.Get(u).GetLabels()[safety.FreezeLabel]; found {
			return fmt.Sprint(w.condition(w.Get(u)).Message)
		}
		return ""
	})
}
