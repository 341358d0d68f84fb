package deployment_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// countingMaker counts the sets that are made, also for a comparison only.
type countingMaker struct {
	contract.MachineSetMaker

	made *atomic.Int32
}

func (m countingMaker) NewSet(d contract.Object, seed contract.MachineSetSeed) (contract.Object, error) {
	m.made.Add(1)
	return m.MachineSetMaker.NewSet(d, seed)
}

func TestADeploymentWithOneSetComparesItWithNoOther(t *testing.T) {
	t.Parallel()
	kinds := clusterAPI()
	var made atomic.Int32
	kinds.SetMaker = countingMaker{kinds.SetMaker, &made}
	w := newWorldOf(t, kinds).live()
	w.run()
	made.Store(0) // New has made one of an empty deployment
	w.rolled(w.deployment(3), "blue", 3)
	require.EqualValues(t, 2, made.Load(), "the set, and the digest that it is labelled with")
}

// A rollout goes in rounds of as many Machines as there may be more than wanted; here that is one.
func TestARoundOfARolloutMakesSevenRequestsForItsSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.machines.NotReady(w.isBeingCreated)
	w.run()
	const rounds = 6
	d := w.deployment(rounds)
	w.rolled(d, "blue", rounds)
	w.Store.ResetRequests()
	w.rollTo(d, "green", rounds)
	counts := map[string]int{}
	for _, r := range w.Store.Requests() {
		// Of what the sets and the stand-in for the reconciler of Machines do, only what is about sets.
		ours := r.UserAgent == "deployments" || (r.UserAgent == "others" && (r.GVK.Kind == w.kinds.Set.GVK.Kind || r.Verb == "list"))
		if ours && r.Code < 300 && r.Verb != "watch" && r.Subresource == "" && r.GVK.Kind != "Event" {
			counts[r.UserAgent+": "+r.Verb+" "+r.GVK.Kind]++
		}
	}
	for asked, most := range map[string]int{"others: get MachineSet": rounds, "others: list Machine": 2*rounds - 1,
		"deployments: list MachineSet": 2 * rounds, "deployments: list Machine": 2 * rounds} {
		counts[asked] = min(counts[asked], most) // a pass whose cache was behind asks again
	}
	const patchSets = "deployments: patch MachineSet" // replicas of both, and limits of the old one once more while the other is unseen
	require.Contains(t, []int{2 * rounds, 2*rounds + 2}, counts[patchSets])
	delete(counts, patchSets)
	want := map[string]int{
		"deployments: create MachineSet": 1, "deployments: patch MachineDeployment": 3, // the ledger, twice, and the revision
		"others: patch MachineSet": 2*rounds + 1,                                 // the ledger, twice each time, and the finalizer
		"others: get MachineSet":   rounds, "others: list Machine": 2*rounds - 1, // before creations, and before deletions that leave others
		// Before the creation, and each time that one of the two is scaled. All Machines that go but the last one are marked.
		"deployments: list MachineSet": 2 * rounds, "deployments: list Machine": 2 * rounds, "deployments: patch Machine": rounds - 1,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// isBeingCreated reports whether the set of a Machine has yet to say in its ledger that it has created it. Until then a change of the set
// would be in conflict with that, and the next creation would say it too.
func (w *world) isBeingCreated(m client.Object) bool {
	set := testenv.Object(w.kinds.Set.GVK, metav1.GetControllerOf(m).Name)
	err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(set), set)
	return err != nil || strings.Contains(set.GetAnnotations()[scale.LedgerAnnotation], "pending")
}

// Writes that are put off because others undo them are counted.
func TestUndoneWrites(t *testing.T) {
	t.Parallel()
	t.Run("a rollout of 200 Machines has none", func(t *testing.T) {
		t.Parallel()
		w, d := rolledOut(t, 200, fake.WithField("25%", "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"))
		w.rollTo(d, "green", 200)
		require.Equal(t, map[string]float64{"machinist_machinedeployment_undone_writes_total": 0, "machinist_machineset_undone_writes_total": 0},
			w.undone())
	})
}

// undone returns the counters of writes that were put off.
func (w *world) undone() map[string]float64 {
	w.t.Helper()
	counts := map[string]float64{}
	for _, m := range w.metrics {
		registry := prometheus.NewPedanticRegistry()
		require.NoError(w.t, registry.Register(m))
		families, err := registry.Gather()
		require.NoError(w.t, err)
		for _, f := range families {
			if strings.HasSuffix(f.GetName(), "_undone_writes_total") {
				counts[f.GetName()] += f.GetMetric()[0].GetCounter().GetValue()
			}
		}
	}
	return counts
}
