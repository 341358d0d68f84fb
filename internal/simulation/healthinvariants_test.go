package simulation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// A pass that repeats a mark has nothing to add to the ledger that its cache shows, and so does not learn that a person has removed it.
func TestAMarkIsJudgedByTheLedgerThatThePassCouldKnow(t *testing.T) {
	t.Parallel()
	check := func(version string, decided ...types.UID) *unstructured.Unstructured {
		obj, ledger := fake.MachineHealthCheck(CheckName, nil, 0), healthcheck.Ledger{Check: "c"}
		for _, uid := range decided {
			ledger.InFlight = append(ledger.InFlight, healthcheck.Entry{Machine: uid, Decided: true})
		}
		obj.SetUID("c")
		obj.SetResourceVersion(version)
		obj.SetAnnotations(map[string]string{healthcheck.LedgerAnnotation: ledger.String()})
		return obj
	}
	machine := fake.Machine("m")
	machine.SetUID("m")
	for name, test := range map[string]struct {
		read, lost, stored *unstructured.Unstructured
		fails              bool
	}{
		"it is stored":                                 {read: check("7"), stored: check("8", "m")},
		"it is not stored":                             {read: check("7"), stored: check("8"), fails: true},
		"another process has changed it":               {read: check("7", "m"), stored: check("8"), fails: true},
		"it was lost after the version that was read":  {read: check("9", "m"), lost: check("10"), stored: check("10")},
		"it was lost, and never had the Machine":       {read: check("9"), lost: check("10"), stored: check("10"), fails: true},
		"it was lost in the version that was read":     {read: check("10"), lost: check("10"), stored: check("10"), fails: true},
		"it was lost, and is stored again":             {read: check("10"), lost: check("10"), stored: check("11", "m")},
		"it was lost before the version that was read": {read: check("11", "m"), lost: check("10"), stored: check("12"), fails: true},
	} {
		w := &World{health: &health{watch: newWatch()}, objects: map[string]map[types.NamespacedName]*unstructured.Unstructured{}}
		if test.lost != nil {
			w.objects[checkKind] = map[types.NamespacedName]*unstructured.Unstructured{checkKey(): test.lost}
			w.health.watch.forget(w)
		}
		err := remembersMarks(w, &marked{
			after: machine, name: "m", stored: test.stored, shown: test.read, pass: &passing{began: 1, shown: test.read},
		})
		require.Equal(t, test.fails, err != nil, "%s: %v", name, err)
	}
}
