package machineset_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// requests counts the requests of the reconciler since the last call, without events, which are sent when it suits the recorder, the
// status, of which there is one in Options.StatusDelay, and conflicts, after which a pass decides again.
func (w *world) requests() map[string]int {
	w.t.Helper()
	w.Quiet(userAgent, 300*time.Millisecond)
	counts := map[string]int{}
	for _, r := range w.Store.Requests() {
		if r.UserAgent == userAgent && r.Verb != "watch" && r.GVK.Kind != "Event" && r.Subresource == "" && r.Code != http.StatusConflict {
			counts[r.Verb+" "+r.GVK.Kind]++
		}
	}
	for _, asked := range []string{"get MachineSet", "list Machine"} {
		counts[asked] = min(counts[asked], 1) // a pass whose cache was behind asks again
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	w.Store.ResetRequests()
	return counts
}

func TestASetMakesThreeRequestsForANewMachineAndOneForAnOldOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	// However slow this test is, the status is written when the set begins, and not again.
	w.run(machineset.Options{Options: pass.Options{StatusDelay: time.Hour}})
	set := w.set("workers", 1)
	w.Create(set)
	w.exist(set, 1)
	w.requests()
	for _, tc := range []struct {
		to   int64
		want map[string]int
	}{
		{to: 2, want: map[string]int{"create FakeConfig": 1, "create FakeMachine": 1, "create Machine": 1, "patch MachineSet": 2,
			"list Machine": 1}},
		{to: 8, want: map[string]int{"create FakeConfig": 6, "create FakeMachine": 6, "create Machine": 6, "patch MachineSet": 2,
			"list Machine": 1}},
		{to: 7, want: map[string]int{"delete Machine": 1, "get MachineSet": 1, "list Machine": 1}},
		{to: 1, want: map[string]int{"delete Machine": 6, "get MachineSet": 1, "list Machine": 1}},
	} {
		w.scale(set, tc.to)
		w.exist(set, int(tc.to))
		if diff := cmp.Diff(tc.want, w.requests()); diff != "" {
			t.Errorf("requests to get to %d Machines (-want +got):\n%s", tc.to, diff)
		}
	}
}

// exist waits until a set has so many Machines, all of which are available, and its ledger says that it is about to create none. A Machine
// that changes while it is deleted is deleted again.
func (w *world) exist(set *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.Eventually("have so many Machines", func() string {
		ledger := w.Get(set).GetAnnotations()[scale.LedgerAnnotation]
		if there := len(w.machines()); there != n || strings.Contains(ledger, "pending") {
			return fmt.Sprintf("want %d, got %d, and the ledger %s", n, there, ledger)
		}
		for _, m := range w.machines() {
			if c := testenv.Condition(&m, contract.ConditionAvailable); c.Status != metav1.ConditionTrue {
				return m.GetName() + " is not available"
			}
		}
		return ""
	})
}

// disorderly names the fields that it gives a Machine in another order each time: a MachineMaker promises none.
type disorderly struct {
	contract.MachineMaker

	calls *atomic.Int64
}

func (d disorderly) SyncMachine(set, machine contract.Object, given []string) ([]string, error) {
	now, err := d.MachineMaker.SyncMachine(set, machine, given)
	if now = slices.Clone(now); d.calls.Add(1)%2 == 0 {
		slices.Reverse(now)
	}
	return now, err
}

func TestTheSameFieldsInAnotherOrderAreNoReasonToWriteAMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{})
	calls := &atomic.Int64{}
	w.kinds.Maker = disorderly{w.kinds.Maker, calls}
	w.run(machineset.Options{})
	set := w.set("workers", 1, fake.WithField(map[string]any{
		"nodeDrainTimeoutSeconds": int64(30), "nodeDeletionTimeoutSeconds": int64(10), "nodeVolumeDetachTimeoutSeconds": int64(20),
	}, "spec", "template", "spec", "deletion"))
	w.Create(set)
	w.has(set, 1)
	version := func() string { return w.machines()[0].GetResourceVersion() }
	before := version()
	for i, order := range []string{"Newest", "Oldest", "Newest"} { // each is a new generation, for which the Machine is looked at again
		seen := calls.Load()
		w.Change(set, fake.WithField(order, "spec", "deletion", "order"))
		w.until("look at the Machine again", func() bool {
			fresh := w.Get(set)
			return calls.Load() != seen && testenv.Number(fresh, "status", "observedGeneration") == fresh.GetGeneration()
		})
		require.Equal(t, before, version(), "change %d", i)
	}
}

func TestALabelReachesMachinesOfASharedClassAndNotTheClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(machineset.Options{Shared: func(ref contract.Ref) bool { return ref.Kind == infraGVK().Kind }})
	class := testenv.Object(infraGVK(), "small")
	set := w.set("workers", 2, fake.WithField(map[string]any{
		"bootstrap":         map[string]any{"dataSecretName": "data"},
		"infrastructureRef": map[string]any{"apiGroup": infraGVK().Group, "kind": infraGVK().Kind, "name": "small"},
	}, "spec", "template", "spec"))
	w.Create(class, set)
	w.until("two Machines", func() bool { return testenv.Number(w.Get(set), "status", "readyReplicas") == 2 })
	before := w.Get(class).GetResourceVersion()
	w.Change(set, fake.WithField("b", "spec", "template", "metadata", "labels", "tier"))
	w.Eventually("the label", func() string {
		for _, m := range w.machines() {
			if m.GetLabels()["tier"] != "b" {
				return fmt.Sprint(m.GetLabels())
			}
		}
		if testenv.Number(w.Get(set), "status", "deprecated", "v1beta1", "fullyLabeledReplicas") != 2 {
			return w.describe(set)
		}
		return ""
	})
	w.Quiet(userAgent, 200*time.Millisecond)
	require.Equal(t, before, w.Get(class).GetResourceVersion(), "nobody writes to the class")
}

func TestRightsAreThoseOfTheParts(t *testing.T) {
	flat := func(w machineset.Wiring) map[string][]string {
		all := map[string][]string{}
		for _, r := range machineset.PolicyRules(w) {
			for _, resource := range r.Resources {
				for _, group := range r.APIGroups {
					all[resource+"."+group] = r.Verbs
				}
			}
		}
		return all
	}
	inAnyOrder := cmpopts.SortSlices(strings.Compare)
	kinds := kindsOf(t)
	owns := []string{"get", "list", "watch", "create", "patch", "delete"}
	bare := map[string][]string{
		"machinesets.cluster.x-k8s.io": {"get", "list", "watch", "patch"}, "machinesets/status.cluster.x-k8s.io": {"patch"},
		"machines.cluster.x-k8s.io": owns, "machines/status.cluster.x-k8s.io": {"patch"},
	}
	if diff := cmp.Diff(bare, flat(machineset.Wiring{Kinds: kinds}), inAnyOrder); diff != "" {
		t.Errorf("without anything else (-want +got):\n%s", diff)
	}
	full := map[string][]string{
		"machinesets/finalizers.cluster.x-k8s.io": {"update"},
		"ms.example.com": {"get", "list", "watch", "create", "patch"}, "t.example.com": {"list", "watch", "patch", "delete"},
		"clusters.cluster.x-k8s.io": {"get", "list", "watch"}, "planes.example.com": {"list", "watch"},
		"customresourcedefinitions.apiextensions.k8s.io": {"list", "watch"}, "events.events.k8s.io": {"create", "patch"},
	}
	maps.Copy(full, bare)
	// the admission plugin OwnerReferencesPermissionEnforcement asks for the right to delete what gets its Cluster as an owner
	full["machinesets.cluster.x-k8s.io"] = []string{"get", "list", "watch", "patch", "delete"}
	at := func(resource string) []schema.GroupResource {
		return []schema.GroupResource{{Group: "example.com", Resource: resource}}
	}
	got := flat(machineset.Wiring{
		Kinds: kinds, Templates: at("t"), References: at("ms"), Clusters: true, ControlPlanes: at("planes"), Events: true,
		OwnerReferencesEnforced: true,
	})
	if diff := cmp.Diff(full, got, inAnyOrder); diff != "" {
		t.Errorf("with everything (-want +got):\n%s", diff)
	}
}
