package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func TestAMachineOfAnotherControllerIsLeftAloneCompletely(t *testing.T) {
	t.Parallel()
	var seen passes
	w := newWorld(t, worldOptions{clusters: true, machine: machine.Options{
		Steps: watching(t, &seen), Options: pass.Options{WatchFilter: "ours"},
	}})
	cluster := w.cluster("demo")
	labelled := func(value string) fake.Option {
		return fake.WithLabels(map[string]string{contract.WatchFilterLabel: value})
	}
	ours := w.machineWith("ours", labelled("ours"))
	theirs, nobodys := w.machineWith("theirs", labelled("theirs")), w.machineWith("nobodys")
	w.conditionIs(ours, contract.ConditionReady, contract.ReasonReady)
	// None of these events is for them.
	w.change(cluster, func(u *unstructured.Unstructured) { fake.WithField("x", "spec", "controlPlaneRef", "name")(u) })
	w.change(fake.InfraMachine(contract.V1Beta2, "theirs"), labelled("anything"))
	w.change(theirs, func(u *unstructured.Unstructured) {
		fake.WithField(w.node("ours").Spec.ProviderID, "spec", "providerID")(u)
	})
	require.NoError(t, w.client.Delete(t.Context(), fake.InfraMachine(contract.V1Beta2, "nobodys")))
	w.isQuiet()
	for _, m := range []*unstructured.Unstructured{theirs, nobodys} {
		seen.mu.Lock()
		_, looked := seen.last[m.GetName()]
		seen.mu.Unlock()
		if looked || len(w.get(m).GetFinalizers()) > 0 || describe(w.get(m)) != "" {
			t.Errorf("%s was touched", m.GetName())
		}
	}
	// Handing a Machine over is a matter of its label.
	w.create(fake.InfraMachine(contract.V1Beta2, "nobodys"))
	w.change(nobodys, labelled("ours"))
	w.conditionIs(nobodys, contract.ConditionReady, contract.ReasonReady)
}

// Edge-case matrix: "Machine deleted before finalizer patch landed".
func TestAMachineDeletedBeforeItsFinalizerLandedVanishesAndHasTouchedNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{before: func(w *world) {
		w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.Verb == "patch" && r.GVK.Kind == "Machine"
		}})
	}})
	m := w.machineWith("m1")
	w.eventually("an attempt to write the finalizer", func() string {
		if w.writes()["Machine"] == 0 {
			return "there was none"
		}
		return ""
	})
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	w.isQuiet()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")} {
		if fresh := w.get(obj); fresh == nil || len(fresh.GetOwnerReferences()) > 0 {
			t.Errorf("%s was taken on by a Machine that nothing would have kept", obj.GetKind())
		}
	}
}
