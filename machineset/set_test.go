package machineset_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetGrowsAndShrinksAndGoes(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 7)
	w.Eventually("be ready", func() string {
		for _, field := range []string{"readyReplicas", "availableReplicas", "upToDateReplicas"} {
			if testenv.Number(w.Get(set), "status", field) != 7 {
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
	infra := w.Get(testenv.Object(infraGVK(), machine.GetName()))
	require.Equal(t, "large", testenv.Text(infra, "spec", "size"))
	require.Equal(t, "workers", infra.GetAnnotations()[contract.ClonedFromNameAnnotation])

	w.scale(set, 2)
	w.has(set, 2)
	w.scale(set, 4)
	w.has(set, 4)
	ledger, err := scale.ParseLedger(w.Get(set).GetAnnotations()[scale.LedgerAnnotation])
	require.NoError(t, err)
	require.EqualValues(t, 10, ledger.Next, "slots are never used again")
	require.Empty(t, ledger.Pending)
	require.Equal(t, "cluster.x-k8s.io/cluster-name=demo,pool=workers", testenv.Text(w.Get(set), "status", "selector"))

	require.NoError(t, w.Client.Delete(t.Context(), set))
	w.has(set, 0)
	w.Gone(set)
	w.oneForEachSlot()
}

func TestWhatChangesInPlaceReachesMachinesAndWhatOthersWroteStays(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 2)
	uids := map[string]bool{}
	for _, m := range w.machines() {
		uids[string(m.GetUID())] = true
		w.Change(&m, func(u *unstructured.Unstructured) {
			u.SetLabels(merge(u.GetLabels(), map[string]string{"mine": "1"}))
			_ = unstructured.SetNestedField(u.Object, int64(5), "spec", "deletion", "nodeVolumeDetachTimeoutSeconds")
		})
	}
	w.Change(set, func(u *unstructured.Unstructured) {
		meta := []string{"spec", "template", "metadata"}
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"pool": "workers", "new": "2"}, append(meta, "labels")...)
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"other": "y"}, append(meta, "annotations")...)
		_ = unstructured.SetNestedField(u.Object, int64(30), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds")
		_ = unstructured.SetNestedField(u.Object, "v1.99.0", "spec", "template", "spec", "version")
	})
	check := func(drain any, labels map[string]string) {
		t.Helper()
		w.Eventually("the Machines to follow", func() string {
			for _, m := range w.machines() {
				want := merge(labels, map[string]string{"mine": "1", contract.SetNameLabel: "workers", contract.ClusterNameLabel: "demo",
					"pool": "workers"})
				got, _, _ := unstructured.NestedFieldNoCopy(m.Object, "spec", "deletion", "nodeDrainTimeoutSeconds")
				if diff := cmp.Diff(want, m.GetLabels()); diff != "" || got != drain {
					return diff
				}
				infra := w.Get(testenv.Object(infraGVK(), m.GetName()))
				if _, stale := infra.GetLabels()["tier"]; stale || infra.GetLabels()["new"] != labels["new"] {
					return "infrastructure is behind"
				}
			}
			return ""
		})
	}
	check(int64(30), map[string]string{"new": "2"})
	w.Change(set, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "template", "spec", "deletion")
		unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "labels", "new")
	})
	check(nil, nil)
	for _, m := range w.machines() {
		require.True(t, uids[string(m.GetUID())], "the Machines are the same ones")
		require.Equal(t, "v1.36.3", testenv.Text(&m, "spec", "version"), "what a machine is made of does not change in place")
		require.EqualValues(t, 5, testenv.Number(&m, "spec", "deletion", "nodeVolumeDetachTimeoutSeconds"))
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

// No set owns such a Machine yet, so that its event has to find the sets whose labels it has.
func TestASetAdoptsAMachineThatAppearsWhileItIsAtRest(t *testing.T) {
	t.Parallel()
	w, _ := newSet(t, 1)
	w.Quiet(userAgent, 500*time.Millisecond)
	stray := w.stray("stray", "workers")
	w.until("adopt it", func() bool {
		m := w.Get(stray)
		return m == nil || m.GetDeletionTimestamp() != nil || metav1.GetControllerOf(m) != nil
	})
	w.until("have one", func() bool { return len(w.machines()) == 1 })
}

func TestASetWithoutReplicasKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{})
	without := func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }
	set := w.set("workers", 7, without, fake.WithAnnotations(map[string]string{contract.MinSizeAnnotation: "2"}))
	w.Create(set)
	w.has(set, 2)
	w.scale(set, 4)
	w.has(set, 4)
	w.Change(set, without)
	w.until("its present number", func() bool { return testenv.Number(w.Get(set), "spec", "replicas") == 4 })
	one := w.machines()[0]
	require.NoError(t, w.Client.Delete(t.Context(), &one))
	w.Gone(&one)
	w.has(set, 4)
}
