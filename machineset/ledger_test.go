package machineset_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Whoever moves a set to another API server, or restores it, brings its annotations along, and the set may come before its Machines.
func TestASetThatWasRestoredBeforeItsMachinesWaitsForThem(t *testing.T) {
	t.Parallel()
	led := func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{
			scale.LedgerAnnotation: `{"uid":"of-the-old-cluster","next":9,"pending":[{"slot":8,"name":"old"}]}`,
		})
	}
	said := func(w *world, set *unstructured.Unstructured) {
		w.Change(set, annotated(machineset.RestoredAnnotation, string(set.GetUID())))
	}
	machine := func(w *world, name string, owners ...metav1.OwnerReference) {
		m := testenv.Object(w.kinds.Machine.GVK, name)
		m.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
		m.Object["spec"] = map[string]any{"clusterName": "demo"}
		m.SetOwnerReferences(owners)
		w.Create(m)
	}
	for name, tc := range map[string]struct {
		options machineset.Options
		end     func(w *world, set *unstructured.Unstructured)
		made    int
	}{
		"until all are there": {end: func(w *world, _ *unstructured.Unstructured) { machine(w, "c") }},
		"until they come as those of the set of before": {end: func(w *world, _ *unstructured.Unstructured) {
			machine(w, "c", metav1.OwnerReference{
				APIVersion: w.kinds.Set.GVK.GroupVersion().String(), Kind: "MachineSet", Name: "workers", UID: "of-the-old-cluster",
				Controller: new(true),
			})
		}},
		"until a person says so": {end: said, made: 1},
		"until no more are wanted": {end: func(w *world, set *unstructured.Unstructured) {
			w.scale(set, 2)
			w.conditionSays(set, contract.ConditionScalingUp, "")
			w.until("end the wait", func() bool {
				return !strings.Contains(w.Get(set).GetAnnotations()[scale.LedgerAnnotation], "of-the-old-cluster")
			})
			w.scale(set, 3)
		}, made: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, fake.Options{}, fake.Loops{}) // no garbage collector
			set := w.set("workers", 3, led)
			w.Create(set)
			stop := w.run(tc.options)
			c := w.conditionSays(set, contract.ConditionScalingUp, "0 of 3 are there")
			require.Equal(t, machineset.ReasonMachinesNotRestored, c.Reason)
			require.Contains(t, c.Message, machineset.RestoredAnnotation+" to "+string(set.GetUID()))
			require.Empty(t, w.machines())
			machine(w, "a")
			w.conditionSays(set, contract.ConditionScalingUp, "1 of 3 are there")
			stop()
			w.run(tc.options) // another process knows as much
			machine(w, "b")
			w.conditionSays(set, contract.ConditionScalingUp, "2 of 3 are there")
			tc.end(w, set)
			w.until("have three Machines", func() bool {
				return w.condition(set, contract.ConditionScalingUp).Status == metav1.ConditionFalse && len(w.machines()) == 3
			})
			for _, name := range []string{"a", "b"} {
				m := w.Get(testenv.Object(w.kinds.Machine.GVK, name))
				require.NotNil(t, m)
				require.Nil(t, m.GetDeletionTimestamp(), name)
			}
			require.Len(t, w.List(infraGVK()), tc.made, "what was restored is not made again")
			ledger, err := scale.ParseLedger(w.Get(set).GetAnnotations()[scale.LedgerAnnotation])
			require.NoError(t, err)
			require.Equal(t, set.GetUID(), ledger.Set)
		})
	}
}

// What cannot be read may say that a slot is taken: what was made for it is still wanted when a person has corrected the ledger.
func TestNothingIsCleanedUpWhileTheLedgerCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	set := w.set("workers", 1)
	set.SetAnnotations(map[string]string{scale.LedgerAnnotation: "?"})
	w.Create(set)
	part := testenv.Object(infraGVK(), w.nameOf(set, 1))
	part.SetAnnotations(scale.Stamp{Set: set.GetUID(), Slot: 1}.Annotations())
	part.SetLabels(map[string]string{contract.SetNameLabel: "workers"})
	w.Create(part)
	w.run(machineset.Options{})
	for n := range int64(5) { // a pass ends with what it writes into the status
		w.scale(set, n+2)
		w.conditionSays(set, contract.ConditionScalingUp, fmt.Sprintf("from 0 to %d replicas", n+2))
		w.conditionSays(set, contract.ConditionScalingUp, "annotation machinist.dev/creations")
	}
	require.NotNil(t, w.Get(part), "it was cleaned up")
	w.scale(set, 1)
	w.Change(set, annotated(scale.LedgerAnnotation, fmt.Sprintf(`{"next":2,"pending":[{"slot":1,"name":%q}]}`, part.GetName())))
	w.has(set, 1)
	require.Equal(t, part.GetName(), w.machines()[0].GetName())
	require.Equal(t, part.GetUID(), w.Get(part).GetUID())
}

func TestASetWhoseNamesRunOutSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{})
	set := w.set("workers", 30, fake.WithField(`w{{ printf "%.1s" .random }}`, "spec", "machineNaming", "template"))
	w.Create(set)
	w.conditionSays(set, contract.ConditionScalingUp, "give it more random characters")
	w.scale(set, 2)
	w.has(set, 2)
}

// reconciler is one without a controller, for a look at what a pass returns.
func (w *world) reconciler(change func(ctrl.Manager, *pass.Ports)) *machineset.Reconciler {
	w.t.Helper()
	return w.reconcilerWith(machineset.Options{Options: pass.Options{StatusDelay: -1}}, change)
}

func (w *world) reconcilerWith(options machineset.Options, change func(ctrl.Manager, *pass.Ports)) *machineset.Reconciler {
	w.t.Helper()
	mgr := w.Manager(userAgent, ctrl.Options{})
	ports := pass.PortsFromManager(mgr)
	change(mgr, &ports)
	r, err := machineset.New(w.kinds, ports, options)
	require.NoError(w.t, err)
	require.NoError(w.t, r.IndexMachines(w.t.Context()))
	w.Run(mgr)
	require.True(w.t, mgr.GetCache().WaitForCacheSync(w.t.Context()))
	return r
}

// fails waits for a pass to fail with a text.
func (w *world) fails(r *machineset.Reconciler, set *unstructured.Unstructured, text string) {
	w.t.Helper()
	w.Eventually("fail", func() string {
		result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err == nil {
			return "it says that all is well, and asks for " + result.RequeueAfter.String()
		}
		if !strings.Contains(err.Error(), text) {
			return err.Error()
		}
		return ""
	})
}

// A pass that is tried again in silence, each second, tells a person nothing.
func TestAProblemWithTheKindOfAPartIsReportedWhenItDelaysTheMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	stop := w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.Create(set)
	w.has(set, 1)
	stop()
	crd := fake.CRD(infraGVK(), contract.V1Beta2)
	w.Change(crd, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	w.Change(set, fake.WithField("b", "spec", "template", "metadata", "labels", "tier"))
	w.fails(w.reconciler(func(ctrl.Manager, *pass.Ports) {}), set, "has no supported contract label")
}

// Preflight checks are made before a creation, so they are in the way of nothing else.
func TestAControlPlaneThatCannotBeReadKeepsASetFromCreatingOnly(t *testing.T) {
	t.Parallel()
	plane := infraGVK().GroupVersion().WithKind("FakeControlPlane")
	for name, tc := range map[string]struct {
		version any
		says    string
	}{
		"a version that is none":    {"latest", "version of the control plane"},
		"a version of another type": {int64(1), "spec.version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{}).live()
			w.Create(fake.CRD(plane, contract.V1Beta2))
			control := testenv.Object(plane, "demo")
			control.Object["spec"] = map[string]any{"version": "v1.36"}
			w.Create(control)
			control.Object["status"] = map[string]any{"version": "v1.36.3"}
			require.NoError(t, w.Client.Status().Update(t.Context(), control))
			w.Create(fake.Cluster("demo",
				fake.WithField(map[string]any{"apiGroup": plane.Group, "kind": plane.Kind, "name": "demo"}, "spec", "controlPlaneRef")))
			mgr := w.runWithClusters()
			set := w.set("workers", 2)
			w.Create(set)
			w.has(set, 2)
			w.Change(control, fake.WithField(tc.version, "spec", "version"))
			w.until("the cache to show the version", func() bool { // the set may be shown before its control plane is
				have := testenv.Object(plane, "demo")
				require.NoError(t, mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(have), have))
				version, _, _ := unstructured.NestedFieldNoCopy(have.Object, "spec", "version")
				return version == tc.version
			})
			w.scale(set, 3)
			w.conditionSays(set, contract.ConditionScalingUp, tc.says)
			w.scale(set, 1)
			w.has(set, 1)
		})
	}
}

// A process made the Machine and died before it could say so, and a person deletes the Machine: for as long as that takes it is there,
// whether or not the caches of the next process show it.
func TestAMachineOnItsWayOutCountsAlthoughTheCachesHaveYetToShowIt(t *testing.T) {
	t.Parallel()
	l := newHalfLed(t)
	machines := l.machines()
	require.NoError(t, l.Client.Delete(t.Context(), &machines[0]))
	l.passes(5, func(at map[string]int) { at[l.kinds.Machine.GVK.Kind] = 0 })
	require.Len(t, l.machines(), 1, l.describe(l.set))
	l.Change(&machines[0], func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	l.settle()
	require.Len(t, l.machines(), 1, "now there is room")
	require.NotEqual(t, machines[0].GetName(), l.machines()[0].GetName())
}

// A manifest of before is applied once more, and wants one more.
func TestASetWhoseLedgerIsPutBackAsItGrowsGoesOnBehindAllItsSlots(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 2)
	w.Change(set, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{scale.LedgerAnnotation: `{"next":1}`})
	}, fake.WithField(int64(3), "spec", "replicas"))
	w.has(set, 3)
	w.oneForEachSlot()
}

func TestASetInDeletionStaysWhileTheAPIServerHasAMachineOfIt(t *testing.T) {
	t.Parallel()
	l := newLed(t, 2)
	l.leader = newLeader(l.world, l.history, l.leader.clock, nil, func() bool { return false })
	l.Delete(l.set)
	l.passes(5, func(at map[string]int) { at[l.kinds.Machine.GVK.Kind] = 0 })
	require.NotNil(t, l.Get(l.set), "its Machines would be nobody's")
	require.Len(t, l.machines(), 2)
	l.settle()
	for _, m := range l.machines() {
		require.NotNil(t, m.GetDeletionTimestamp())
		l.Change(&m, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	}
	l.settle()
	require.Nil(t, l.Get(l.set))
}
