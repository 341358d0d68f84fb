package machineset_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
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
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && r.Verb != "watch" && r.GVK.Kind != "Event" && r.Subresource == "" && r.Code != http.StatusConflict {
			counts[r.Verb+" "+r.GVK.Kind]++
		}
	}
	for _, asked := range []string{"get MachineSet", "list Machine"} {
		counts[asked] = min(counts[asked], 1) // a pass whose cache was behind asks again
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	w.store.ResetRequests()
	return counts
}

func TestASetMakesThreeRequestsForANewMachineAndOneForAnOldOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	// However slow this test is, the status is written when the set begins, and not again.
	w.run(machineset.Options{Options: pass.Options{StatusDelay: time.Hour}})
	set := w.set("workers", 1)
	w.create(set)
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
	w.eventually("have so many Machines", func() string {
		ledger := w.get(set).GetAnnotations()[scale.LedgerAnnotation]
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
