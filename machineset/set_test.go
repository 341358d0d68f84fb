package machineset_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetGrowsAndShrinksAndGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 7)
	w.create(set)
	w.has(set, 7)
	w.eventually("be ready", func() string {
		for _, field := range []string{"readyReplicas", "availableReplicas", "upToDateReplicas"} {
			if got, _, _ := unstructured.NestedInt64(w.get(set).Object, "status", field); got != 7 {
				return w.describe(set)
			}
		}
		return ""
	})
	machine := w.machines()[0]
	require.Equal(t, []string{contract.MachineFinalizer}, machine.GetFinalizers())
	require.Equal(t, set.GetUID(), metav1.GetControllerOf(&machine).UID)
	require.Equal(t, "workers", machine.GetLabels()[contract.SetNameLabel])
	require.Equal(t, "demo", machine.GetLabels()[contract.ClusterNameLabel])
	stamp := machine.GetAnnotations()[scale.StampAnnotation]
	require.Equal(t, fmt.Sprintf("%s/%d", set.GetUID(), scale.ReadStamp(machine.GetAnnotations()).Slot), stamp)
	infra := w.get(object(infraGVK(), machine.GetName()))
	size, _, _ := unstructured.NestedString(infra.Object, "spec", "size")
	require.Equal(t, "large", size)
	require.Equal(t, "workers", infra.GetAnnotations()[contract.ClonedFromNameAnnotation])

	w.scale(set, 2)
	w.has(set, 2)
	w.scale(set, 4)
	w.has(set, 4)
	ledger, err := scale.ParseLedger(w.get(set).GetAnnotations()[scale.LedgerAnnotation])
	require.NoError(t, err)
	require.EqualValues(t, 10, ledger.Next, "slots are never used again")
	require.Empty(t, ledger.Pending)
	selector, _, _ := unstructured.NestedString(w.get(set).Object, "status", "selector")
	require.Equal(t, "cluster.x-k8s.io/cluster-name=demo,pool=workers", selector)

	require.NoError(t, w.client.Delete(t.Context(), set))
	w.has(set, 0)
	w.eventually("the set to go", func() string {
		if w.get(set) != nil {
			return w.describe(set)
		}
		return ""
	})
	w.oneForEachSlot()
}

func TestWhatChangesInPlaceReachesMachinesAndWhatOthersWroteStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.create(set)
	w.has(set, 2)
	uids := map[string]bool{}
	for _, m := range w.machines() {
		uids[string(m.GetUID())] = true
		w.change(&m, func(u *unstructured.Unstructured) {
			u.SetLabels(merge(u.GetLabels(), map[string]string{"mine": "1"}))
			_ = unstructured.SetNestedField(u.Object, int64(5), "spec", "deletion", "nodeVolumeDetachTimeoutSeconds")
		})
	}
	w.change(set, func(u *unstructured.Unstructured) {
		meta := []string{"spec", "template", "metadata"}
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"pool": "workers", "new": "2"}, append(meta, "labels")...)
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"other": "y"}, append(meta, "annotations")...)
		_ = unstructured.SetNestedField(u.Object, int64(30), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds")
		_ = unstructured.SetNestedField(u.Object, "v1.99.0", "spec", "template", "spec", "version")
	})
	check := func(drain any, labels map[string]string) {
		t.Helper()
		w.eventually("the Machines to follow", func() string {
			for _, m := range w.machines() {
				want := merge(labels, map[string]string{"mine": "1", contract.SetNameLabel: "workers", contract.ClusterNameLabel: "demo",
					"pool": "workers"})
				got, _, _ := unstructured.NestedFieldNoCopy(m.Object, "spec", "deletion", "nodeDrainTimeoutSeconds")
				if diff := cmp.Diff(want, m.GetLabels()); diff != "" || got != drain {
					return diff
				}
				infra := w.get(object(infraGVK(), m.GetName()))
				if _, stale := infra.GetLabels()["tier"]; stale || infra.GetLabels()["new"] != labels["new"] {
					return "infrastructure is behind"
				}
			}
			return ""
		})
	}
	check(int64(30), map[string]string{"new": "2"})
	w.change(set, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "template", "spec", "deletion")
		unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", "new")
	})
	check(nil, nil)
	for _, m := range w.machines() {
		require.True(t, uids[string(m.GetUID())], "the Machines are the same ones")
		version, _, _ := unstructured.NestedString(m.Object, "spec", "version")
		require.Equal(t, "v1.36.3", version, "what a machine is made of does not change in place")
		volumes, _, _ := unstructured.NestedInt64(m.Object, "spec", "deletion", "nodeVolumeDetachTimeoutSeconds")
		require.EqualValues(t, 5, volumes)
		require.NotContains(t, m.GetAnnotations(), "note")
		require.Equal(t, "y", m.GetAnnotations()["other"])
	}
}

func merge(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		maps.Copy(all, m)
	}
	return all
}

func TestASetAdoptsBeforeItCreatesAndReleasesWhatAUserRelabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	orphan := object(w.kinds.Machine.GVK, "mine-already")
	orphan.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
	orphan.SetFinalizers([]string{contract.MachineFinalizer})
	orphan.Object["spec"] = map[string]any{"clusterName": "demo"}
	other := orphan.DeepCopy()
	other.SetName("another-cluster")
	other.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "other"})
	other.Object["spec"] = map[string]any{"clusterName": "other"}
	w.create(orphan, other)
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.create(set)
	w.eventually("have two Machines", func() string {
		if n := len(w.machines()); n != 3 {
			return w.describe(set)
		}
		return ""
	})
	require.Equal(t, set.GetUID(), metav1.GetControllerOf(w.get(orphan)).UID)
	require.Nil(t, metav1.GetControllerOf(w.get(other)))

	w.change(orphan, func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"pool": "quarantine", contract.ClusterNameLabel: "demo"})
	})
	w.eventually("let go of it and replace it", func() string {
		if metav1.GetControllerOf(w.get(orphan)) != nil || len(w.machines()) != 4 {
			return w.describe(set)
		}
		return ""
	})
}

// No set owns such a Machine yet, so that its event has to find the sets whose labels it has.
func TestASetAdoptsAMachineThatAppearsWhileItIsAtRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.has(set, 1)
	before, calm := -1, 0
	w.eventually("be at rest", func() string {
		made := w.store.CountRequests(func(r fake.Request) bool { return r.UserAgent == userAgent && r.Verb != "watch" })
		if calm++; made != before {
			before, calm = made, 0
		}
		return map[bool]string{true: "it makes requests"}[calm < 25]
	})
	stray := object(w.kinds.Machine.GVK, "stray")
	stray.SetLabels(map[string]string{"pool": "workers", contract.ClusterNameLabel: "demo"})
	stray.Object["spec"] = map[string]any{"clusterName": "demo"}
	w.create(stray)
	w.eventually("adopt it", func() string {
		if m := w.get(stray); m != nil && m.GetDeletionTimestamp() == nil && metav1.GetControllerOf(m) == nil {
			return w.describe(set)
		}
		return ""
	})
	w.eventually("have one", func() string { return map[bool]string{false: w.describe(set)}[len(w.machines()) == 1] })
}
