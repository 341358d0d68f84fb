package machine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

// passes are what passes saw of the Clusters of their Machines.
type passes struct {
	mu    sync.Mutex
	count int
	last  map[string]external.ClusterView
}

// watching inserts a step that writes down what a pass sees, at its very beginning.
func watching(t *testing.T, p *passes) engine.Steps[*machine.Scope] {
	t.Helper()
	p.last = map[string]external.ClusterView{}
	steps := machine.Steps().InsertBefore(machine.StepFinalizer, machine.Step{
		Name: "watch", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.count++
			p.last[s.State.Key.Name] = s.Cluster
			return machine.Result{}, nil
		},
	})
	return steps
}

func (p *passes) of(m *unstructured.Unstructured) external.ClusterView {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[m.GetName()]
}

func (p *passes) total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func setPaused(paused bool) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { fake.WithField(paused, "spec", "paused")(u) }
}

func TestAMachineOfAPausedClusterIsLeftAloneUntilTheClusterGoesOn(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true})
	cluster := w.cluster("demo", fake.WithField(true, "spec", "paused"))
	m := w.machineWith("m1")
	require.Equal(t, "Cluster spec.paused is set to true", w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused))
	require.Empty(t, cmp.Diff([]string{contract.MachineFinalizer}, w.Get(m).GetFinalizers()))
	if infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m1")); len(infra.GetOwnerReferences()) > 0 {
		t.Error("a Machine of a paused Cluster took its infrastructure on")
	}
	w.isQuiet()
	w.Change(cluster, setPaused(false))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonNotPaused)
}

// Edge-case matrix: "Cluster paused during deletion".
func TestADeletionIsFrozenWhileTheClusterIsPaused(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true})
	cluster := w.cluster("demo")
	m := w.ready("m1", fake.WithAnnotations(map[string]string{"pre-terminate.delete.hook.machine.cluster.x-k8s.io/keep": "me"}))
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	w.Change(cluster, setPaused(true))
	w.conditionIs(m, contract.ConditionPaused, contract.ReasonPaused)
	w.Change(m, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/keep")
	})
	w.isQuiet()
	fresh := w.Get(m)
	require.NotNil(t, fresh, "its Cluster is paused")
	require.Equal(t, machine.ReasonWaitingForPreTerminateHook, conditionOf(fresh, contract.ConditionDeleting).Reason)
	if infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m1")); infra == nil || infra.GetDeletionTimestamp() != nil {
		t.Error("the infrastructure was deleted while the Cluster is paused")
	}
	w.Change(cluster, setPaused(false))
	w.Gone(m, fake.InfraMachine(contract.V1Beta2, "m1"))
}

// Defect 13 of Cluster API: a Machine whose Cluster is gone is an error for ever, and cannot be deleted.
func TestAMachineWithoutItsClusterSaysSoDoesNothingAndCanBeDeleted(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true})
	m := w.machineWith("m1")
	if got := w.conditionIs(m, contract.ConditionPaused,
		contract.ReasonClusterDoesNotExist); got != "Cluster default/demo does not exist: create it, or delete the Machine" {
		t.Errorf("message: %q", got)
	}
	require.Equal(t, metav1.ConditionUnknown, conditionOf(w.Get(m), contract.ConditionPaused).Status, "nothing is known")
	w.Until("an event", func() bool { return len(w.Events(contract.ReasonClusterDoesNotExist)) == 1 })
	w.isQuiet()
	if infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m1")); len(infra.GetOwnerReferences()) > 0 {
		t.Error("a Machine without its Cluster took its infrastructure on")
	}
	w.cluster("demo")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)

	lost := w.machineWith("m2", fake.WithField("nowhere", "spec", "clusterName"))
	w.conditionIs(lost, contract.ConditionPaused, contract.ReasonClusterDoesNotExist)
	w.Remove(lost)
}

func TestAClusterThatCannotBeReadIsNotReportedAsAbsent(t *testing.T) {
	var mend func()
	w := newWorld(t, worldOptions{clusters: true, before: func(w *world) {
		mend = w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.GVK == fake.ClusterGVK() && r.Verb == "get"
		}})
	}})
	m := w.machineWith("m1")
	w.Eventually("an attempt to ask", func() string {
		for _, r := range w.store.Requests() {
			if r.UserAgent == userAgent && r.GVK == fake.ClusterGVK() && r.Verb == "get" {
				return ""
			}
		}
		return "there was none"
	})
	w.Until("the finalizer", func() bool { return len(w.Get(m).GetFinalizers()) > 0 })
	if c := conditionOf(w.Get(m), contract.ConditionPaused); c.Type != "" {
		t.Errorf("nothing is known, and the Machine says %s", c.Message)
	}
	w.Delete(m)
	w.isQuietFor("a Cluster that was not read may be paused", 300*time.Millisecond)
	require.NotNil(t, w.Get(m))
	mend()
	w.Gone(m)
}

func TestUntilClustersAreListedAMachineTouchesNothingAndChangesNoCondition(t *testing.T) {
	var mend func()
	w := newWorld(t, worldOptions{clusters: true, before: func(w *world) {
		mend = w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.GVK == fake.ClusterGVK() && (r.Verb == "list" || r.Verb == "watch")
		}})
		w.cluster("demo")
	}})
	m := w.machineWith("m1")
	w.Until("the finalizer", func() bool { return len(w.Get(m).GetFinalizers()) > 0 })
	w.isQuietFor("a Cluster that was not read may be paused", 400*time.Millisecond)
	require.Empty(t, describe(w.Get(m)))
	mend()
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}

func TestMachinesSleepThroughWhatDoesNotConcernThemInTheirCluster(t *testing.T) {
	var seen passes
	w := newWorld(t, worldOptions{clusters: true, machine: machine.Options{Steps: watching(t, &seen)}})
	cluster := w.cluster("demo")
	m := w.ready("m1")
	w.Still("passes that were asked for when something was not listed yet", external.UnsyncedRetry+5*time.Second, seen.total)
	before := seen.total()
	for i := range int64(5) {
		w.Change(cluster, func(u *unstructured.Unstructured) {
			fake.WithField(i, "status", "workers", "readyReplicas")(u)
			u.SetAnnotations(map[string]string{"example.com/seen": time.Now().String()})
		})
	}
	w.isQuiet()
	require.Equal(t, before, seen.total())
	w.Change(cluster, fake.WithField(map[string]any{"apiGroup": "g.example.com", "kind": "K", "name": "cp"}, "spec", "controlPlaneRef"))
	w.Until("a pass about the new control plane", func() bool { return seen.of(m).State.ControlPlane.Name == "cp" })
}

func controlPlaneGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "FakeControlPlane"}
}

func controlPlane(name string) *unstructured.Unstructured {
	u := testenv.Object(controlPlaneGVK(), name)
	return u
}

func withControlPlane() fake.Option {
	return fake.WithField(map[string]any{"apiGroup": controlPlaneGVK().Group, "kind": controlPlaneGVK().Kind, "name": "cp"}, "spec",
		"controlPlaneRef")
}

// Edge-case matrix: "control plane object missing", the view of it.
func TestAMachineInDeletionSeesTheControlPlaneOfItsClusterAndWakesWithIt(t *testing.T) {
	var seen passes
	w := newWorld(t, worldOptions{clusters: true, machine: machine.Options{Steps: watching(t, &seen)}, before: func(w *world) {
		w.Create(fake.CRD(controlPlaneGVK(), contract.V1Beta2))
	}})
	w.cluster("demo", withControlPlane())
	hook := fake.WithAnnotations(map[string]string{"pre-terminate.delete.hook.machine.cluster.x-k8s.io/keep": "me"})
	member := fake.WithLabels(map[string]string{contract.ControlPlaneLabel: ""})
	m, first, second := w.machineWith("m1", hook), w.machineWith("cp1", member), w.machineWith("cp2", member)
	for _, each := range []*unstructured.Unstructured{m, first, second} {
		w.conditionIs(each, contract.ConditionReady, contract.ReasonReady)
	}
	if got := seen.of(m); got.ActiveControlPlaneMachines.Found() || got.ControlPlane.Presence != external.NotReferenced {
		t.Errorf("a Machine that is not being deleted looked at the control plane: %+v", got)
	}
	w.Delete(m)
	sees := func(what string, check func(external.ClusterView) bool) {
		w.Until(what, func() bool { return check(seen.of(m)) })
	}
	sees("that the control plane object is missing, and two Machines", func(v external.ClusterView) bool {
		return v.ControlPlane.Presence == external.Absent && v.ActiveControlPlaneMachines == contract.Some(2)
	})
	w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForPreTerminateHook)
	w.isQuiet() // from here on nothing else wakes it
	plane := controlPlane("cp")
	w.Create(plane)
	sees("a control plane", func(v external.ClusterView) bool {
		return v.ControlPlane.Presence == external.Present && !v.ControlPlaneState.ExternalManagedControlPlane
	})
	w.Change(plane, fake.WithField(true, "status", "externalManagedControlPlane"))
	sees("that it is managed elsewhere", func(v external.ClusterView) bool { return v.ControlPlaneState.ExternalManagedControlPlane })
	w.Change(plane, fake.WithField("yes", "status", "externalManagedControlPlane"))
	sees("what cannot be read as unread", func(v external.ClusterView) bool {
		return v.ControlPlane.Presence == external.Unread && v.ControlPlane.Problem.Reason == external.ReasonContractViolation &&
			!v.ControlPlaneState.ExternalManagedControlPlane
	})
	w.Delete(first)
	sees("one Machine less", func(v external.ClusterView) bool { return v.ActiveControlPlaneMachines == contract.Some(1) })
}

func TestAClusterThatBreaksItsContractIsAConditionAndNoLoop(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true})
	cluster := w.cluster("demo", fake.WithField("yes", "spec", "paused"))
	m := w.machineWith("m1")
	if got := w.conditionIs(m, contract.ConditionPaused,
		external.ReasonContractViolation); got != "Cluster default/demo breaks contract v1beta2: spec.paused: want bool, found string" {
		t.Errorf("message: %q", got)
	}
	w.isQuiet()
	w.Change(cluster, setPaused(false))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
}

func TestClustersThatAreNotServedOrNotListedAreTroubleThatAPersonSees(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	w := worldIn(t, testenv.Over(t, store))
	mgr := w.manager("none")
	_, err := external.ClustersFromManager(mgr, external.ClusterOptions{Version: "v1alpha3"})
	require.ErrorIs(t, err, contract.ErrUnknownVersion)

	clock := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{Clock: clock})
	require.NoError(t, err)
	says := func(what, reason string) {
		t.Helper()
		view, err := clusters.Of(t.Context(), types.NamespacedName{Namespace: "default", Name: "demo"})
		require.NoError(t, err, what)
		require.False(t, view.Presence != external.Unread || view.Problem.Reason != reason || view.RetryAfter <= 0, what)
	}
	says("there is no such kind", external.ReasonVersionNotServed)
	w.Create(fake.CRD(fake.ClusterGVK()))
	says("many Machines do not look more often than one", external.ReasonVersionNotServed)
	clock.SetTime(clock.Now().Add(10 * time.Second))
	says("the kind is there, and its list may take a moment", "") // this manager is never started
	clock.SetTime(clock.Now().Add(time.Minute))
	says("its list takes too long", external.ReasonCacheNotSynced)
}
